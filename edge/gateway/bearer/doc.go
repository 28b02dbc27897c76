// Package bearer says who holds a bearer token: a JWT (RFC 7519) whose subject is a user.
//
// # What it guarantees
//
// Every key verifies one algorithm and no other, so that a public key is never taken for a
// secret, and a token without a signature is never believed: a secret HS256, a public key
// in PEM EdDSA, keys of a JWK set whatever asymmetric algorithm they say. A token must
// have a subject that can be a user, and an expiry.
//
// # How it fails
//
// Tokens cannot be taken back before they expire, but for changing the key: let them live
// for minutes. A JWK set that cannot be fetched is fetched again; what was fetched last holds.
package bearer

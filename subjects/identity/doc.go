// Package identity says who may do what on the subjects of a fabric, and mints the
// credentials that prove it.
//
// # What it owns
//
//   - [Role], the nine kinds of parties, and [Permissions], what each may publish and
//     subscribe to.
//   - [Authority], the keys of an operator with one account for the fabric. It writes
//     the account's claims, in which every role is a scoped signing key.
//   - [Issuer], which mints [Credential] values with such signing keys. An application's
//     backend needs nothing else: no call to a server, no list of users anywhere.
//   - The options with which a credential must be used, [Credential.Options] and its
//     relatives: they also give the connection an inbox of its own.
//
// # What it guarantees
//
//   - A credential says of its owner only a name. What the name may do is written
//     in the account, under the key that signed it, so that no token can widen itself.
//   - The name is one token, [subjects.Token], or two for a device: whatever an id
//     contains, "*", ">", a dot or a space, it cannot widen a template.
//   - Inboxes are apart by role and name: _INBOX.viewer.alice is not
//     _INBOX.edge.alice. So nobody reads another's replies by sharing its id, and whoever
//     answers may publish to the inboxes of those who ask, and nowhere else. A reply
//     subject is chosen by who asks: a party that could answer anywhere would write
//     into buckets and streams on behalf of a viewer.
//   - The key pair of a user follows from its role, its name and the signing key.
//     So every token of a user has the same subject, and revoking it needs no record of
//     the tokens that were given out.
//
// # How it fails
//
// With [ErrName] for ids that cannot be named, [ErrTTL], [ErrKey] for keys that are
// damaged or missing, and [ErrCredential] for credentials that cannot be read. A token is
// revoked to the second: one that is minted in the second of the revocation is revoked too.
//
// # Limits
//
// Every shard adds some kilobytes to the account's claims, most of all for keeper and
// fanout, because no wildcard stands for a part of a stream's name. On a server with the
// default message limit of 1 MiB that is enough for more than a hundred shards.
//
// Who may ask JetStream for anything chooses where it answers, and nats-server does not
// compare that with what the asker may publish. So an edge that is broken into can have
// acknowledgements sent to subjects of others; viewers, devices and backends cannot, as
// they may not ask JetStream at all.
package identity

// Package doctor examines a running fabric and the NATS system under it, for an
// operator who wants to know why, or whether all is well.
//
// # What it owns
//
// The checks, and what they say: one [Finding] each, in the order in which things
// depend on each other. [Examine] runs them from outside, with the operator's
// credential: it asks NATS, and it asks the fanout as a viewer would.
//
// # What it guarantees
//
// Nothing of the fabric is changed. The only writes are canaries, keys of a kind that no part
// reads, one in each bucket, that show whether the bucket lets keys expire; they are
// removed again. What could not be looked at is a finding too, never silence.
//
// # How to test against it
//
// On a whole fabric in virtual time, with one thing broken at a time; see this package's
// tests.
package doctor

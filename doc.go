// Package rollcall is the vocabulary of the presence fabric: ids, states, timing
// parameters and the bounds that follow from them. Every other package imports
// it; it imports nothing but the standard library and does no I/O.
//
// # What it owns
//
//   - The words. A user has devices; (user, device) is an [Endpoint]; an endpoint
//     has at most one current connection, held by an edge (a gateway process).
//   - The [State] of a device or user as the fabric knows it, and the [Status]
//     that a viewer is told.
//   - [Params], the timing of a fabric, with [Params.Bounds], the table that says
//     how late each way of leaving can be noticed, and [Params.Validate], which
//     refuses a timing that must flap.
//   - [Ownership], the interface by which keepers and fanouts are given shards.
//
// # What it guarantees
//
// All functions are pure and safe for concurrent use. Durations are
// [time.Duration]; instants on the wire are [Micros], microseconds of store time
// (the clock of the JetStream leader), never of a gateway's wall clock.
//
// # How to test against it
//
// The vectors in testdata come from outside the project and are read as they are.
package rollcall

// Package machine is the keeper's state machine for one shard: a pure function
// of the shard's log. It knows no NATS, no clock and no goroutine.
//
// # What it owns
//
// Users with their endpoints, edges with their leases and claims, and deadlines.
// A claim is a connection that an edge says it holds; at most one claim per
// endpoint is current, the others are stale and their edges are told so.
//
// # What it guarantees
//
//   - The same log gives the same state and the same changes, whatever the
//     batches, and however often it is interrupted: [Machine.Load] with the
//     records written so far, then [Machine.Apply] from the checkpoint on, ends
//     where an uninterrupted run ends. Applying an entry twice changes nothing.
//   - Time is the highest store time applied. Deadlines fire only when a tick is
//     applied, so never ahead of a frame that the log already holds.
//   - A user is offline only after the debounce, and never while an endpoint has
//     a current connection.
//   - Views only move on: a loaded machine that reads again what its predecessor
//     has read publishes no view that is older than the one in the bucket, and
//     tells edges nothing twice.
//   - After a gap in the log no lease expires before one longest renewal, and no
//     debounce ends before it has run once more.
//
// # How it fails
//
// It does not: entries that make no sense are counted in [Stats] and change
// nothing; a difference between edge and keeper is found by the digest of the
// next renewal and repaired from the edge's roster. A roster of which a frame is
// missing, by the frames' numbers, repairs nothing: its end would drop what lives.
//
// # How to use it
//
// Apply messages in order, then [Machine.Take] what must be written: views first,
// then users, then edges, then the checkpoint. That order makes a crash between
// any two writes harmless: where an edge's record is, every user's is.
//
// # How it is tested
//
// Against a naive model over random histories; against itself, restarted at any
// write; against simulated edges whose log, records or frames get lost. Every test
// also computes everything again that the machine keeps up to date. Golden
// histories in testdata show what a log leads to; write them with -update.
package machine

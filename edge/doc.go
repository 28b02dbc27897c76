// Package edge is the library that a chat gateway embeds to tell the fabric who is
// connected. A [Node] is one gateway process, a [Conn] one connection of a device.
//
// # What it owns
//
// The connections of this process: their states, their heartbeats, the end of
// those that fall silent, and one lease in each shard where there are any. A node
// only appends to its own subjects and listens to its own control subject; what a
// user's state is, is the keeper's to decide.
//
// # What it guarantees
//
//   - [Conn.Beat] takes no lock and allocates nothing.
//   - What is told is told exactly once and in order for each shard: one frame is
//     in flight, it names the sequence of the one before, and the same bytes are
//     sent until the store has them.
//   - A connection is never found dead before the idle timeout has passed since its
//     last heartbeat, and at the latest one check interval after it. A process that
//     was stopped for a while grants one heartbeat interval more, because it has
//     not read its sockets either. With a [Config.Detector] it may be found sooner, but
//     never before a heartbeat was due.
//   - While the store is away only the net state is kept: at most one change for
//     each connection that is there or was told to the store. What came and went
//     meanwhile is never told.
//   - Times are store time, estimated on the monotonic clock; the wall clock is
//     never read. The epochs of a shard only grow. An epoch is fixed when the
//     connection is first told, from the instant at which it was established.
//   - Renewals carry count and digest as of their place in the log, so a keeper
//     notices if the two disagree, whatever the cause.
//   - Raw heartbeats are published at least once, and may be dropped, counted, if
//     the store stays away for long. They never delay a frame.
//
// # How it fails
//
// A crash loses what is not told: the lease runs out, and the next process under
// the same id ends it sooner. A store that is away is waited for. A store that has
// lost what it acknowledged is told everything again. A second process with the
// same id wins, and the first ends with [ErrReplaced]. Where the connection knows of several
// servers, one over which the store does not answer for ten seconds is left for
// another: it may be cut off from its cluster. A server that hangs is the
// connection's to notice, within its ping interval times three, which must be far
// below a lease: nats.go's default is not.
//
// # Memory
//
// A connection takes less than 200 bytes beside its ids, and about 40 more where there
// is a detector; see BenchmarkMemory.
//
// # How to test against it
//
// A node, a real embedded nats-server and hours of presence run in a synctest
// bubble in milliseconds; see this package's tests. Set Config.ClockResolution to
// a second to save wake-ups of virtual time, and Config.Seed to repeat a run.
package edge

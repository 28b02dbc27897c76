// Package live is the ledger of a running fabric: it follows the streams, stores what
// they come to, and answers how many are online, active, and for how long today.
//
// # What it owns
//
// [Ledger] follows the log and the heartbeats of its shards, and stores rows, what is in
// quarantine, and the daily totals of users, together with a checkpoint in the same
// transaction: positions in both streams, and what decoder and builder know. [Figures]
// are what it knows at the moment.
//
// # What it guarantees
//
//   - A process that is killed at any moment loses and doubles nothing: its successor goes
//     on from the checkpoint. The stored rows are those of a rebuild from the streams.
//   - Ledgers with a [Config.Member] share the shards out. Whoever is given one stores the
//     generation first, and nothing of the owner before is stored any more.
//   - Of two ledgers that follow the same shards by mistake, one stores and answers. The
//     other stands by, and takes over when no checkpoint has come for [Config.Patience].
//   - Figures of another definition stay as they are: its checkpoints are others.
//   - Figures are as fresh as what edges publish, a renewal at most; how far the streams
//     were read is in [Figures.AsOf].
//
// # How it fails
//
// While the database is away it reads on until [Config.Changes] wait, and then stops
// reading; while NATS is away it waits. Both are tried again without end. A stream that
// has lost what was read, or a checkpoint that cannot be used, means reading the streams
// from their start again, which is logged and counted; rows that are stored stay unless a
// higher revision comes. Messages that expired before they were read are lost, logged
// and counted.
//
// # Memory
//
// The open sessions, those that may still go on, packed, and the intervals of the current
// day of every zone. A transaction takes a tenth of the time at most: where its
// checkpoint is large, there are fewer.
//
// # How to test against it
//
// Package e2e runs it in virtual time on a real server, with SQLite.
package live

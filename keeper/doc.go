// Package keeper turns the log of what edges observe into leases and user states.
// The rules are package machine's; this package runs them.
//
// # What it owns
//
// For every shard that [rollcall.Ownership] grants: reading the log, the ticks by
// which time passes in it, the records in the leases bucket, the views in the
// views bucket, and the control messages to edges.
//
// # What it guarantees
//
//   - Views are written in the order of the log, each at least once, before the
//     records that would let a successor skip them.
//   - A keeper that has lost its shard cannot write: every write expects the
//     revision of the bucket's owner record, which a takeover changes first.
//   - Buckets that lose what they acknowledged are loaded and repaired within one
//     sweep, before anything is written behind the loss.
//   - A keeper that is slow, paused or down declares nobody dead: expiry and
//     debounce are decided when a tick is applied, and a tick stands behind all
//     frames stored before it.
//   - Keepers with a [Config.Member] share the shards out evenly. Of one that drains the others
//     take over at once; one that vanishes they miss within ten seconds.
//
// # How it fails
//
// While the store is away it waits and tries again. A crash loses nothing but
// time: the next keeper loads the records and reads the log from the checkpoint.
// If the store comes back without messages that were applied, the keeper counts
// it and asks all edges for their rosters; if the buckets were lost, the records
// are rebuilt in the same way within one renewal.
//
// # How to test against it
//
// Package machine needs neither NATS nor time. Whole keepers run in virtual time
// on a real server; see package e2e.
package keeper

// Package viewer is the Go client of a fanout: it watches targets for one viewer
// and always shows either what the fabric knows or that it is not known.
//
//	c, err := viewer.New(nc, viewer.Config{Viewer: "alice"})
//	go c.Run(ctx)
//	err = c.Watch(ctx, "bob", "carol")
//	for change := range c.Changes() { … }
//
// # What it owns
//
// The rules by which answers and messages become states ([Reducer], pure), the
// requests, and the repair of whatever was lost.
//
// # What it guarantees
//
//   - Messages may be lost, repeated and reordered; once messages arrive again, the
//     states are right within seconds. Versions shown of a target only grow.
//   - A gap in a stream, a position ahead of what has come, or a new generation
//     makes the client subscribe again to its targets of that shard, at a random
//     point of [Config.Spread].
//   - A target shows as unknown, with a reason, while the feed of its shard is
//     stalled, the server is away for longer than [Config.Outage], or the fanout
//     does not answer. It never shows as offline for that. After a reconnect there
//     is one snapshot, and what is shown goes from unknown to the state.
//   - At most one change of each target waits in [Client.Changes]; the last state
//     of every target always arrives.
//   - Several clients may share a viewer id. Events for targets that were not asked
//     for here are ignored; if another client unsubscribes from a target of ours,
//     this one subscribes again.
//
// # How it fails
//
// The client never gives up by itself. Refusals by the fanout are [subjects.Error]s
// of the call that asked. Cancelling [Client.Run] leaves the interest to expire.
//
// # How to test against it
//
// Drive [Reducer] with invented answers and messages; it needs neither NATS nor
// time. Whole clients run in virtual time on a real server.
package viewer

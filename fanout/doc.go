// Package fanout tells viewers about the users they watch: no more than each may
// know, and no more often than is useful.
//
// # What it owns
//
// For every shard that [rollcall.Ownership] grants: reading the keeper's views and
// users' policies, which lie in one bucket so that one sequence orders both, trimming
// them per viewer, changing policies, the viewers' interests and their bucket, the
// answers to requests, and the messages on each viewer's stream.
//
// # Who may see what
//
// In this order: users see themselves as they are; who is blocked sees nothing; an
// override for the viewer; the closest relation (contact, member of a common group,
// everyone), by the user's policy or else by [Config.Relations]. An application that
// keeps its own social graph decides in place of overrides and relations ([Sights],
// in Go or over NATS); while it does not answer, viewers see unknown.
//
// Who appears offline looks to everyone else like a user who left at that moment, also
// afterwards: the last seen of a session that nobody could see is not told.
//
// # What it guarantees
//
//   - A snapshot and the events after it give the last state, in whatever order
//     they arrive: taking the snapshot and registering is one step of the shard,
//     and the same version never stands for two different things.
//   - Versions only grow for one viewer and target, also across re-subscribing
//     and takeovers. They count what the viewer was told, so they tell nothing
//     about what it may not know.
//   - No event unless the viewer's trimmed view changed. The first change after a
//     quiet time goes at once, later ones at most once per [Config.Window] and at
//     two messages a second in the long run; the latest state of a target wins
//     and always arrives.
//   - A lost message shows: messages are numbered, and the number is repeated two
//     seconds after the last message of a burst and after every reconnect.
//   - If the keeper is silent or the reader behind for longer than the fabric's
//     outage, every stream says so in one message. Nobody turns offline by that.
//   - An answered subscription is stored and survives a crash: the next owner
//     restores it and tells each viewer its new generation.
//   - A target that a viewer may not see and one that never existed are handled by
//     the same steps and look the same: in content, size, number, order and time. A
//     property test compares runs that differ in what must not show.
//   - A policy is in effect when its change is answered, on running subscriptions too.
//   - A target with very many viewers is reviewed in steps and leaves room for others.
//   - A viewer that asks too often is refused with [subjects.CodeRateLimited].
//
// # How it fails
//
// Cancelling [Fanout.Run] is a crash; interests stay until they expire. While a
// shard is starting, or the store does not take an interest, requests are refused
// as [subjects.CodeUnavailable]. A fanout that was taken over learns of it from
// the bucket's owner record, cannot store interests any more, and stops. A server
// that is slow to take messages delays and merges changes; memory is bounded by
// the numbers of users and of watched targets, and each shard writes ahead about 16 MiB of
// messages at most. If the store comes back without views that were read, they are read
// anew.
//
// # Several fanouts
//
// Where [Config.Member] shares shards out, the fanouts tell each other what they own,
// and whichever NATS hands a request answers it wholly. It passes it on to the request's
// home: one of the fanouts, named by the viewer's id, so that the requests of a
// viewer are handled one after the other and limits hold for the whole fabric. The home asks
// the application, if one decides, has each owner do its part, and puts the answer together.
// A change of a policy is answered when the owner of every shard concerned has read it.
// A home that is gone is passed over at once, one that does not say within half a second that it
// has taken the request is left aside until it is heard again; in the end whoever was asked
// answers. A request that NATS hands to a fanout that hangs is nobody's: clients send it again.
//
// An answer is whole or none: while a part is missing the request is refused
// as [subjects.CodeUnavailable], within a second and a half if an owner hangs, at once
// while it is known to. What the others did by then stays done; requests are
// idempotent. Until fanouts agree who is there, a moment after one comes or goes, two may take
// themselves for the home of a viewer; then its requests may pass each other, and
// limits are those of either.
//
// # Limits
//
// A client that does not wait for the answer to a request before it sends one of another
// operation may get the two handled in either order.
//
// # How to test against it
//
// The rules are a pure state machine, board, driven without NATS by the tests in
// this package. Whole fanouts run in virtual time on a real server: write view
// records, publish pulses, and use package viewer.
package fanout

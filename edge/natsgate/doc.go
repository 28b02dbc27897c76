// Package natsgate is the front door for devices that speak NATS: the device protocol as
// requests on presence.device.<op>.<user>.<device>. The subject says who asks, and the
// device's credential which subjects it has.
//
// # What it owns
//
// A [door.Door] with its edge, and a place in the queue group that all gates of a fabric
// serve together.
//
// # Which gate has a session
//
// The one that NATS handed the open. Its name is a part of the session id, which is opaque to
// devices, and a gate that is handed a request of another one's session passes it on there.
// So devices need one subject and know nothing of gates; that costs one message more inside
// the store's network for most heartbeats, and nothing on the device's way. Two other designs
// were left: an address in the answer to the open, to which the device would send from then on,
// saves that message, but has every client learn a second way to send and to fail; and leaving
// foreign sessions unregistered, as HTTP gateways behind a balancer do, makes a session of nearly
// every heartbeat, since a queue group has no stickiness.
//
// # What it guarantees
//
//   - A gate that dies, or is paused, ends nobody's presence: who passes a heartbeat on to it and gets no answer
//     answers UNREGISTERED, and the device opens a session elsewhere long before the lease
//     of the dead edge runs out. A paused one is handed requests of everybody's devices until
//     the server cuts it off, which it must within 40 s (ping_interval 10s, ping_max 2).
//   - A gate that leaves politely ([Gate.Drain]) closes no session that lives: it answers every heartbeat
//     UNREGISTERED and waits one heartbeat interval, in which the devices move.
//   - While the gate cannot hear its devices, because NATS is away, none counts as dead
//     ([edge.Node.Deaf]).
//   - A request without a reply subject is carried out and not answered.
//
// # How it fails
//
// Core NATS does not tell anybody that a device's connection is lost. Silence is found by the
// idle timeout only, goodbye is a close.
//
// A process that is killed and comes back under the same edge id at once ends the sessions of
// the one before: whose heartbeat is due later than the debounce is shown offline for some
// seconds. So every start should have an edge id of its own, as the command has by default.
//
// # How to test against it
//
// In virtual time with a real server; see this package's tests.
package natsgate

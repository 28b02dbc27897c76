// Package door is what every front door for devices has in common: the sessions of the
// device protocol, on top of an [edge.Node]. Packages gateway and natsgate put it on a
// wire.
//
// # What it owns
//
// The node, and the sessions that devices have opened here. A session is one
// [edge.Conn]; its id cannot be guessed, and only the user that opened it can use it.
//
// # What it guarantees
//
//   - Whatever names no session of its caller, by id and epoch, is answered alike:
//     UNREGISTERED. A device that hears it opens a new session, and nothing is lost that
//     matters: the newer session takes the place of the older one, wherever that is.
//   - Late and duplicate heartbeats are answered like any other, and change nothing: the
//     state that rides along with an old one does not come back.
//   - Nothing blocks on NATS, once [Door.Ready] is closed.
//   - A [Guest] is told once, if its session ends otherwise than by its own doing. The
//     call comes without locks, must not block, and may come before Open has returned.
//   - Sessions of one user, sessions in all, and operations of one user in a second are
//     bounded.
//
// # How it fails
//
// A process that is killed says nothing: sessions are not kept, and devices open new ones
// here or elsewhere. [Door.Drain] ends all sessions over a while, so that devices come to
// other front doors one by one.
//
// # How to test against it
//
// In virtual time, as package edge; see this package's tests.
package door

// Package gateway is a front door for devices that speak HTTP or WebSocket: the device
// protocol of package door as an [http.Handler].
//
// # What it owns
//
// The sockets. A socket is one goroutine and one session; messages are answered in order,
// one at a time, so that whoever does not read its answers is not read from either. Over
// HTTP a session has no connection of its own and lives by its heartbeats alone.
//
// # What it guarantees
//
//   - Nobody acts for a user without a token of that user, and every request says why it
//     is refused, with a code that stays: see [subjects.DeviceCode].
//   - Pages of other origins than its own and the configured ones get nothing, whatever
//     token they have.
//   - A client that is slow, silent, floods or talks nonsense costs the others nothing:
//     messages, rates, sockets and the time for each read and write are bounded, and what
//     exceeds a bound is refused or cut off.
//   - A socket whose token has expired is closed at the next message.
//
// # How it fails
//
// It keeps nothing. When it is killed, devices open new sessions here or at another
// gateway, and nobody is shown offline unless they take longer than the debounce. While
// NATS is away it goes on, except that presence cannot be asked for.
//
// # Memory
//
// See docs/evidence/gateway.txt.
package gateway

// Package natsd embeds nats-server, for the command and for tests.
//
// # What it owns
//
// One nats-server with JetStream on a store directory, and the lock on that
// directory. Clients of the same process connect through [Server.Connect], without
// a socket; others through the addresses in [Config], which must be loopback
// addresses unless the server has an [Operator] and [TLS].
//
// With an operator every client must show a credential. What the server knows of
// accounts lies beside the streams and is changed with [PushClaims]; streams of before
// there were accounts move into the account that [Operator.Home] names.
//
// # What it guarantees
//
//   - [Start] returns when clients can connect, or says why they cannot: an address
//     that is busy or not loopback, a directory that is locked by another server
//     ([ErrLocked]) or not writable.
//   - [Server.Shutdown] returns when everything is written and the lock is free.
//   - The server handles no signals and never ends the process.
//   - A page in a browser reaches the WebSocket only from an origin that
//     [Config.Origins] names, so that no web site can read what runs on loopback.
//
// A message that the server acknowledged survives a crash of the process; within
// [Config.SyncInterval] it does not survive a crash of the machine.
//
// # How to test against it
//
// Package lab runs it in virtual time.
package natsd

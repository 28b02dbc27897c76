// Package lab is test support: a whole fabric in virtual time, on a real
// nats-server, over links that can fail.
//
//	lab.Bubble(t, func(t *testing.T) {
//		server := lab.NewServer(t)
//		link := server.NewLink() // one for each process
//		nc := lab.Connect(t, link)
//		…
//		link.Freeze()
//		time.Sleep(time.Hour) // takes no time
//	})
//
// # What it owns
//
//   - [Bubble], virtual time: sleeping, timers and the server's own clock advance
//     when everything waits. It starts on 2000-01-01.
//   - [Server], which can stop, start again on the same directory, and lose the
//     tail of a stream ([Server.Snapshot], [Server.Restore]).
//   - Identities, with [NewServerWithIdentities]: a server in operator mode, whose
//     [Server.As] lets a process show a credential. Tokens are minted inside the bubble,
//     because its clock is that of the year 2000.
//   - [Link], the network path of one process, which can freeze, be cut, be slow,
//     and show the process a store whose clock has jumped.
//
// # What it guarantees
//
// Bytes on a link arrive once and in order, or the connection ends with an error. A
// link without faults adds no goroutine and no latency. Everything ends in the
// test's cleanup, inside the bubble, so that no goroutine leaks out of it.
//
// # How it fails
//
// Through the test: what cannot be set up calls t.Fatal, so call from the test's
// goroutine.
//
// # Limits
//
// One server, no cluster: routes need TCP, and whatever listens on TCP stalls
// virtual time. [Server.Stop] is a clean stop. What a kill does differently is lost
// writes: take a [Server.Snapshot] while the server runs and restore it.
//
// Do not sleep for nanoseconds: nats-server takes the time for its caches from a
// 100 ms tick, and a message stored a few nanoseconds after one makes a cache timer
// spin through millions of firings. A millisecond is harmless.
package lab

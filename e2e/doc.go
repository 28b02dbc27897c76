// Package e2e holds the whole fabric under test. [New] gives a test a real
// nats-server in virtual time, on which it starts edges, keepers, fanouts and
// viewers, each a process of its own over a link of its own: every one can be
// killed and started again, every link frozen, cut, delayed or shown a clock that
// jumps.
//
//	lab.Bubble(t, func(t *testing.T) {
//		f := e2e.New(t, e2e.Options{})
//		f.StartKeeper()
//		f.StartFanout()
//		v := f.StartViewer("vera", "ann")
//		g := f.StartEdge("g1")
//		ann := f.Connect(g, "ann", "phone")
//		f.At(300 * time.Second)
//		ann.Close()
//		…
//	})
//
// Times are virtual and exact: a test says to the second, often to the
// microsecond, what must be seen.
package e2e

package edge

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

func (w *world) wantReplay(shard int, edge string, conns int) *replay {
	w.t.Helper()
	r, err := w.replay(shard, edge)
	if err != nil {
		w.t.Fatal(err)
	}
	if len(r.conns) != conns {
		w.t.Fatalf("the log has %d connections, want %d", len(r.conns), conns)
	}
	return r
}

func TestStoreAwayKeepsTheNetState(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, steady())
		e := w.start(Config{})
		told := e.connect("alice", "phone")
		settle()
		e.cable.pull()
		began := time.Now()
		time.Sleep(10 * time.Second)
		for range 1000 {
			e.connect("bob", "phone").Close()
			w.must(told.SetState(State{Foreground: true}))
			w.must(told.SetState(State{}))
		}
		stays := e.connect("carol", "phone")
		w.must(stays.SetState(State{Foreground: true}))
		if s := e.Stats(); s.Pending > 2 || s.PairsDropped != 1000 {
			t.Errorf("pending %d, dropped pairs %d", s.Pending, s.PairsDropped)
		}
		time.Sleep(30 * time.Second)
		e.cable.plug()
		time.Sleep(2 * time.Second)
		said := w.said(0, "gw")
		wantKinds(t, said, hello, opened, opened, renewed)
		if s := said[2]; s.User != "carol" || s.State != wire.State_STATE_IDLE ||
			s.Epoch != began.Add(10*time.Second).UnixMicro() {
			t.Errorf("told %v", s)
		}
		w.wantReplay(0, "gw", 2)
	})
}

// The store takes a frame, and the answer is lost on the way.
func TestLostAcknowledgement(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, steady())
		e := w.start(Config{})
		e.connect("alice", "phone")
		settle()
		e.cable.deaf.Store(true)
		e.connect("bob", "phone")
		time.Sleep(time.Second)
		e.cable.pull()
		e.cable.deaf.Store(false)
		e.connect("carol", "phone")
		e.cable.plug()
		time.Sleep(10 * time.Second)
		w.wantReplay(0, "gw", 3)
		if s := e.Stats(); s.StoreLost != 0 || s.Entries != 5 { // each once, and a renewal
			t.Errorf("%+v", s)
		}
	})
}

// A half-open path: nobody notices for a while, the frame is sent again and again.
func TestFrozenPath(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, steady())
		e := w.start(Config{})
		e.connect("alice", "phone")
		settle()
		e.cable.frozen.Store(true)
		e.connect("bob", "phone")
		time.Sleep(20 * time.Second)
		e.cable.frozen.Store(false)
		time.Sleep(20 * time.Second)
		w.wantReplay(0, "gw", 2)
	})
}

func TestRestartTakesOver(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, steady())
		first := w.start(Config{})
		first.connect("alice", "phone")
		settle()
		second := w.start(Config{})
		second.connect("bob", "phone")
		settle()
		r := w.wantReplay(0, "gw", 1)
		if r.incarnation != second.incarnation || second.incarnation <= first.incarnation {
			t.Errorf("incarnations %d then %d", first.incarnation, second.incarnation)
		}
		first.connect("carol", "phone")
		if err := <-first.ended; !errors.Is(err, ErrReplaced) {
			t.Errorf("the first process: %v", err)
		}
		if _, err := first.Connect("dave", "phone", State{}); !errors.Is(err, ErrClosed) {
			t.Errorf("it still takes connections: %v", err)
		}
	})
}

// The process before crashed; the new one ends its connections at once, also where
// it holds nothing itself, and then gives up that lease.
func TestRestartEndsWhatCrashed(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, steady())
		first := w.start(Config{})
		first.connect("alice", "phone")
		settle()
		first.crash()
		second := w.start(Config{})
		settle()
		wantKinds(t, w.said(0, "gw"), hello, opened, hello)
		time.Sleep(time.Minute)
		wantKinds(t, w.said(0, "gw"), hello, opened, hello, left)
		second.crash()
		w.start(Config{})
		settle()
		wantKinds(t, w.said(0, "gw"), hello, opened, hello, left)
	})
}

// A store whose clock went back must not make a new process look like an old one.
func TestIncarnationIsAboveTheLast(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		w := newWorld(t, 2, steady())
		future := uint64(time.Now().Add(time.Hour).UnixMicro())
		data, _ := subjects.EncodeFrame(&wire.Frame{Version: 1, Incarnation: future, Number: 7})
		_, err := w.js.Publish(t.Context(), w.names.Log(1, "gw"), data)
		w.must(err)
		e := w.start(Config{})
		settle()
		if e.incarnation != future+1 {
			t.Errorf("incarnation %d, want %d", e.incarnation, future+1)
		}
	})
}

// Power loss: the store has lost the end of the log, and with it frames that it
// had acknowledged.
func TestStoreLostItsTail(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, steady())
		e := w.start(Config{})
		for i := range 5 {
			e.connect(fmt.Sprint("user", i), "phone")
			settle()
		}
		s, err := w.js.Stream(t.Context(), w.names.LogStream(0))
		w.must(err)
		w.must(s.DeleteMsg(t.Context(), 4))
		w.must(s.DeleteMsg(t.Context(), 5))
		e.connect("late", "phone")
		settle()
		time.Sleep(time.Second)
		said := w.said(0, "gw")
		wantKinds(t, said[4:], opened, hello, rosterBegin, rosterLine, rosterLine, rosterLine, rosterLine, rosterLine, rosterLine, rosterEnd)
		if s := e.Stats(); s.StoreLost != 1 {
			t.Errorf("%+v", s)
		}
		// From here on all is as ever.
		e.connect("later", "phone")
		settle()
		if s := e.Stats(); s.StoreLost != 1 || s.Pending != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// A store restored from nothing, or a log that aged out: sequences start again.
func TestStoreLostEverything(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, steady())
		e := w.start(Config{})
		for i := range 5 {
			e.connect(fmt.Sprint("user", i), "phone")
			settle()
		}
		s, err := w.js.Stream(t.Context(), w.names.LogStream(0))
		w.must(err)
		config := s.CachedInfo().Config
		w.must(w.js.DeleteStream(t.Context(), config.Name))
		e.connect("meanwhile", "phone")
		time.Sleep(10 * time.Second)
		_, err = w.js.CreateStream(t.Context(), config)
		w.must(err)
		time.Sleep(10 * time.Second)
		wantKinds(t, w.said(0, "gw")[:3], opened, hello, rosterBegin)
		time.Sleep(45 * time.Second)
		said := w.said(0, "gw")
		if last := said[len(said)-1]; last.Kind != renewed || last.Count != 6 {
			t.Errorf("ends with %v", last)
		}
	})
}

// The frames of a crowd stay within the limits and keep their order.
func TestFramesAreCut(t *testing.T) {
	for _, tc := range []struct {
		name       string
		maxPayload int32
		frames     int
	}{{"by entries", 0, 4}, {"by the server's limit", 64 << 10, 19}} {
		t.Run(tc.name, func(t *testing.T) {
			lab.Bubble(t, func(t *testing.T) { crowd(t, tc.maxPayload, tc.frames) })
		})
	}
}

func crowd(t *testing.T, maxPayload int32, want int) {
	w := newWorldOf(t, 1, steady(), maxPayload)
	e := w.start(Config{})
	settle()
	e.cable.pull()
	settle()
	label := fmt.Sprintf("%064d", 0)
	user := fmt.Sprintf("%0120d", 0)
	for i := range 3500 {
		_, err := e.Connect(fmt.Sprint(user, i), user, State{Activity: label})
		w.must(err)
	}
	e.cable.plug()
	time.Sleep(5 * time.Second)
	w.wantReplay(0, "gw", 3500)
	frames := w.frames(0, "gw")
	got := 0
	for _, f := range frames {
		if !slices.Equal(kinds(f.Entries), []wire.Kind{renewed}) { // the one after a reconnect may come behind the others
			got++
		}
	}
	if got != want {
		t.Errorf("%d frames, want %d", got, want)
	}
	for _, f := range frames {
		data, _ := subjects.EncodeFrame(f.Frame)
		if len(f.Entries) > subjects.MaxEntries || len(data) > subjects.MaxFrameBytes || maxPayload > 0 && len(data) > int(maxPayload) {
			t.Errorf("frame %d: %d entries, %d bytes", f.Number, len(f.Entries), len(data))
		}
	}
}

func TestRunEndsWithItsConnection(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, steady())
		e := w.start(Config{})
		settle()
		e.link.nc.Close()
		if err := <-e.ended; !errors.Is(err, ErrDisconnected) {
			t.Errorf("Run: %v", err)
		}
	})
}

// A gateway may start before its fabric.
func TestFabricComesLater(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, steady())
		node, err := New(w.dial(&cable{server: w.server}), Config{ID: "gw", Prefix: "other"})
		w.must(err)
		if _, err := node.Connect("alice", "phone", State{}); !errors.Is(err, ErrNotReady) {
			t.Errorf("Connect: %v", err)
		}
		ended := make(chan error, 1)
		go func() { ended <- node.Run(t.Context()) }()
		time.Sleep(time.Minute)
		w.must(node.Drain(t.Context()))
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		if err := node.Run(t.Context()); !errors.Is(err, ErrRunning) {
			t.Errorf("second Run: %v", err)
		}
	})
}

// What nobody could have written on purpose must not pass for a successor of this
// edge; a frame of a newer release must.
func TestWhatPassesForASuccessor(t *testing.T) {
	newer, err := subjects.EncodeFrame(&wire.Frame{Version: subjects.WireVersion + 1, Incarnation: 1})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		data []byte
		want error
	}{
		"nothing":         {nil, nil},
		"text":            {[]byte(`{"version":2}`), nil},
		"zeros":           {make([]byte, 20), nil},
		"no version":      {[]byte{0x10, 0x01}, nil},
		"a newer release": {newer, ErrReplaced},
	} {
		t.Run(name, func(t *testing.T) {
			lab.Bubble(t, func(t *testing.T) {
				w := newWorld(t, 1, steady())
				e := w.start(Config{})
				e.connect("ann", "phone")
				settle()
				_, err := w.js.Publish(t.Context(), w.names.Log(0, "gw"), tc.data)
				w.must(err)
				time.Sleep(2 * e.params.Renewal)
				_, err = e.Connect("bob", "phone", State{})
				if replaced := errors.Is(err, ErrClosed); replaced != (tc.want != nil) {
					t.Errorf("connecting afterwards: %v", err)
				}
			})
		})
	}
}

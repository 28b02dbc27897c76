package edge

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// settle lets everything that can happen now happen.
func settle() {
	time.Sleep(time.Millisecond)
	synctest.Wait()
}

// steady is the default timing without jitter.
func steady() rollcall.Params {
	p := rollcall.Default()
	p.Jitter = 0
	return p
}

func wantKinds(t *testing.T, entries []*wire.Entry, want ...wire.Kind) {
	t.Helper()
	if got := kinds(entries); !slices.Equal(got, want) {
		t.Fatalf("the log says %v, want %v", got, want)
	}
}

func TestAConnectionIsTold(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, steady())
		e := w.start(Config{})
		began := time.Now()
		c := e.connect("alice", "phone")
		settle()
		w.must(c.SetState(State{Foreground: true, Active: true, Activity: "chess"}))
		settle()
		c.Close()
		c.Close()
		settle()
		said := w.said(0, "gw")
		wantKinds(t, said, hello, opened, stated, ended)
		for _, s := range said[1:] {
			if s.User != "alice" || s.Device != "phone" || s.Conn != 1 || s.Epoch != int64(rollcall.MicrosOf(began)) {
				t.Errorf("wrong connection: %v", s)
			}
		}
		if s := said[2]; s.State != wire.State_STATE_ACTIVE || s.Activity != "chess" {
			t.Errorf("wrong state: %v", s)
		}
		if s := said[3]; s.Reason != wire.Reason_REASON_CLOSED || s.Seen != s.At {
			t.Errorf("a goodbye is a sign of life: %v", s)
		}
		if err := c.SetState(State{}); !errors.Is(err, ErrGone) || c.Beat(1) {
			t.Errorf("a closed connection took a state (%v) or a beat", err)
		}
	})
}

func TestLeaseIsRenewedAndGivenUp(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, steady())
		e := w.start(Config{})
		began := time.Now()
		c := e.connect("alice", "phone")
		time.Sleep(30 * time.Second)
		c.Beat(1)
		time.Sleep(31 * time.Second)
		frames := w.frames(0, "gw")
		last := frames[len(frames)-1]
		wantKinds(t, last.Entries, renewed)
		if last.at.Sub(began) != 60*time.Second {
			t.Errorf("renewed after %v", last.at.Sub(began))
		}
		if r := last.Entries[0]; r.Count != 1 || r.Digest != uint64(c.digest()) {
			t.Errorf("renewed %d connections, digest %x", r.Count, r.Digest)
		}
		c.Close()
		time.Sleep(60 * time.Second)
		wantKinds(t, w.said(0, "gw"), hello, opened, renewed, ended, left)
		e.connect("bob", "tv")
		settle()
		wantKinds(t, w.said(0, "gw")[5:], hello, opened)
	})
}

func TestDrain(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		w := newWorld(t, 2, steady())
		e := w.start(Config{})
		for _, user := range []string{"alice", "bob", "carol", "dave"} {
			e.connect(user, "phone").Beat(1)
		}
		settle()
		begun := time.Now()
		w.must(e.Drain(context.Background()))
		if err := <-e.ended; err != nil {
			t.Fatalf("Run: %v", err)
		}
		if took := time.Since(begun); took != 0 {
			t.Errorf("the drain took %s although the store answers at once", took)
		}
		for shard := range 2 {
			said := w.said(shard, "gw")
			if said[len(said)-1].Kind != left {
				t.Errorf("shard %d ends with %v", shard, kinds(said))
			}
			for _, s := range said {
				if s.Kind == ended && s.Reason != wire.Reason_REASON_DRAINED {
					t.Errorf("closed for %v", s.Reason)
				}
			}
		}
		if _, err := e.Connect("eve", "phone", State{}); !errors.Is(err, ErrClosed) {
			t.Errorf("after the drain: %v", err)
		}
		if s := e.Stats(); s.Beats != 4 {
			t.Errorf("%d beats collected, want 4", s.Beats)
		}
	})
}

// The store is away when the edge wants to leave: it goes on trying.
func TestDrainWaitsForTheStore(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, steady())
		e := w.start(Config{})
		e.connect("alice", "phone")
		settle()
		e.cable.pull()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := e.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Drain: %v", err)
		}
		e.cable.plug()
		w.must(e.Drain(context.Background()))
		w.must(<-e.ended)
		wantKinds(t, w.said(0, "gw"), hello, opened, ended, left)
	})
}

func TestCrashSaysNothing(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, steady())
		e := w.start(Config{})
		e.connect("alice", "phone")
		settle()
		if err := e.crash(); !errors.Is(err, context.Canceled) {
			t.Fatalf("Run: %v", err)
		}
		wantKinds(t, w.said(0, "gw"), hello, opened)
		if _, err := e.Connect("eve", "phone", State{}); !errors.Is(err, ErrClosed) {
			t.Errorf("after the crash: %v", err)
		}
	})
}

func TestIDs(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, steady())
		e := w.start(Config{ID: "a *.> b"})
		long := strings.Repeat("x", rollcall.MaxID)
		for id, ok := range map[string]bool{
			"": false, "a": true, long: true, long + "x": false, "\xff": false, "a\xc3": false,
			"*": true, ">": true, "a.b": true, "a b": true, "日本": true,
		} {
			_, err := e.Connect(id, "d", State{})
			if (err == nil) != ok || (!ok && !errors.Is(err, rollcall.ErrID)) {
				t.Errorf("user %q: %v", id, err)
			}
			if _, err := e.Connect("u", id, State{}); (err == nil) != ok {
				t.Errorf("device %q: %v", id, err)
			}
		}
		settle()
		if n := len(w.said(0, "a *.> b")); n != 1+2*7 {
			t.Errorf("%d entries", n)
		}
	})
}

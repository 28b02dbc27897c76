package e2e_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/e2e"
	"github.com/rollcall-io/rollcall/edge"
)

// A device loses its network without a word: the edge's host is told to close the
// socket when the timeout has run out, and the user is offline a debounce later.
func TestScenario20HalfOpen(t *testing.T) {
	scenario(t, e2e.Options{}, func(t *testing.T, f *stage) {
		v := f.StartViewer("vera", "ann")
		g := f.StartEdge("g1")
		phone := f.Connect(g, "ann", "phone")
		f.At(300 * second)
		phone.Silence()
		f.wantHalfOpen(v, g, phone)
		if got := f.keeper.Stats().LeaseExpiries; got != 0 {
			t.Errorf("%d leases expired, want none: the edge lives", got)
		}
	})
}

// The server writes to a half-open socket all the time, asks about the connection and
// hears of it from the keeper: none of that is a sign of life.
func TestScenario21WritingIsNotLife(t *testing.T) {
	scenario(t, e2e.Options{}, func(t *testing.T, f *stage) {
		v := f.StartViewer("vera", "ann")
		g := f.StartEdge("g1")
		phone := f.Connect(g, "ann", "phone")
		f.At(300 * second)
		phone.Silence()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go writeTo(ctx, phone.Conn)
		f.wantHalfOpen(v, g, phone)
	})
}

// writeTo is a host that writes to a socket whose buffer takes everything, and tells
// what it believes of the device.
func writeTo(ctx context.Context, conn *edge.Conn) {
	var socket bytes.Buffer
	for ctx.Err() == nil && !conn.Gone() {
		socket.WriteString(conn.User() + conn.Epoch().Time().String())
		conn.SetState(active) // fails when the connection is gone
		time.Sleep(time.Second)
	}
}

// wantHalfOpen fails unless the device, silent from now on, is found dead and shown
// offline within the bound, once, and the host of the edge was told.
func (f *stage) wantHalfOpen(v *e2e.Viewer, g *e2e.Edge, d *e2e.Device) {
	f.T.Helper()
	t, silent := f.T, f.Now()
	bound, debounce := f.Params.Bounds().HalfOpen, f.Params.Debounce
	f.At(silent + bound.Earliest - debounce - second)
	if got := g.Dead(); len(got) > 0 {
		t.Errorf("told to close %v before the timeout", got)
	}
	for len(g.Dead()) == 0 && f.Now() < silent+bound.Latest {
		f.At(f.Now() + second/10)
	}
	found := f.Now()
	f.At(silent + 10*bound.Latest)
	if dead := g.Dead(); len(dead) != 1 || dead[0] != d.Conn {
		t.Errorf("told to close %v, want just %s's socket", dead, d.User())
	}
	rows := v.RowsOf(d.User())
	if len(rows) != 2 {
		t.Fatalf("shown %v, want online and offline", rows)
	}
	if at := rows[1].At - silent; !bound.Contains(at) {
		t.Errorf("offline after %s, want %v", at, bound)
	}
	if at := rows[1].At - found; at > debounce || at < debounce-second/10 {
		t.Errorf("offline %s after the host was told, want the debounce", at)
	}
}

// A phone's lock screen stops timers so that heartbeats come every 55 s, or every three
// minutes where the preset for phones allows it: no false offline.
func TestScenario22SlowHeartbeats(t *testing.T) {
	for name, c := range map[string]struct {
		params rollcall.Params
		pause  time.Duration
	}{
		"default": {rollcall.Default(), 55 * second},
		"mobile":  {rollcall.Mobile(), 180 * second},
	} {
		t.Run(name, func(t *testing.T) {
			scenario(t, e2e.Options{Params: c.params}, func(t *testing.T, f *stage) {
				v := f.StartViewer("vera", "ann")
				conn, err := f.StartEdge("g1").Node.Connect("ann", "phone", background)
				if err != nil {
					t.Fatal(err)
				}
				for seq := uint32(1); f.Now() < time.Hour; seq++ {
					f.At(f.Now() + c.pause)
					if !conn.Beat(seq) {
						t.Fatalf("heartbeat %d refused", seq)
					}
				}
				v.Want("ann online@0")
			})
		})
	}
}

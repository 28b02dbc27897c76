package e2e_test

import (
	"slices"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall/e2e"
	"github.com/rollcall-io/rollcall/edge"
	"github.com/rollcall-io/rollcall/internal/lab"
)

// A stage is a whole fabric of which a story can also reach keeper and fanout.
type stage struct {
	*e2e.Fabric
	keeper *e2e.Keeper
	fanout *e2e.Fanout
}

// scenario plays a story in virtual time on a whole fabric.
func scenario(t *testing.T, o e2e.Options, play func(t *testing.T, f *stage)) {
	t.Helper()
	lab.Bubble(t, func(t *testing.T) {
		f := &stage{Fabric: e2e.New(t, o)}
		f.keeper = f.StartKeeper()
		f.fanout = f.StartFanout()
		play(t, f)
	})
}

// The states of a device that is there.
var (
	active     = e2e.Active
	idle       = edge.State{Foreground: true}
	background = edge.State{}
)

// say tells a device's state.
func say(t testing.TB, d *e2e.Device, s edge.State) {
	t.Helper()
	if err := d.SetState(s); err != nil {
		t.Error(err)
	}
}

// wantLease fails unless the current connection of ann's phone is held by the edge.
func (f *stage) wantLease(edge string) {
	f.T.Helper()
	if got := f.LeaseOf("ann", "phone"); got != edge {
		f.T.Errorf("ann's phone belongs to %q, want %q", got, edge)
	}
}

// wantOne fails unless the list is just this device's connection.
func wantOne(t *testing.T, what string, list []*edge.Conn, d *e2e.Device) {
	t.Helper()
	if !slices.Equal(list, []*edge.Conn{d.Conn}) {
		t.Errorf("%s: %v, want just connection %d of %s/%s", what, list, d.Number(), d.User(), d.Device())
	}
}

// Of two devices one is in use, the other goes idle: the user is in use.
func TestScenario01ActiveBeatsIdle(t *testing.T) {
	scenario(t, e2e.Options{}, func(t *testing.T, f *stage) {
		v := f.StartViewer("vera", "ann")
		f.Connect(f.StartEdge("g1"), "ann", "phone")
		laptop := f.Connect(f.StartEdge("g2"), "ann", "laptop")
		f.At(100 * second)
		say(t, laptop, idle)
		f.At(200 * second)
		say(t, laptop, background)
		f.At(300 * second)
		v.Want("ann online@0")
		if s, _ := v.State("ann"); s.View.State != "active" {
			t.Errorf("ann is %q, want active", s.View.State)
		}
	})
}

// One device says idle every few seconds while the other is in use: after the
// merge nothing is sent at all.
func TestScenario02ChatterOfTheLesserDevice(t *testing.T) {
	scenario(t, e2e.Options{}, func(t *testing.T, f *stage) {
		v := f.StartViewer("vera", "ann")
		wire := f.Overhear("vera")
		laptop := f.Connect(f.StartEdge("g1"), "ann", "laptop")
		say(t, laptop, idle)
		f.Connect(f.StartEdge("g2"), "ann", "phone")
		f.At(2 * second)
		wire.Heard()
		changes := f.keeper.Stats().Changes
		for i := range 200 {
			f.At(time.Duration(3*i+3) * second)
			say(t, laptop, []edge.State{idle, background}[i%2])
		}
		f.At(700 * second)
		if news := wire.News(); len(news) > 0 {
			t.Errorf("told %v", news)
		}
		if got := f.keeper.Stats().Changes; got != changes {
			t.Errorf("%d changes published, want none", got-changes)
		}
		if s, _ := v.State("ann"); s.View.State != "active" {
			t.Errorf("ann is %q, want active", s.View.State)
		}
	})
}

// The first of two devices leaves: nothing. The second leaves: offline after the
// debounce.
func TestScenario03OfflineWithTheLastDevice(t *testing.T) {
	scenario(t, e2e.Options{}, func(t *testing.T, f *stage) {
		v := f.StartViewer("vera", "ann")
		phone := f.Connect(f.StartEdge("g1"), "ann", "phone")
		laptop := f.Connect(f.StartEdge("g2"), "ann", "laptop")
		f.At(100 * second)
		phone.Close()
		f.At(500 * second)
		v.Want("ann online@0")
		laptop.Close()
		f.At(600 * second)
		v.Want("ann online@0", "ann offline@520")
	})
}

// A device opens twice under one endpoint id, on two edges: one endpoint, the newer
// connection, and the older edge is told to close its socket.
func TestScenario04OneEndpointOnTwoEdges(t *testing.T) {
	scenario(t, e2e.Options{}, func(t *testing.T, f *stage) {
		v := f.StartViewer("vera", "ann")
		g1, g2 := f.StartEdge("g1"), f.StartEdge("g2")
		older := f.Connect(g1, "ann", "phone")
		f.At(100 * second)
		f.Connect(g2, "ann", "phone")
		f.At(101 * second)
		wantOne(t, "superseded on g1", g1.Superseded(), older)
		if got := g2.Superseded(); len(got) > 0 {
			t.Errorf("g2 was told to close %v", got)
		}
		f.wantLease("g2")
		if s := f.keeper.Stats(); s.Connections != 1 || s.Users != 1 {
			t.Errorf("the keeper knows %d connections of %d users, want one", s.Connections, s.Users)
		}
		f.At(600 * second)
		v.Want("ann online@0")
		if s := f.keeper.Stats(); s.Mismatches != 0 || s.Leases != 1 {
			t.Errorf("%d mismatches, %d leases; want none and one", s.Mismatches, s.Leases)
		}
	})
}

// A viewer asks for herself: her only device makes her see herself online.
func TestScenario05TheViewerSeesHerself(t *testing.T) {
	scenario(t, e2e.Options{}, func(t *testing.T, f *stage) {
		v := f.StartViewer("vera", "vera")
		if _, known := v.State("vera"); known {
			t.Error("something is known of vera before she came")
		}
		f.At(10 * second)
		f.Connect(f.StartEdge("g1"), "vera", "phone")
		f.At(60 * second)
		v.Want("vera online@10")
		got, err := v.Get(t.Context(), "vera")
		if err != nil || got["vera"].View.Status != "online" {
			t.Errorf("asked once: %v, %v", got, err)
		}
	})
}

package machine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

const (
	offline    = rollcall.Offline
	background = rollcall.Background
	idle       = rollcall.Idle
	active     = rollcall.Active
)

// changesOf is what was published of a user, as "state@second".
func (w *world) changesOf(user string) (changes []string) {
	for _, v := range w.views {
		if v.User == user {
			changes = append(changes, fmt.Sprintf("%v@%g", rollcall.State(v.Record.State), v.at.Seconds()))
		}
	}
	return changes
}

func mustSee(t *testing.T, w *world, user string, want ...string) {
	t.Helper()
	if got := w.changesOf(user); !slices.Equal(got, want) {
		t.Errorf("published of %s: %v, want %v", user, got, want)
	}
}

func mustLeave(t *testing.T, w *world, want ...string) {
	t.Helper()
	var got []string
	for _, d := range w.left {
		got = append(got, fmt.Sprintf("%s %v %g", d.User, d.Way, d.Latency.Seconds()))
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("left: %v, want %v", got, want)
	}
}

func mustTell(t *testing.T, w *world, edge string, kind wire.Control_Kind, conn uint64) {
	t.Helper()
	for _, c := range w.told {
		if c.Edge == edge && c.Message.Kind == kind && (conn == 0 || slices.Contains(c.Message.Conns, conn)) {
			return
		}
	}
	t.Errorf("edge %s was not told %v of connection %d", edge, kind, conn)
}

func TestScenario01TheMostPresentDeviceCounts(t *testing.T) {
	w := newWorld(t, rollcall.Default())
	g := w.edge("g1")
	g.open("u", "A", active)
	b := g.open("u", "B", active)
	w.to(10)
	g.setState(b, idle)
	w.to(60)
	mustSee(t, w, "u", "active@0")
}

func TestScenario02NoChangeNoEvent(t *testing.T) {
	w := newWorld(t, rollcall.Default())
	g := w.edge("g1")
	a := g.open("u", "A", idle)
	g.open("u", "B", active)
	for s := range 60 {
		w.to(float64(s))
		g.setState(a, []rollcall.State{idle, background}[s%2])
	}
	mustSee(t, w, "u", "idle@0", "active@0")
}

func TestScenario03TheLastDeviceDecides(t *testing.T) {
	w := newWorld(t, rollcall.Default())
	g := w.edge("g1")
	a, b := g.open("u", "A", active), g.open("u", "B", active)
	w.to(10)
	g.close(a, wire.Reason_REASON_CLOSED)
	w.to(100)
	mustSee(t, w, "u", "active@0")
	g.close(b, wire.Reason_REASON_CLOSED)
	w.to(200)
	mustSee(t, w, "u", "active@0", "offline@120")
	mustLeave(t, w, "u close 20")
}

func TestScenario04TwoEdgesOneEndpoint(t *testing.T) {
	w := newWorld(t, rollcall.Default())
	g1, g2 := w.edge("g1"), w.edge("g2")
	old := g1.open("u", "A", active)
	w.to(5)
	g2.open("u", "A", active)
	mustTell(t, w, "g1", wire.Control_KIND_SUPERSEDED, old)
	w.to(300)
	mustBeRight(w)
	mustSee(t, w, "u", "active@0")
	if s := w.keeper.Stats(); s.Connections != 1 {
		t.Errorf("%d connections, want 1", s.Connections)
	}
}

func TestScenario06TheOldEdgeNoticesLate(t *testing.T) {
	w := newWorld(t, rollcall.Default())
	g1, g2 := w.edge("g1"), w.edge("g2")
	old := g1.open("u", "A", active)
	g1.cut = true // hears nothing
	w.to(6)
	g2.open("u", "A", active)
	w.to(80)
	g1.cut = false
	g1.closeSeen(old, wire.Reason_REASON_PING_TIMEOUT, start)
	w.to(300)
	mustSee(t, w, "u", "active@0")
	mustBeRight(w)
}

func TestScenario07OpenAndCloseInEitherOrder(t *testing.T) {
	for _, openFirst := range []bool{true, false} {
		w := newWorld(t, rollcall.Default())
		g1, g2 := w.edge("g1"), w.edge("g2")
		old := g1.open("u", "A", active)
		w.to(5)
		if openFirst {
			g2.open("u", "A", active)
			w.to(6)
		}
		if g1.conns[old] != nil {
			g1.close(old, wire.Reason_REASON_CLOSED)
		}
		if !openFirst {
			w.to(6)
			g2.open("u", "A", active)
		}
		w.to(300)
		mustSee(t, w, "u", "active@0")
		mustBeRight(w)
	}
}

func TestScenario08AStaleOpenIsStoredLate(t *testing.T) {
	w := newWorld(t, rollcall.Default())
	g1, g2 := w.edge("g1"), w.edge("g2")
	late := g1.accept("u", "A", active)
	w.to(20)
	g2.open("u", "A", idle)
	w.to(40)
	g1.tell(late)
	mustTell(t, w, "g1", wire.Control_KIND_SUPERSEDED, late)
	w.to(300)
	mustSee(t, w, "u", "idle@20")
	mustBeRight(w)
	if s := w.keeper.Stats(); s.RejectedStale != 1 {
		t.Errorf("%d rejected as stale, want 1", s.RejectedStale)
	}
}

func TestScenario08AlsoAfterTheNewerOneHasGone(t *testing.T) {
	w := newWorld(t, rollcall.Default())
	g1, g2 := w.edge("g1"), w.edge("g2")
	late := g1.accept("u", "A", active)
	w.to(20)
	g2.close(g2.open("u", "A", idle), wire.Reason_REASON_CLOSED)
	w.to(30)
	g1.tell(late)
	w.to(300)
	mustSee(t, w, "u", "idle@20", "offline@40")
}

func TestScenario09NothingOfTheOldConnectionCounts(t *testing.T) {
	w := newWorld(t, rollcall.Default())
	g1, g2 := w.edge("g1"), w.edge("g2")
	old := g1.open("u", "A", background)
	g1.cut = true
	w.to(5)
	g2.open("u", "A", idle)
	g1.setState(old, active) // what its heartbeats can lead to
	w.to(60)
	mustSee(t, w, "u", "background@0", "idle@5")
}

func TestScenario10ClosedWhileOpening(t *testing.T) {
	w := newWorld(t, rollcall.Default())
	g := w.edge("g1")
	a := g.accept("u", "A", active)
	opened := g.conns[a]
	g.say(opened, g.ending(a, wire.Reason_REASON_CLOSED, w.now))
	w.to(60)
	mustSee(t, w, "u", "active@0", "offline@20")
	if s := w.keeper.Stats(); s.Connections != 0 || s.Online != 0 || len(w.keeper.deadlines) != 0 {
		t.Errorf("left behind: %+v", s)
	}
}

func TestScenario11OneTimer(t *testing.T) {
	w := newWorld(t, rollcall.Default())
	g := w.edge("g1")
	a := g.open("u", "A", active)
	for _, s := range []float64{10, 25, 40, 55} {
		w.to(s)
		g.close(a, wire.Reason_REASON_CLOSED)
		if n := len(w.keeper.deadlines); n != 1 {
			t.Fatalf("%d timers, want 1", n)
		}
		w.to(s + 10)
		a = g.open("u", "A", active)
	}
	w.to(300)
	mustSee(t, w, "u", "active@0")
}

func TestScenario12ALaptopLid(t *testing.T) {
	w := newWorld(t, rollcall.Default())
	g := w.edge("g1")
	a := g.open("u", "A", active)
	w.to(10)
	g.close(a, wire.Reason_REASON_CLOSED)
	w.to(15)
	a = g.open("u", "A", active)
	w.to(17)
	g.close(a, wire.Reason_REASON_CLOSED)
	w.to(300)
	mustSee(t, w, "u", "active@0", "offline@37")
}

func TestScenario38AFlappingUser(t *testing.T) {
	w := newWorld(t, rollcall.Default())
	g := w.edge("g1")
	for s := range 600 {
		w.to(float64(s))
		g.close(g.open("u", "A", active), wire.Reason_REASON_CLOSED)
	}
	w.to(700)
	mustSee(t, w, "u", "active@0", "offline@619")
}

func TestScenario39LastSeenIsTheLastSign(t *testing.T) {
	w := newWorld(t, rollcall.Default())
	g := w.edge("g1")
	a := g.open("u", "A", active)
	w.to(100)
	g.closeSeen(a, wire.Reason_REASON_PING_TIMEOUT, start+20*second)
	w.to(200)
	mustSee(t, w, "u", "active@0", "offline@120")
	mustLeave(t, w, "u half_open 100")
	if seen := w.store.Views["u"].Seen; rollcall.Micros(seen) != start+20*second {
		t.Errorf("last seen %v, want 20s", rollcall.Micros(seen).Sub(start))
	}
}

func TestScenario40LastSeenNeverGoesBack(t *testing.T) {
	w := newWorld(t, rollcall.Default())
	g := w.edge("g1")
	a, b := g.open("u", "A", active), g.open("u", "B", active)
	w.to(50)
	g.close(a, wire.Reason_REASON_CLOSED) // seen 50
	w.to(60)
	w.killKeeper()
	w.startKeeper()
	w.to(100)
	g.closeSeen(b, wire.Reason_REASON_PING_TIMEOUT, start+25*second)
	w.to(200)
	if seen := w.store.Views["u"].Seen; rollcall.Micros(seen) != start+50*second {
		t.Errorf("last seen %v, want 50s", rollcall.Micros(seen).Sub(start))
	}
}

func TestActivityIsTheBestDevices(t *testing.T) {
	w := newWorld(t, rollcall.Default())
	g := w.edge("g1")
	a := g.open("u", "A", active)
	g.setState(a, active, "game")
	w.to(1)
	b := g.open("u", "B", idle)
	g.setState(b, idle, "chat")
	w.to(2)
	g.setState(b, active, "chat") // as present, and newer
	w.to(3)
	g.close(b, wire.Reason_REASON_CLOSED)
	w.to(60)
	var labels []string
	for _, v := range w.views {
		labels = append(labels, v.Record.Activity)
	}
	if got := strings.Join(labels, " "); got != " game chat game" {
		t.Errorf("labels %q", got)
	}
}

func TestTooShortATTLFlaps(t *testing.T) {
	p := rollcall.Default()
	p.Renewal, p.LeaseTTL, p.Jitter, p.Debounce, p.Sweep = 60*time.Second, 50*time.Second, 0, 0, time.Second
	w := newWorld(t, p)
	w.edge("g1").open("u", "A", active)
	w.to(1000)
	if s := w.keeper.Stats(); s.LeaseExpiries != 16 || len(w.views) != 33 || s.Changes != 33 {
		t.Errorf("%d expiries and %d publications, want 16 and 33", s.LeaseExpiries, len(w.views))
	}
}

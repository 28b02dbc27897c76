package machine

import (
	"fmt"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

func TestScenario13AKilledEdge(t *testing.T) {
	w := newWorld(t, rollcall.Default())
	g1, g2 := w.edge("g1"), w.edge("g2")
	g1.open("u1", "A", active)
	g1.open("both", "A", active)
	g2.open("both", "B", active)
	g2.open("u2", "A", active)
	w.to(100) // g1 renewed at 60
	g1.crash()
	w.to(400)
	mustSee(t, w, "u1", "active@0", "offline@230")
	mustSee(t, w, "u2", "active@0")
	mustSee(t, w, "both", "active@0")
	mustLeave(t, w, "u1 edge_crash 170")
	if bound := w.params.Bounds().EdgeCrash; !bound.Contains(230*time.Second - 100*time.Second) {
		t.Errorf("offline 130 s after the crash, outside of %v", bound)
	}
}

func TestScenario14AnEdgeRestarts(t *testing.T) {
	w := newWorld(t, rollcall.Default())
	g := w.edge("g1")
	for i := range 20 {
		g.open(fmt.Sprint("u", i), "A", active)
	}
	g.open("gone", "A", active)
	w.to(100)
	g.crash()
	w.to(105)
	g = w.edge("g1")
	w.to(115)
	for i := range 20 {
		g.open(fmt.Sprint("u", i), "A", active)
	}
	w.to(400)
	for i := range 20 {
		mustSee(t, w, fmt.Sprint("u", i), "active@0")
	}
	mustSee(t, w, "gone", "active@0", "offline@125")
	mustLeave(t, w, "gone edge_restart 20")
	mustBeRight(w)
}

// The keeper of the world writes after every message; here it dies within.
func TestScenario15KilledHalfWayThroughAClearance(t *testing.T) {
	w := newWorld(t, rollcall.Default())
	g1, g2 := w.edge("g1"), w.edge("g2")
	const crowd = 10_000
	var opened []*wire.Entry
	for i := range crowd {
		opened = append(opened, g1.conns[g1.accept(fmt.Sprint("u", i), "A", active)])
	}
	g1.say(opened...)
	g2.open("other", "A", active)
	w.checkpoint()
	g1.crash()
	w.to(100)
	g2.crash()
	keeper := w.keeper
	w.killKeeper()
	w.now += 70 * second // both leases end at the same tick
	w.params.Outage = time.Hour
	keeper.params.Outage = time.Hour
	w.append(Source{Tick: true}, nil)
	w.log[len(w.log)-1].applyTo(keeper)
	if w.store.write(keeper.Take(), crowd/2) {
		t.Fatal("the keeper survived")
	}
	w.startKeeper()
	w.ticked = w.now
	w.to(600)
	if s := w.keeper.Stats(); s.Online != 0 || s.Connections != 0 || s.Leases != 0 {
		t.Errorf("left behind: %+v", s)
	}
	for _, id := range []string{"u0", "u9999", "other"} {
		if v := w.store.Views[id]; v.State != wire.State_STATE_OFFLINE {
			t.Errorf("%s is shown %v", id, v)
		}
	}
}

func TestScenario16TheKeeperIsAway(t *testing.T) {
	w := newWorld(t, rollcall.Default())
	g := w.edge("g1")
	g.open("stays", "A", active)
	leaves := g.open("leaves", "A", active)
	back := g.open("back", "A", active)
	w.to(100)
	w.checkpoint()
	w.killKeeper()
	w.to(200)
	g.close(leaves, wire.Reason_REASON_CLOSED)
	g.close(back, wire.Reason_REASON_CLOSED)
	w.to(210)
	g.open("back", "A", active)
	w.to(700)
	clear(w.store.Edges) // their TTL ran out
	w.ticked = w.now
	w.startKeeper()
	w.to(1000)
	mustSee(t, w, "stays", "active@0")
	mustSee(t, w, "back", "active@0")
	if n := len(w.changesOf("leaves")); n != 2 {
		t.Errorf("leaves: %v", w.changesOf("leaves"))
	}
	if v := w.store.Views["leaves"]; rollcall.Micros(v.Seen) != start+200*second {
		t.Errorf("last seen %v, want 200s", rollcall.Micros(v.Seen).Sub(start))
	}
	mustBeRight(w)
}

func TestScenario17TheStoreIsAway(t *testing.T) {
	w := newWorld(t, rollcall.Default())
	g1, g2 := w.edge("g1"), w.edge("g2")
	g1.open("u1", "A", active)
	a := g2.open("u2", "A", active)
	w.to(100)
	g2.close(a, wire.Reason_REASON_CLOSED) // its debounce is running
	w.to(110)
	w.outage(10 * time.Minute)
	w.tick() // comes before anything that the edges say
	w.to(w.clock().Seconds() + 5)
	g2.open("u2", "A", active)
	w.to(w.clock().Seconds() + 600)
	mustSee(t, w, "u1", "active@0")
	mustSee(t, w, "u2", "active@0")
	mustBeRight(w)
}

func TestScenario17AnEdgeThatDiedMeanwhile(t *testing.T) {
	w := newWorld(t, rollcall.Default())
	g1, g2 := w.edge("g1"), w.edge("g2")
	g1.open("u1", "A", active)
	g2.open("u2", "A", active)
	w.to(100)
	g2.crash()
	w.outage(10 * time.Minute)
	w.tick()
	w.to(1200)
	mustSee(t, w, "u1", "active@0")
	mustSee(t, w, "u2", "active@0", "offline@790") // back at 700, one longest renewal, sweep, debounce
}

func TestScenario18TheStoreForgets(t *testing.T) {
	w := newWorld(t, rollcall.Default())
	g := w.edge("g1")
	a := g.open("leaves", "A", active)
	g.open("stays", "A", active)
	w.to(100)
	kept := len(w.log)
	w.to(105)
	g.close(a, wire.Reason_REASON_CLOSED)
	g.open("comes", "A", active)
	w.to(130)
	w.loseTail(len(w.log) - kept)
	w.ticked = w.now
	w.to(130 + w.params.LongestRenewal().Seconds() + 20)
	mustBeRight(w)
	mustSee(t, w, "stays", "active@0")
	mustSee(t, w, "comes", "active@105")
}

// The log and the records of the lost half minute are both gone: only the edges
// know.
func TestScenario18TheRecordsForgetToo(t *testing.T) {
	w := newWorld(t, rollcall.Default())
	g := w.edge("g1")
	a := g.open("leaves", "A", active)
	w.to(100)
	w.checkpoint()
	old, kept := w.store.copied(), len(w.log)
	g.close(a, wire.Reason_REASON_CLOSED)
	g.open("comes", "A", active)
	w.to(129)
	views := w.store.Views // another stream, which lost nothing
	w.store.Records, w.log = old, w.log[:kept]
	w.store.Views = views
	w.killKeeper()
	w.startKeeper()
	w.ticked = w.now
	w.to(129 + w.params.LongestRenewal().Seconds() + 60)
	mustBeRight(w)
	if got := w.changesOf("comes"); len(got) != 1 {
		t.Errorf("published of comes: %v", got)
	}
}

// A keeper that lost its shard goes on for a while. Whatever it would still write
// is what its successor has written, or is not written by it at all: the fence is
// the runner's, the machine's part is that both decide alike.
func TestScenario19AStaleKeeperDecidesAlike(t *testing.T) {
	w := newWorld(t, rollcall.Default())
	g := w.edge("g1")
	a := g.open("u", "A", active)
	w.to(50)
	w.checkpoint()
	stale := w.keeper
	w.killKeeper()
	w.startKeeper()
	from := len(w.log)
	g.close(a, wire.Reason_REASON_CLOSED)
	w.to(100)
	for _, msg := range w.log[from:] {
		msg.applyTo(stale)
	}
	for _, v := range stale.Take().Views {
		if now := w.store.Views[v.User]; v.Record.Version > now.Version {
			t.Errorf("the stale keeper would write %v over %v", v.Record, now)
		}
	}
	mustSee(t, w, "u", "active@0", "offline@70")
}

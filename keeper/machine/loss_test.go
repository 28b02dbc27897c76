package machine

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// live lets three gateways do something at random.
func live(t *rapid.T, w *world) {
	if rapid.IntRange(0, 2).Draw(t, "time") == 0 {
		w.to(w.clock().Seconds() + float64(rapid.IntRange(1, 7).Draw(t, "seconds")))
	} else {
		w.now += second / 100
	}
	g := w.gateways[edgeIDs.Draw(t, "gateway")]
	conns := slices.Sorted(maps.Keys(g.conns))
	state := rollcall.State(rapid.IntRange(1, 3).Draw(t, "state"))
	switch action := rapid.IntRange(0, 9).Draw(t, "action"); {
	case action < 4 || len(conns) == 0:
		g.open(userIDs.Draw(t, "user"), deviceIDs.Draw(t, "device"), state)
	case action < 6:
		g.setState(rapid.SampledFrom(conns).Draw(t, "conn"), state, activities.Draw(t, "activity"))
	case action < 8:
		g.close(rapid.SampledFrom(conns).Draw(t, "conn"), reasons.Draw(t, "reason"))
	case action == 8:
		g.renew()
	default:
		g.roster()
	}
	w.answer()
}

func drawWorld(t *rapid.T) *world {
	w := newWorld(t, drawParams(t))
	for _, id := range []string{"e1", "e2", "e3"} {
		w.edge(id)
	}
	return w
}

// mustBeRight compares the keeper with what the gateways hold.
func mustBeRight(w *world) {
	w.t.Helper()
	var truth []string
	users := make(map[string]rollcall.State)
	for _, g := range w.gateways {
		for conn, c := range g.conns {
			truth = append(truth, fmt.Sprint(g.id, g.incarnation, conn, c.User, c.Device, c.Epoch, rollcall.State(c.State), c.Activity, true))
			users[c.User] = max(users[c.User], rollcall.State(c.State))
		}
	}
	slices.Sort(truth)
	if got := machineClaims(w.keeper); !slices.Equal(got, truth) {
		w.t.Fatalf("at %v the keeper holds\n%v\nwant\n%v", w.clock(), got, truth)
	}
	for id, v := range w.store.Views {
		if rollcall.State(v.State) != users[id] {
			w.t.Fatalf("at %v %s is shown %v, want %v", w.clock(), id, v, users[id])
		}
	}
	for id, s := range users {
		if w.store.Views[id] == nil {
			w.t.Fatalf("at %v %s is not shown, want %v", w.clock(), id, s)
		}
	}
}

// settleDown lets everybody renew, answer, and time run over every deadline.
func settleDown(w *world) {
	for range 4 {
		w.to((w.clock() + w.params.LongestRenewal() + w.params.Outage + w.params.Debounce + 2*w.params.Sweep).Seconds())
	}
}

// Also not when keepers come and go: what a new one reads again it does not say
// again.
func TestLosslessLogsNeverMismatch(t *testing.T) {
	check(t, func(t *rapid.T) {
		w := drawWorld(t)
		var s Stats
		for range rapid.IntRange(1, 60).Draw(t, "actions") {
			live(t, w)
			switch rapid.IntRange(0, 9).Draw(t, "keeper") {
			case 0:
				w.checkpoint()
			case 1:
				s = s.Add(w.keeper.Stats())
				told := len(w.told)
				w.killKeeper()
				w.startKeeper()
				if len(w.told) > told {
					t.Fatalf("said again after a restart: %v", w.told[told:])
				}
			}
		}
		settleDown(w)
		mustBeRight(w)
		if s = s.Add(w.keeper.Stats()); s.Mismatches+s.Repaired+s.Unregistered != 0 {
			t.Fatalf("without any loss: %+v", s)
		}
	})
}

// A roster that was open when the log lost its tail is no roster any more, and the
// next checkpoint does not wait for its end.
func TestALostTailEndsEveryRoster(t *testing.T) {
	w := newWorld(t, rollcall.Default())
	g := w.edge("g1")
	g.open("u", "A", active)
	g.say(&wire.Entry{Kind: wire.Kind_KIND_ROSTER_BEGIN})
	if c := w.keeper.Checkpoint(); c.Sequence != 2 {
		t.Fatalf("checkpoint at %d, want 2, before the roster", c.Sequence)
	}
	w.keeper.ResyncAll()
	if c := w.keeper.Checkpoint(); c.Sequence != 3 {
		t.Errorf("checkpoint at %d, want 3", c.Sequence)
	}
	g.say(&wire.Entry{Kind: wire.Kind_KIND_ROSTER_END})
	w.to(100)
	mustSee(t, w, "u", "active@0")
}

// Entries get lost. One round of renewals, rosters and goodbyes makes it right.
func TestLostFramesAreRepaired(t *testing.T) {
	check(t, func(t *rapid.T) {
		w := drawWorld(t)
		losing, lost := true, 0
		for _, g := range w.gateways {
			g.loses = func() bool {
				if losing && rapid.IntRange(0, 4).Draw(t, "lost") == 0 {
					lost++
					return true
				}
				return false
			}
		}
		for range rapid.IntRange(1, 50).Draw(t, "actions") {
			live(t, w)
		}
		losing = false
		before := w.keeper.Stats()
		for range 3 { // renewals ask, rosters answer, superseded ones leave
			for _, id := range []string{"e1", "e2", "e3"} {
				w.gateways[id].renew()
			}
			w.answer()
		}
		settleDown(w)
		mustBeRight(w)
		if after := w.keeper.Stats(); after.Mismatches > before.Mismatches && after.Repaired == before.Repaired && after.Unregistered == before.Unregistered {
			t.Fatalf("repaired without counting it: %+v", after)
		}
		if after := w.keeper.Stats(); lost == 0 && after.Mismatches > 0 {
			t.Fatalf("nothing was lost: %+v", after)
		}
	})
}

// The store loses the end of the log after the keeper has written what it said;
// the next keeper goes on above it and asks everybody.
func TestLostTailIsRepaired(t *testing.T) {
	check(t, func(t *rapid.T) {
		w := drawWorld(t)
		for range rapid.IntRange(1, 50).Draw(t, "actions") {
			live(t, w)
			if rapid.IntRange(0, 5).Draw(t, "checkpoint") == 0 {
				w.checkpoint()
			}
		}
		w.loseTail(rapid.IntRange(1, len(w.log)).Draw(t, "lost messages"))
		for range rapid.IntRange(0, 10).Draw(t, "more actions") {
			live(t, w)
		}
		settleDown(w)
		mustBeRight(w)
		mustOnlyMoveOn(t, w.store.history)
	})
}

// loseTail is what the runner does after a loss: go on above everything known,
// read nothing of what is left, ask every edge.
func (w *world) loseTail(n int) {
	records := w.store.copied()
	w.cutLog(records, n)
}

// cutLog goes on with these records and without the last messages.
func (w *world) cutLog(records Records, n int) {
	w.log = w.log[:len(w.log)-n]
	w.lost = records.LastSequence() - uint64(len(w.log))
	w.keeper = Load(w.params, 0, records)
	w.keeper.ResyncAll()
	w.flush()
	w.answer()
}

// The leases bucket and the log both lose what the views bucket still shows.
func TestOldRecordsUnderNewViewsAreRepaired(t *testing.T) {
	check(t, func(t *rapid.T) {
		w := drawWorld(t)
		act := func(what string) {
			for range rapid.IntRange(1, 30).Draw(t, what) {
				live(t, w)
			}
		}
		act("actions")
		w.checkpoint()
		old, kept := w.store.copied(), len(w.log)
		act("lost actions")
		views := w.store.Views
		w.store.Records = old
		w.store.Views = views
		w.cutLog(w.store.copied(), len(w.log)-kept)
		settleDown(w)
		mustBeRight(w)
		mustOnlyMoveOn(t, w.store.history)
		for _, d := range w.left {
			if d.Way == rollcall.WayNone {
				t.Fatalf("%s left in no way", d.User)
			}
		}
	})
}

// Records are lost, in any number and of any kind. Nobody who is there is shown
// offline for it, and in the end everything is right.
func TestLostRecordsAreRepaired(t *testing.T) {
	check(t, func(t *rapid.T) {
		w := drawWorld(t)
		for range rapid.IntRange(1, 50).Draw(t, "actions") {
			live(t, w)
		}
		settleDown(w)
		w.checkpoint()
		w.killKeeper()
		lose := func(what string) bool { return rapid.IntRange(0, 2).Draw(t, "lost "+what) == 0 }
		maps.DeleteFunc(w.store.Views, func(string, *wire.View) bool { return lose("view") })
		maps.DeleteFunc(w.store.Users, func(string, *wire.UserRecord) bool { return lose("user") })
		maps.DeleteFunc(w.store.Edges, func(string, *wire.EdgeRecord) bool { return lose("edge") })
		w.views = nil
		w.startKeeper()
		settleDown(w)
		for _, v := range w.views {
			if v.Record.State == wire.State_STATE_OFFLINE && slices.ContainsFunc(heldUsers(w), func(u string) bool { return u == v.User }) {
				t.Fatalf("%s was there and is shown offline at %v", v.User, v.at)
			}
		}
		mustBeRight(w)
	})
}

func heldUsers(w *world) (users []string) {
	for _, g := range w.gateways {
		for _, c := range g.conns {
			users = append(users, c.User)
		}
	}
	return users
}

// The keeper is away for so long that the store's own TTL has removed every lease.
// What happened meanwhile is in the log, and those who stayed stay online.
func TestExpiredEdgeRecordsHarmNobody(t *testing.T) {
	check(t, func(t *rapid.T) {
		w := drawWorld(t)
		for range rapid.IntRange(1, 30).Draw(t, "actions") {
			live(t, w)
		}
		w.checkpoint()
		for range rapid.IntRange(0, 5).Draw(t, "flushed after the checkpoint") {
			live(t, w)
		}
		w.killKeeper()
		killed := w.now
		for range rapid.IntRange(0, 30).Draw(t, "actions without a keeper") {
			live(t, w)
		}
		w.to((w.clock() + 10*time.Minute).Seconds())
		clear(w.store.Edges)
		w.views = nil
		w.ticked = w.now
		w.startKeeper()
		w.tick()
		settleDown(w)
		mustBeRight(w)
		for _, v := range w.views {
			if v.Record.State == wire.State_STATE_OFFLINE && heldSince(w, v.User, killed) {
				t.Fatalf("%s was there all the time and is shown offline at %v", v.User, v.at)
			}
		}
	})
}

// heldSince says whether a connection of the user has lived since then.
func heldSince(w *world, user string, then rollcall.Micros) bool {
	for _, g := range w.gateways {
		for _, c := range g.conns {
			if c.User == user && rollcall.Micros(c.Epoch) < then {
				return true
			}
		}
	}
	return false
}

package machine

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

func forgetful() rollcall.Params {
	p := rollcall.Default()
	p.Buffer = 10 * time.Minute
	return p
}

// remembers lets half a minute pass, with a checkpoint, and says whether the user
// is still known.
func (w *world) remembers(user string) bool {
	w.checkpoint()
	w.to(w.clock().Seconds() + 30)
	inMemory, inStore := w.keeper.users[user] != nil, w.store.Users[user] != nil
	if inMemory != inStore {
		w.t.Errorf("at %v %s is known to the keeper: %v, to the store: %v", w.clock(), user, inMemory, inStore)
	}
	return inMemory
}

func TestLongGoneUsersAreForgotten(t *testing.T) {
	w := newWorld(t, forgetful())
	g := w.edge("g1")
	g.close(g.open("u", "A", active), wire.Reason_REASON_CLOSED)
	w.to(500)
	if !w.remembers("u") {
		t.Error("forgotten within the buffer")
	}
	w.to(640)
	if w.remembers("u") {
		t.Error("remembered for ever")
	}
	if v := w.store.Views["u"]; v.GetState() != wire.State_STATE_OFFLINE || v.GetSeen() == 0 {
		t.Errorf("the view says %v, want offline with the last sign of life", v)
	}
	g.open("u", "A", active)
	w.to(800)
	mustSee(t, w, "u", "active@0", "offline@20", "active@670")
	mustBeRight(w)
}

// One who comes and goes is not gone, and does not keep the others in memory.
func TestAFlappingUserKeepsNobodyInMemory(t *testing.T) {
	w := newWorld(t, forgetful())
	g := w.edge("g1")
	flap := func() { g.close(g.open("flaps", "A", active), wire.Reason_REASON_CLOSED) }
	flap()
	g.close(g.open("u", "A", active), wire.Reason_REASON_CLOSED)
	for s := 60.0; s < 700; s += 60 {
		w.to(s)
		flap()
	}
	if w.remembers("u") {
		t.Error("remembered for ever")
	}
	if !w.remembers("flaps") || w.keeper.gone.Len() > 1 {
		t.Errorf("%d in the list of the offline, want the one who flaps, once", w.keeper.gone.Len())
	}
}

// While an edge says that it holds a connection of a user, even a stale one, its
// digest must be understood.
func TestNobodyIsForgottenWhileAnEdgeClaimsThem(t *testing.T) {
	w := newWorld(t, forgetful())
	g1, g2 := w.edge("g1"), w.edge("g2")
	old := g1.open("u", "A", active)
	g1.inboxClosed = true
	w.to(10)
	g2.close(g2.open("u", "A", active), wire.Reason_REASON_CLOSED)
	w.to(900)
	if !w.remembers("u") {
		t.Fatal("forgotten while g1 holds a connection")
	}
	g1.close(old, wire.Reason_REASON_REPLACED)
	if w.remembers("u") {
		t.Error("remembered for ever")
	}
	if s := w.keeper.Stats(); s.Mismatches != 0 {
		t.Errorf("%d mismatches", s.Mismatches)
	}
}

// A record is deleted only when no restarted keeper can come to an entry that was
// decided by it.
func TestNothingIsForgottenBeforeTheCheckpoint(t *testing.T) {
	w := newWorld(t, forgetful())
	g := w.edge("g1")
	g.inboxClosed = true
	late := g.accept("u", "A", active)
	w.to(5)
	g.close(g.open("u", "A", active), wire.Reason_REASON_CLOSED)
	w.to(630)
	w.checkpoint()
	g.tell(late)
	g.close(late, wire.Reason_REASON_CLOSED)
	if w.keeper.Stats().RejectedStale == 0 {
		t.Error("the late open was not rejected")
	}
	w.to(645) // without a renewal, which would prove that all records are written
	w.killKeeper()
	w.startKeeper()
	w.to(800)
	mustSee(t, w, "u", "active@5", "offline@25")
}

// With a buffer so short that everybody is forgotten all the time, restarts still
// contradict nothing and never go back.
func TestRestartsAmongTheForgotten(t *testing.T) {
	check(t, func(t *rapid.T) {
		p := drawParams(t)
		p.Buffer = time.Duration(rapid.IntRange(1, 30).Draw(t, "buffer")) * time.Second
		history, _ := drawHistory(t, p, 120)
		s := newStore()
		m, at := New(p, 0), 0
		for at < len(history) {
			n := min(rapid.IntRange(1, 10).Draw(t, "batch"), len(history)-at)
			for _, msg := range history[at : at+n] {
				msg.applyTo(m)
				mustHold(t, m)
			}
			at += n
			c := m.Take()
			if !s.write(c, rapid.IntRange(-2*changes(c)-1, changes(c)).Draw(t, "dies after")) {
				m, at = restart(t, p, history, s)
			} else if rapid.Bool().Draw(t, "checkpoint") {
				s.Checkpoint = m.Checkpoint()
			}
		}
		last := make(map[string]uint64)
		for _, v := range s.history {
			if v.Record.Version < last[v.User] {
				t.Fatalf("%s goes back from version %d to %v", v.User, last[v.User], v.Record)
			}
			last[v.User] = v.Record.Version
		}
	})
}

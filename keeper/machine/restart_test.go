package machine

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// A keeper that dies anywhere, also in the middle of writing, and as often as it
// likes, leaves in the end what one leaves that never dies; and on the way nobody
// sees a view that is older than one before.
func TestRestartAnywhereEndsAtTheSame(t *testing.T) {
	check(t, func(t *rapid.T) {
		p := drawParams(t)
		history, _ := drawHistory(t, p, 90)
		want, _ := uninterrupted(p, history)

		s := newStore()
		m, at := Load(p, 0, s.copied()), 0
		for at < len(history) {
			n := min(rapid.IntRange(1, 12).Draw(t, "batch"), len(history)-at)
			for _, msg := range history[at : at+n] {
				msg.applyTo(m)
				mustHold(t, m)
			}
			at += n
			c := m.Take()
			if replaying(m) && (len(c.Controls) > 0 || m.stats.Mismatches > 0) {
				t.Fatalf("message %d was applied before, and yet: %v, %d mismatches", m.seq, c.Controls, m.stats.Mismatches)
			}
			if dies := rapid.IntRange(-2*changes(c)-1, changes(c)).Draw(t, "dies after"); !s.write(c, dies) {
				m, at = restart(t, p, history, s)
				continue
			}
			if rapid.IntRange(0, 3).Draw(t, "checkpoint") == 0 {
				s.Checkpoint = m.Checkpoint()
			}
			if rapid.IntRange(0, 9).Draw(t, "dies idle") == 0 {
				m, at = restart(t, p, history, s)
			}
		}
		mustEqualStores(t, s, want)
		mustOnlyMoveOn(t, s.history)
	})
}

func restart(t *rapid.T, p rollcall.Params, history []message, s *store) (*Machine, int) {
	m := Load(p, 0, s.copied())
	mustHold(t, m)
	after := s.Checkpoint.GetSequence()
	at := slices.IndexFunc(history, func(msg message) bool { return msg.seq > after })
	if at < 0 {
		at = len(history)
	}
	return m, at
}

// uninterrupted writes after every message.
func uninterrupted(p rollcall.Params, history []message) (*store, *Machine) {
	s, m := newStore(), New(p, 0)
	for _, msg := range history {
		msg.applyTo(m)
		s.write(m.Take(), -1)
	}
	return s, m
}

func mustOnlyMoveOn(t *rapid.T, published []View) {
	t.Helper()
	last := make(map[string]*wire.View)
	for _, v := range published {
		before := last[v.User]
		if v.Record.Version < before.GetVersion() || v.Record.Version == before.GetVersion() && !proto.Equal(v.Record, before) {
			t.Fatalf("%s goes back from %v to %v", v.User, before, v.Record)
		}
		last[v.User] = v.Record
	}
}

// Whole machines are equal after a restart, not only what they have written: what
// comes next leads to the same.
func TestRestartDecidesTheSame(t *testing.T) {
	check(t, func(t *rapid.T) {
		p := drawParams(t)
		history, _ := drawHistory(t, p, 120)
		at := rapid.IntRange(0, len(history)).Draw(t, "restart at")
		s, m := uninterrupted(p, history[:at])
		if m.seq > 0 {
			s.Checkpoint = m.Checkpoint()
		}
		restarted, from := restart(t, p, history, s)
		for _, msg := range history[from:at] {
			msg.applyTo(restarted)
		}
		for _, msg := range history[at:] {
			msg.applyTo(m)
			msg.applyTo(restarted)
			mustHold(t, restarted)
			mine, its := m.Take(), restarted.Take()
			a, b := newStore(), newStore()
			a.write(mine, -1)
			b.write(its, -1)
			if !slices.EqualFunc(mine.Views, its.Views, func(v, w View) bool { return v.User == w.User && proto.Equal(v.Record, w.Record) }) {
				t.Fatalf("%v: views %v\nwant %v", msg, its.Views, mine.Views)
			}
			s.write(mine, -1)
		}
		if got, want := machineClaims(restarted), machineClaims(m); !slices.Equal(got, want) {
			t.Fatalf("holds %v\nwant %v", got, want)
		}
		if got, want := machineLeases(restarted), machineLeases(m); !slices.Equal(got, want) {
			t.Fatalf("leases %v\nwant %v", got, want)
		}
	})
}

// Writing the same log's changes twice, as after a restart from an old
// checkpoint, is harmless at any distance.
func TestReplayFromTheBeginning(t *testing.T) {
	check(t, func(t *rapid.T) {
		p := drawParams(t)
		history, _ := drawHistory(t, p, 100)
		want, _ := uninterrupted(p, history)
		s, _ := uninterrupted(p, history)
		s.history = nil
		m, _ := restart(t, p, history, s)
		for _, msg := range history {
			msg.applyTo(m)
			if rapid.Bool().Draw(t, "take") {
				s.write(m.Take(), -1)
			}
		}
		s.write(m.Take(), -1)
		mustEqualStores(t, s, want)
		if len(s.history) > 0 {
			t.Fatalf("published again: %v", s.history)
		}
	})
}

// Without a debounce a deadline is due the moment it is set. A tick of the same
// instant that came before it, and is read again, is not the one that fires it.
func TestATickOfTheSameInstantIsReadAgain(t *testing.T) {
	p := quick(0)
	w := newWorld(t, p)
	g := w.edge("g1")
	conn := g.open("u", "A", active)
	w.checkpoint()
	w.to(1)
	w.tick()
	g.close(conn, wire.Reason_REASON_CLOSED)
	w.killKeeper()
	w.startKeeper()
	if v := w.store.Views["u"]; v.State == wire.State_STATE_OFFLINE {
		t.Fatalf("offline by a tick before the goodbye: %v", v)
	}
	w.tick()
	mustSee(t, w, "u", "active@0", "offline@1")
}

package edge

import (
	"testing"
	"time"
)

// at puts the clock of a loose node to an instant.
func (n *Node) at(t instant) instant {
	n.clock.start = time.Now().Add(-t)
	return n.clock.refresh()
}

func (n *Node) tickAt(t instant, stalled bool) {
	now := n.at(t)
	for _, p := range n.pipelines {
		p.tick(now, stalled)
	}
}

func TestSuspectThenDead(t *testing.T) {
	n := loose(t, 1)
	c := n.mustConnect(t, "alice", "phone")
	for _, step := range []struct {
		at              time.Duration
		beat            uint32 // 0: none
		suspects, conns int64
	}{
		{29 * time.Second, 1, 0, 1},
		{32 * time.Second, 0, 0, 1},
		{61 * time.Second, 0, 1, 1}, // a beat was missed
		{62 * time.Second, 2, 1, 1}, // it comes late
		{105 * time.Second, 0, 1, 1},
		{136 * time.Second, 0, 1, 1},
		{139 * time.Second, 0, 0, 0}, // 75 s after the last
	} {
		n.tickAt(step.at, false)
		if step.beat > 0 {
			c.Beat(step.beat)
		}
		if s := n.Stats(); s.Suspects != step.suspects || s.Connections != step.conns {
			t.Errorf("at %v: %d suspects of %d", step.at, s.Suspects, s.Connections)
		}
	}
}

// A process that was stopped has not read its sockets: the heartbeats are still on
// their way to it.
func TestAStalledNodeGrantsAnInterval(t *testing.T) {
	n := loose(t, 1)
	alive, dead := n.mustConnect(t, "alice", "phone"), n.mustConnect(t, "bob", "phone")
	n.tickAt(10*time.Minute, true)
	if s := n.Stats(); s.Connections != 2 || s.Suspects != 2 {
		t.Fatalf("after the stall %+v", s)
	}
	alive.Beat(1)
	n.tickAt(10*time.Minute+31*time.Second, false)
	if alive.Gone() || !dead.Gone() {
		t.Errorf("alive gone %v, dead gone %v", alive.Gone(), dead.Gone())
	}
}

func TestTickerKnowsAStall(t *testing.T) {
	ticker := ticker{every: time.Second}
	for _, step := range []struct {
		now     instant
		stalled bool
	}{{time.Second, false}, {3 * time.Second, false}, {6 * time.Second, true}, {7 * time.Second, false}} {
		if got := ticker.stalled(step.now); got != step.stalled {
			t.Errorf("at %v: stalled %v", step.now, got)
		}
	}
}

func TestRenewalsSpread(t *testing.T) {
	p := steady()
	p.Jitter = 0.1
	r := newRenewals(p, Config{Seed: 3}.rand(randRenewals))
	defer r.timer.Stop()
	if first := time.Until(r.due); first > p.Renewal {
		t.Errorf("the first after %v", first)
	}
	for range 1000 {
		before := r.due
		r.next()
		if d := r.due.Sub(before); d < 54*time.Second || d > 66*time.Second {
			t.Fatalf("the next after %v", d)
		}
	}
}

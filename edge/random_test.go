package edge

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// An act is one step of a random history.
type act struct {
	what string
	n    int // which endpoint, connection or shard
	wait time.Duration
}

var acts = []string{
	"connect", "connect", "connect", "close", "close", "state", "state", "beat", "beat", "logout",
	"pull", "plug", "plug", "deaf", "hear", "freeze", "thaw", "resync", "unregister",
}

func drawActs(t *rapid.T) []act {
	one := rapid.Custom(func(t *rapid.T) act {
		return act{
			what: rapid.SampledFrom(acts).Draw(t, "act"),
			n:    rapid.IntRange(0, 11).Draw(t, "n"),
			wait: rapid.SampledFrom([]time.Duration{0, 0, 0, time.Millisecond, 700 * time.Millisecond, 4 * time.Second}).Draw(t, "wait"),
		}
	})
	return rapid.SliceOfN(one, 1, 120).Draw(t, "acts")
}

// Whatever happens to connections and to the path, the log tells exactly what the
// node holds: every frame once and in order, every renewal's digest right at its
// place, and what waits is bounded by the connections.
func TestRandomHistories(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		script := drawActs(r)
		var err error
		lab.Bubble(t, func(t *testing.T) { err = live(t, script) })
		if err != nil {
			r.Fatal(err)
		}
	})
}

func live(t *testing.T, script []act) error {
	params := rollcall.Worker()
	w := newWorld(t, 2, params)
	e := w.start(Config{})
	conns := map[int]*Conn{} // the latest of each endpoint
	for i, a := range script {
		e.perform(a, i, conns)
		time.Sleep(a.wait)
		if err := e.checkBounded(); err != nil {
			return fmt.Errorf("after act %d: %w", i, err)
		}
	}
	e.cable.deaf.Store(false)
	e.cable.frozen.Store(false)
	e.cable.pull()
	e.cable.plug()
	time.Sleep(8 * time.Second) // the last retry may be one pause away
	for _, c := range conns {
		c.Beat(1 << 30)
	}
	time.Sleep(4 * time.Second)
	if s := e.Stats(); s.Pending != 0 || s.StoreLost != 0 {
		return fmt.Errorf("in the end %+v", s)
	}
	for shard := range 2 {
		if err := e.checkLog(shard); err != nil {
			return fmt.Errorf("shard %d: %w", shard, err)
		}
	}
	return nil
}

func (e *edgeUnderTest) perform(a act, seq int, conns map[int]*Conn) {
	c := conns[a.n]
	if c == nil && a.what != "connect" {
		c = conns[0]
	}
	switch a.what {
	case "connect":
		conns[a.n] = e.connect(fmt.Sprint("user", a.n/2), fmt.Sprint("device", a.n%2))
	case "pull":
		e.cable.pull()
	case "plug":
		e.cable.plug()
	case "deaf", "hear":
		e.cable.deaf.Store(a.what == "deaf")
	case "freeze", "thaw":
		e.cable.frozen.Store(a.what == "freeze")
	case "resync":
		e.pipelines[a.n%2].resync()
	case "unregister":
		e.pipelines[a.n%2].unregister()
	}
	if c == nil {
		return
	}
	switch a.what {
	case "close":
		c.Close()
	case "logout":
		c.CloseFor(wire.Reason_REASON_LOGOUT)
	case "state":
		c.SetState(State{Foreground: seq%2 == 0, Active: seq%3 == 0, Activity: fmt.Sprint(seq % 4)})
	case "beat":
		c.Beat(uint32(seq + 1))
	}
}

func (e *edgeUnderTest) checkBounded() error {
	for _, p := range e.pipelines {
		p.mu.Lock()
		pending, items, told, held := p.backlog.len(), len(p.backlog.items), int(p.told.count), p.roll.len()
		seats := len(p.roll.seats)
		p.mu.Unlock()
		if pending > held || items > max(32, 2*pending+1) {
			return fmt.Errorf("%d pending in %d items, %d held, %d told", pending, items, held, told)
		}
		if seats > 2*held+1 {
			return fmt.Errorf("%d held in %d seats", held, seats)
		}
	}
	return nil
}

// checkLog compares what the log says with what the node holds.
func (e *edgeUnderTest) checkLog(shard int) error {
	r, err := e.w.replay(shard, "gw")
	if err != nil {
		return err
	}
	p := e.pipelines[shard]
	p.mu.Lock()
	defer p.mu.Unlock()
	count, digest := r.sum()
	lease := r.registered || !p.registered // a lease that was lost is not in the log
	if count != p.told.count || digest != uint64(p.told.digest) || !lease {
		return fmt.Errorf("the log has %d connections, lease %v; the node %d, %v", count, r.registered, p.told.count, p.registered)
	}
	for c := range p.roll.from(0) {
		said := r.conns[c.number]
		now := c.now.Value()
		switch {
		case said == nil:
			return fmt.Errorf("connection %d is not in the log", c.number)
		case c.phase.has(phaseGone):
			return fmt.Errorf("connection %d is gone and not closed", c.number)
		case said.State != now.state || said.Activity != now.activity || said.Epoch != int64(c.epoch):
			return fmt.Errorf("connection %d is %v in the log and %v here", c.number, said, now)
		}
	}
	return nil
}

package edge

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/edge/phi"
	"github.com/rollcall-io/rollcall/internal/lab"
)

// steadily beats every 28 s until an instant, turning the wheel every second, and returns
// when the last beat came.
func (n *Node) steadily(from, until instant, conns ...*Conn) (last instant) {
	for at := from; at <= until; at += time.Second {
		n.tickAt(at, false)
		if (at-from)%(28*time.Second) == 0 {
			for _, c := range conns {
				c.Beat(sign(c.last.Load()).seq() + 1)
			}
			last = at
		}
	}
	return last
}

// goneAfter is how long after an instant a connection is found dead, to the second.
func (n *Node) goneAfter(t *testing.T, c *Conn, last instant) time.Duration {
	t.Helper()
	for silence := time.Second; silence < 5*time.Minute; silence += time.Second {
		if n.tickAt(last+silence, false); c.Gone() {
			return silence
		}
	}
	t.Fatal("never found")
	return 0
}

func TestDetectorFindsTheSteadySooner(t *testing.T) {
	n := looseWith(t, 1, &phi.Config{})
	c := n.mustConnect(t, "alice", "phone")
	last := n.steadily(time.Second, 10*time.Minute, c)
	// 28 s expected, 5.6 deviations of one second, one heartbeat may be missing.
	if got := n.goneAfter(t, c, last); got < 63*time.Second || got > 65*time.Second {
		t.Errorf("found after %v", got)
	}
	if s := n.Stats(); s.Timeouts != 1 || s.Sooner != 1 {
		t.Errorf("%+v", s)
	}
	if a := n.pipelines[0].accrual; len(a.histories) != 0 {
		t.Errorf("%d histories of nobody", len(a.histories))
	}
}

// Without history, and after a change to the background, the fixed timeout holds.
func TestDetectorNeedsHistory(t *testing.T) {
	n := looseWith(t, 1, &phi.Config{})
	c := n.mustConnect(t, "alice", "phone")
	last := n.steadily(time.Second, 10*time.Minute, c)
	if err := c.SetState(State{}); err != nil {
		t.Fatal(err)
	}
	last = n.steadily(last+28*time.Second, last+2*time.Minute, c)
	if got := n.goneAfter(t, c, last); got < 75*time.Second {
		t.Errorf("found after %v", got)
	}
	if s := n.Stats(); s.Timeouts != 1 || s.Sooner != 0 {
		t.Errorf("%+v", s)
	}
}

// A pause of the process, or of what all devices come through, ends nobody, and is no
// interval of a device.
func TestDetectorForgivesStalls(t *testing.T) {
	for name, stall := range map[string]func(*Node, instant){
		"paused": func(n *Node, at instant) { n.tickAt(at, true) },
		"deaf": func(n *Node, at instant) {
			n.at(at)
			n.Deaf()
			n.tick(&ticker{every: time.Second, last: at})
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := looseWith(t, 1, &phi.Config{})
			alive, dead := n.mustConnect(t, "alice", "phone"), n.mustConnect(t, "bob", "phone")
			last := n.steadily(time.Second, 10*time.Minute, alive, dead)
			resumed := last + 10*time.Minute
			stall(n, resumed)
			last = n.steadily(resumed+25*time.Second, resumed+10*time.Minute, alive)
			if alive.Gone() || !dead.Gone() {
				t.Fatalf("alive gone %v, dead gone %v", alive.Gone(), dead.Gone())
			}
			if got := n.goneAfter(t, alive, last); got > 65*time.Second {
				t.Errorf("found after %v: the stall counts as an interval", got)
			}
		})
	}
}

// On a real node in virtual time, whatever the resolution: nobody is dead before a
// heartbeat was due, and nobody later than under the fixed timeout.
func TestDetectorIsNeverLater(t *testing.T) {
	for _, preset := range rollcall.PresetNames {
		for _, pause := range []time.Duration{0, -1} {
			t.Run(fmt.Sprintf("%s/%v", preset, pause), func(t *testing.T) {
				lab.Bubble(t, func(t *testing.T) { neverLater(t, preset, &phi.Config{Threshold: 3, Pause: pause}) })
			})
		}
	}
}

func neverLater(t *testing.T, preset string, detector *phi.Config) {
	params, _ := rollcall.Preset(preset)
	w := newWorld(t, 1, params)
	e := w.start(Config{Detector: detector, ClockResolution: time.Second})
	random := e.config.rand(99)
	last := map[*Conn]time.Time{}
	var mu sync.Mutex
	const conns = 40
	for i := range conns {
		steps := make([]time.Duration, i%20)
		for k := range steps {
			steps[k] = time.Duration((1 - params.Jitter*random.Float64()) * float64(params.Heartbeat))
			if i%3 == 0 {
				steps[k] = time.Duration(random.ExpFloat64() * float64(params.Heartbeat) / 3)
			}
		}
		go func() {
			c := e.connect(fmt.Sprint("user", i), "phone")
			for k := range len(steps) + 1 {
				mu.Lock()
				last[c] = time.Now()
				mu.Unlock()
				if k < len(steps) {
					time.Sleep(steps[k])
					if !c.Beat(uint32(k + 1)) {
						return // found dead between two beats
					}
				}
			}
		}()
	}
	time.Sleep(24*params.Heartbeat + params.IdleTimeout + params.CheckInterval)
	synctest.Wait()
	if len(e.dead) != conns {
		t.Fatalf("%d of %d found dead", len(e.dead), conns)
	}
	for c, sign := range last {
		after := e.deadAt[c].Sub(sign)
		if after < params.Heartbeat || after > params.IdleTimeout+params.CheckInterval {
			t.Errorf("found %v after the last sign of life", after)
		}
	}
	if s := e.Stats(); s.Sooner == 0 || s.Sooner == conns {
		t.Errorf("%d of %d found sooner: no test of both", s.Sooner, conns)
	}
}

// The store's absence is none of the devices'.
func TestDetectorAndAnOutage(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, rollcall.Default())
		e := w.start(Config{Detector: &phi.Config{}, ClockResolution: time.Second})
		c := e.connect("alice", "phone")
		for seq := range uint32(120) {
			switch seq {
			case 30:
				e.cable.pull()
			case 60:
				e.cable.plug()
			}
			time.Sleep(28 * time.Second)
			if !c.Beat(seq + 1) {
				t.Fatal("found dead at beat", seq+1)
			}
		}
	})
}

func TestDetectorThatCannotWork(t *testing.T) {
	_, err := New(nil, Config{ID: "gw", Detector: &phi.Config{Threshold: -1}})
	if !errors.Is(err, ErrConfig) || !errors.Is(err, phi.ErrConfig) {
		t.Error(err)
	}
}

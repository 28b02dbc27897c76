package edge

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/rollcall-io/rollcall"
)

// loop lets time pass: it refreshes the coarse clock and turns the wheels while
// there are connections, and makes renewals due.
func (n *Node) loop(ctx context.Context) error {
	r := newRenewals(n.params, n.config.rand(randRenewals))
	defer r.timer.Stop()
	t := ticker{every: n.timing.resolution}
	defer t.stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.timer.C:
			r.next()
			for _, p := range n.pipelines {
				p.renew()
			}
		case <-n.occupied:
			t.start(n.clock.refresh())
		case <-t.ticks:
			n.tick(&t)
		}
	}
}

func (n *Node) tick(t *ticker) {
	now := n.clock.refresh()
	deaf, paused := n.deaf.Swap(false), t.stalled(now)
	for _, p := range n.pipelines {
		p.tick(now, deaf || paused)
	}
	if n.stats.connections.Load() == 0 {
		t.stop() // the next connection starts it again
	}
}

// ticker ticks while there is something to look at.
type ticker struct {
	every time.Duration
	clock *time.Ticker
	ticks <-chan time.Time
	last  instant
}

func (t *ticker) start(now instant) {
	if t.clock != nil {
		return
	}
	t.clock = time.NewTicker(t.every)
	t.ticks, t.last = t.clock.C, now
}

func (t *ticker) stop() {
	if t.clock != nil {
		t.clock.Stop()
		t.clock, t.ticks = nil, nil
	}
}

// stalled says that the last tick came so long ago that heartbeats may have been
// stamped too early, or not read at all: the process was stopped or starved.
func (t *ticker) stalled(now instant) bool {
	gap := now - t.last
	t.last = now
	return gap > 2*t.every
}

// renewals is the time at which the leases are renewed: all shards together, the
// first at a random point so that edges started together spread.
type renewals struct {
	params rollcall.Params
	random *rand.Rand
	timer  *time.Timer
	due    time.Time
}

func newRenewals(p rollcall.Params, random *rand.Rand) *renewals {
	first := p.Renewal
	if p.Jitter > 0 {
		first = time.Duration(random.Int64N(int64(p.Renewal) + 1))
	}
	return &renewals{params: p, random: random, timer: time.NewTimer(first), due: time.Now().Add(first)}
}

// next sets the timer. Periods are added to the time that was due, so a late
// wake-up does not move those that follow.
func (r *renewals) next() {
	swing := r.params.Jitter * (2*r.random.Float64() - 1)
	period := r.params.Renewal + time.Duration(swing*float64(r.params.Renewal))
	r.due = r.due.Add(period)
	if late := time.Since(r.due); late > 0 {
		r.due = r.due.Add(late) // after a pause of the process, renew once, not for all that was missed
	}
	r.timer.Reset(time.Until(r.due))
}

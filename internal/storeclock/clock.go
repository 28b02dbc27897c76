package storeclock

import (
	"sync"
	"time"

	"github.com/rollcall-io/rollcall"
)

// drift is how far two clocks may run apart: 100 µs in a second, a poor crystal.
const drift = 100e-6

// A Reading is one answer of the store. Sent and Received are local instants:
// the time since an origin that the caller has chosen, by its monotonic clock.
type Reading struct {
	Sent, Received time.Duration
	Store          rollcall.Micros
}

// Clock converts local instants to store time. The zero value knows nothing yet.
type Clock struct {
	mu   sync.Mutex
	best estimate
	set  bool
}

type estimate struct {
	offset rollcall.Micros // store time at the local origin
	margin time.Duration   // half the round trip, and what the clocks drift in it
	taken  time.Duration   // local
}

func (e estimate) bound(now time.Duration) time.Duration {
	return e.margin + time.Duration(drift*float64(max(now-e.taken, 0)))
}

func (e estimate) contradicts(other estimate) bool {
	distance := e.offset.Sub(other.offset).Abs()
	return distance > e.margin+other.bound(e.taken)+time.Microsecond // what rounding takes
}

// Observe takes a reading into account.
func (c *Clock) Observe(r Reading) {
	half := (r.Received - r.Sent) / 2
	margin := half + time.Duration(drift*float64(half))
	e := estimate{offset: r.Store.Add(-(r.Sent + half)), margin: margin, taken: r.Received}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.set || e.margin <= c.best.bound(e.taken) || e.contradicts(c.best) {
		c.best, c.set = e, true
	}
}

// At is the store time at a local instant; ok is false before the first reading.
func (c *Clock) At(local time.Duration) (at rollcall.Micros, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.best.offset.Add(local), c.set
}

// Bound is how far At may be off at a local instant; ok is false before the
// first reading.
func (c *Clock) Bound(local time.Duration) (bound time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.best.bound(local), c.set
}

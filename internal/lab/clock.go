package lab

import (
	"sync/atomic"
	"time"
)

// A clock is the history of a store's clock: by how much what it stamped, and
// since when, is off.
type clock struct{ jumps atomic.Pointer[[]jump] }

type jump struct {
	since time.Time // true time
	shift time.Duration
}

// pause keeps what was stamped before a jump apart from the jump. A nanosecond would
// do, but nats-server's cache timers then spin until their 100 ms tick.
const pause = time.Millisecond

func (c *clock) jump(d time.Duration) {
	time.Sleep(pause)
	var jumps []jump
	if old := c.jumps.Load(); old != nil {
		jumps = append(jumps, *old...)
	}
	jumps = append(jumps, jump{time.Now(), d})
	c.jumps.Store(&jumps)
}

// shift is by how much a stamp given at the true time at is off.
func (c *clock) shift(at time.Time) time.Duration {
	jumps := c.jumps.Load()
	if jumps == nil {
		return 0
	}
	for i := len(*jumps) - 1; i >= 0; i-- {
		if j := (*jumps)[i]; !at.Before(j.since) {
			return j.shift
		}
	}
	return 0
}

// clocks add up.
type clocks []*clock

func (c clocks) jumped() bool {
	for _, clock := range c {
		if clock.jumps.Load() != nil {
			return true
		}
	}
	return false
}

func (c clocks) stamp(at time.Time) time.Time {
	var shift time.Duration
	for _, clock := range c {
		shift += clock.shift(at)
	}
	return at.Add(shift)
}

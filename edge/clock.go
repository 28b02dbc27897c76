package edge

import (
	"sync/atomic"
	"time"
)

// An instant is a time on the node's monotonic clock, counted from its creation.
// Events are kept as instants and become store time when they are emitted.
type instant = time.Duration

// clock is the node's monotonic clock, with a coarse copy of its reading that
// costs the heartbeat path one load instead of a system call.
type clock struct {
	start time.Time

	_      [64]byte // no neighbour's writes may slow the readers down
	coarse atomic.Uint32
	_      [60]byte
}

func newClock() *clock { return &clock{start: time.Now()} }

// now reads the clock.
func (c *clock) now() instant { return time.Since(c.start) }

// refresh reads the clock for those who use the coarse copy.
func (c *clock) refresh() instant {
	now := c.now()
	c.coarse.Store(uint32(stampOf(now)))
	return now
}

// stamp is the coarse time.
func (c *clock) stamp() stamp { return stamp(c.coarse.Load()) }

// A stamp is an instant in milliseconds, rounded down, modulo six days. It is
// unambiguous as long as it is compared with instants less than three days away.
type stamp uint32

const (
	stampBits = 29
	stampMask = 1<<stampBits - 1
)

func stampOf(t instant) stamp { return stamp(t.Milliseconds() & stampMask) }

// before is how long before now the stamp was taken; negative if after.
func (s stamp) before(now instant) time.Duration {
	const unused = 32 - stampBits
	distance := int32((uint32(stampOf(now))-uint32(s))<<unused) >> unused
	return time.Duration(distance) * time.Millisecond
}

// instant is the stamp's time, to the millisecond, seen from an instant near it.
func (s stamp) instant(near instant) instant {
	return near.Truncate(time.Millisecond) - s.before(near)
}

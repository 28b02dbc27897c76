package rollcall

import "time"

// Window is when a user's offline is published after it left in some way: never
// before Earliest, never after Latest.
type Window struct {
	Earliest time.Duration
	Latest   time.Duration
}

// Contains says whether a measured latency lies in the window, both ends included.
func (w Window) Contains(d time.Duration) bool { return w.Earliest <= d && d <= w.Latest }

// Bounds is how late, and how early, each way of leaving can be published while
// store and keeper run. A keeper failover adds the takeover; a store outage adds
// the outage and one renewal period.
type Bounds struct {
	// Close counts from the goodbye.
	Close Window
	// HalfOpen counts from the instant at which the device fell silent, which is
	// up to one heartbeat after its last sign of life.
	HalfOpen Window
	// EdgeCrash counts from the crash, which is up to one renewal after the
	// edge's last; never before last renewal + LeaseTTL + Debounce.
	EdgeCrash Window
	// EdgeRestart counts from the hello of the edge's next process.
	EdgeRestart Window
}

// Bounds computes the table.
func (p Params) Bounds() Bounds {
	afterDebounce := func(earliest, latest time.Duration) Window {
		return Window{max(earliest, 0) + p.Debounce, latest + p.Debounce}
	}
	return Bounds{
		Close:       afterDebounce(0, 0),
		HalfOpen:    afterDebounce(p.IdleTimeout-p.Heartbeat, p.IdleTimeout+p.CheckInterval),
		EdgeCrash:   afterDebounce(p.LeaseTTL-p.LongestRenewal(), p.LeaseTTL+p.Sweep),
		EdgeRestart: afterDebounce(0, 0),
	}
}

// Of returns the window of one way; ok is false for a way without a bound.
func (b Bounds) Of(w Way) (window Window, ok bool) {
	switch w {
	case WayClose:
		return b.Close, true
	case WayHalfOpen:
		return b.HalfOpen, true
	case WayEdgeCrash:
		return b.EdgeCrash, true
	case WayEdgeRestart:
		return b.EdgeRestart, true
	}
	return Window{}, false
}

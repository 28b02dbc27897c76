package trial

import (
	"slices"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/edge/phi"
)

// A Connection is the intervals between its signs of life, all of which came.
type Connection []time.Duration

// A Judge says how long a connection with some history may be silent. Observe may be nil.
type Judge struct {
	Deadline func(phi.History) time.Duration
	Observe  func(*phi.History, time.Duration)
}

// Fixed is the timeout that knows no history.
func Fixed(p rollcall.Params) Judge {
	return Judge{Deadline: func(phi.History) time.Duration { return p.IdleTimeout }}
}

// Accrual is a φ detector.
func Accrual(d phi.Detector) Judge { return Judge{d.Deadline, d.Observe} }

// Result is what a judge did.
type Result struct {
	Watched time.Duration // time in which connections were alive
	False   int           // of these declared dead
	// Found is how long after a death each was found, ascending.
	Found []time.Duration
}

// FalsePerThousandHours of connections that were alive.
func (r Result) FalsePerThousandHours() float64 {
	return float64(r.False) / r.Watched.Hours() * 1000
}

// Mean time until a death was found.
func (r Result) Mean() time.Duration {
	var sum time.Duration
	for _, d := range r.Found {
		sum += d
	}
	return sum / time.Duration(max(len(r.Found), 1))
}

// Quantile of the time until a death was found.
func (r Result) Quantile(q float64) time.Duration {
	if len(r.Found) == 0 {
		return 0
	}
	return r.Found[min(int(q*float64(len(r.Found))), len(r.Found)-1)]
}

// every is how far apart the deaths are that are tried. It has no common measure with usual
// heartbeats, so that deaths fall anywhere between two of them.
const every = 61 * time.Second

// Run replays connections. A connection that is declared dead although it speaks again comes
// back as a new one, without history. What would happen if it died instead is asked every
// minute or so of its life, unless it counts as dead by then.
func Run(connections []Connection, judge Judge) Result {
	var r Result
	for _, c := range connections {
		r.replay(c, judge)
	}
	slices.Sort(r.Found)
	return r
}

func (r *Result) replay(c Connection, judge Judge) {
	var h phi.History
	death := every / 2 // from the last sign of life on
	for _, interval := range c {
		deadline := judge.Deadline(h)
		for ; death < interval; death += every {
			if death < deadline {
				r.Found = append(r.Found, deadline-death)
			}
		}
		death -= interval
		r.Watched += interval
		switch {
		case interval >= deadline:
			r.False++
			h = phi.History{}
		case judge.Observe != nil:
			judge.Observe(&h, interval)
		}
	}
}

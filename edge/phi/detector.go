package phi

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/rollcall-io/rollcall"
)

// Config says when to believe in a death. The zero value takes the defaults.
type Config struct {
	// Threshold of φ, above 0 and at most [MaxThreshold]; default 8. Each step of one
	// makes a false detection ten times as rare, as far as intervals are normal.
	Threshold float64
	// MinSamples is how many intervals it takes until a connection's history
	// counts; default 8, at most 64.
	MinSamples int
	// MinDeviation keeps a very regular history from expecting the same of the
	// future; default a thirtieth of the heartbeat interval.
	MinDeviation time.Duration
	// Pause is a silence that is acceptable besides what the history makes
	// expected. Default is as many heartbeats as may be missing under the fixed timeout;
	// negative is none, and then one lost heartbeat can end a connection.
	Pause time.Duration
}

// MaxThreshold is far beyond what the tail of any distribution is good for.
const MaxThreshold = 100

// ErrConfig is returned, wrapped with the reason, for a configuration that cannot work.
var ErrConfig = errors.New("phi: invalid configuration")

// Check says whether the configuration can work.
func (c Config) Check() error {
	switch {
	case !(c.Threshold >= 0 && c.Threshold <= MaxThreshold): // not a number either
		return fmt.Errorf("%w: threshold %v, want above 0 and at most %v", ErrConfig, c.Threshold, MaxThreshold)
	case c.MinSamples < 0 || c.MinSamples > memory:
		return fmt.Errorf("%w: %d samples at least, want 1 to %d", ErrConfig, c.MinSamples, memory)
	case c.MinDeviation < 0:
		return fmt.Errorf("%w: deviation of at least %s", ErrConfig, c.MinDeviation)
	}
	return nil
}

// Detector is a configuration under the timing of a fabric. The zero value is of no use.
type Detector struct {
	deviations float64 // how many of them above the mean φ reaches the threshold
	samples    uint8
	deviation  float64 // at least, in seconds
	pause      float64 // seconds
	shortest   time.Duration
	longest    time.Duration // as promised
	limit      time.Duration // the fixed timeout
}

// New makes a detector. What is promised and the fixed timeout are the parameters'.
func New(c Config, p rollcall.Params) (Detector, error) {
	if err := c.Check(); err != nil {
		return Detector{}, err
	}
	if c.Threshold == 0 {
		c.Threshold = 8
	}
	if c.MinSamples == 0 {
		c.MinSamples = 8
	}
	if c.MinDeviation == 0 {
		c.MinDeviation = p.Heartbeat / 30
	}
	if c.Pause == 0 {
		c.Pause = missable(p)
	}
	return Detector{
		deviations: quantile(c.Threshold), samples: uint8(c.MinSamples),
		deviation: c.MinDeviation.Seconds(), pause: max(c.Pause, 0).Seconds(),
		shortest: time.Duration(float64(p.Heartbeat) * (1 - p.Jitter)), longest: p.Heartbeat, limit: p.IdleTimeout,
	}, nil
}

// missable is how long the heartbeats take that may be missing in a row, all of them at the
// longest interval, without the fixed timeout running out.
func missable(p rollcall.Params) time.Duration {
	intervals := (p.IdleTimeout - 1) / p.Heartbeat // that end in time
	return max(intervals-1, 0) * p.Heartbeat
}

// Observe takes an interval between two heartbeats. One that is shorter than devices promise
// counts as the shortest that they do: who speaks more often than it must has not promised to go on so.
// One above the fixed timeout was no interval but an outage, and counts as the timeout.
func (d Detector) Observe(h *History, interval time.Duration) {
	if interval > 0 {
		h.add(min(max(interval, d.shortest), d.limit).Seconds())
	}
}

// Deadline is the silence at which a connection with this history counts as dead.
func (d Detector) Deadline(h History) time.Duration {
	if h.samples < d.samples {
		return d.limit
	}
	mean, deviation := d.expect(h)
	if at := mean + d.deviations*deviation; at < d.limit.Seconds() { // false for what is not a number
		return min(max(time.Duration(at*float64(time.Second)), d.longest), d.limit)
	}
	return d.limit
}

// Phi is the suspicion after a silence, apart from all limits: +Inf where the
// probability that it means nothing is too small for a float.
func (d Detector) Phi(h History, silence time.Duration) float64 {
	mean, deviation := d.expect(h)
	return suspicion((silence.Seconds() - mean) / deviation)
}

// expect is the mean with the pause, and the deviation.
func (d Detector) expect(h History) (mean, deviation float64) {
	return float64(h.mean) + d.pause, max(math.Sqrt(float64(h.variance)), d.deviation)
}

// suspicion is −log10 of the probability that a normal variable lies as many deviations
// above its mean.
func suspicion(deviations float64) float64 {
	return -math.Log10(math.Erfc(deviations/math.Sqrt2) / 2)
}

// quantile inverts suspicion for values above 0. By bisection: the inverse of the standard
// library counts from the other end of the distribution and knows no φ above 16.
func quantile(phi float64) float64 {
	low, high := -10.0, 40.0
	for range 64 {
		if middle := (low + high) / 2; suspicion(middle) < phi {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}

package bench

import (
	"math"
	"slices"
	"time"
)

// A Rate is how much happened in a second: the median of the rounds, and all of
// them in order.
type Rate struct {
	Median float64   `json:"median"`
	Rounds []float64 `json:"rounds"`
}

func (r *Rate) add(n int64, d time.Duration) { r.append(float64(n) / d.Seconds()) }

// append adds a round whose rate is known.
func (r *Rate) append(rate float64) {
	r.Rounds = append(r.Rounds, round(rate, 1))
	r.Median = median(r.Rounds)
}

// median of values, which stay as they are; 0 if there are none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	upper := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[upper]
	}
	return (sorted[upper-1] + sorted[upper]) / 2
}

// A Spread is how long things took, in milliseconds.
type Spread struct {
	Samples int     `json:"samples"`
	P50     float64 `json:"p50_ms"`
	P99     float64 `json:"p99_ms"`
	Max     float64 `json:"max_ms"`
}

func spreadOf(samples []time.Duration) Spread {
	sorted := slices.Sorted(slices.Values(samples))
	return Spread{
		Samples: len(sorted), P50: milliseconds(percentile(sorted, 50)),
		P99: milliseconds(percentile(sorted, 99)), Max: milliseconds(percentile(sorted, 100)),
	}
}

// percentile is the nearest rank: the smallest sample that at least p per cent of
// the samples do not exceed. So it is always something that was measured.
func percentile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

func milliseconds(d time.Duration) float64 { return round(d.Seconds()*1000, 3) }

// round keeps what a reader can use, so that documents differ where it matters.
func round(x float64, digits int) float64 {
	scale := math.Pow10(digits)
	return math.Round(x*scale) / scale
}

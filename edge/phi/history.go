package phi

import "time"

// memory is how many intervals a history remembers, roughly: half an hour of heartbeats
// every 28 s.
const memory = 64

// History is what is remembered of a connection's intervals. The zero value remembers
// nothing.
type History struct {
	mean, variance float32 // seconds; single precision tells microseconds apart
	samples        uint8   // at most memory
}

// add takes an interval in seconds. Up to memory of them all count the same; then each
// counts for a sixty-fourth and the earlier ones fade (West, 1979).
func (h *History) add(seconds float64) {
	if h.samples < memory {
		h.samples++
	}
	weight := 1 / float64(h.samples)
	off := seconds - float64(h.mean)
	h.mean += float32(weight * off)
	h.variance = float32((1 - weight) * (float64(h.variance) + weight*off*off))
}

// Samples is how many intervals count.
func (h History) Samples() int { return int(h.samples) }

// Mean of the intervals.
func (h History) Mean() time.Duration {
	return time.Duration(float64(h.mean) * float64(time.Second))
}

package fanout

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rollcall-io/rollcall"
)

// A latencies is a histogram of durations for those who observe very many of them at a
// time: one of package prometheus takes longer to count a change than it takes to write
// it. It is exact, down to the sum.
type latencies struct {
	desc   *prometheus.Desc
	bounds []time.Duration // inclusive, ascending

	mu     sync.Mutex
	counts []uint64 // by bound, and beyond the last
	sum    time.Duration
}

func newLatencies(name, help string, bounds ...time.Duration) *latencies {
	return &latencies{desc: prometheus.NewDesc(name, help, nil, nil), bounds: bounds, counts: make([]uint64, len(bounds)+1)}
}

// observe counts how long it is since each of some instants. The zero instant is none,
// and one ahead is now.
func (h *latencies) observe(now rollcall.Micros, since []rollcall.Micros) {
	h.mu.Lock()
	defer h.mu.Unlock()
	// What is told together often happened together.
	var last rollcall.Micros
	var took time.Duration
	var at int
	for _, instant := range since {
		if instant == 0 {
			continue
		}
		if instant != last {
			last, took = instant, max(0, now.Sub(instant))
			for at = 0; at < len(h.bounds) && took > h.bounds[at]; at++ {
			}
		}
		h.counts[at]++
		h.sum += took
	}
}

// Describe implements [prometheus.Collector].
func (h *latencies) Describe(descs chan<- *prometheus.Desc) { descs <- h.desc }

// Collect implements [prometheus.Collector].
func (h *latencies) Collect(collected chan<- prometheus.Metric) {
	h.mu.Lock()
	counts, sum := slices.Clone(h.counts), h.sum
	h.mu.Unlock()
	buckets, n := make(map[float64]uint64, len(h.bounds)), uint64(0)
	for i, bound := range h.bounds {
		n += counts[i]
		buckets[bound.Seconds()] = n
	}
	n += counts[len(h.bounds)]
	collected <- prometheus.MustNewConstHistogram(h.desc, n, sum.Seconds(), buckets)
}

package fanout

import (
	"maps"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"github.com/rollcall-io/rollcall"
)

// Whoever scrapes reads what a histogram of package prometheus would say.
func TestLatenciesAreThoseOfPrometheus(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bounds := []time.Duration{5 * time.Millisecond, 100 * time.Millisecond, 2500 * time.Millisecond}
		got := newLatencies("took_seconds", "How long it took.", bounds...)
		want := prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "took_seconds", Help: "How long it took.", Buckets: []float64{.005, .1, 2.5},
		})
		instant := rapid.OneOf(
			rapid.SampledFrom([]rollcall.Micros{0, 1, 2_400_000, 4_900_000, 4_900_001, 4_995_000, 4_994_999, 5_000_000, 6_000_000}),
			rapid.Map(rapid.IntRange(1, 5_000_000), func(n int) rollcall.Micros { return rollcall.Micros(n) }),
		)
		for _, message := range rapid.SliceOf(rapid.SliceOf(instant)).Draw(t, "messages") {
			const now rollcall.Micros = 5_000_000
			got.observe(now, message)
			for _, since := range message {
				if since != 0 {
					want.Observe(max(0, now.Sub(since).Seconds()))
				}
			}
		}
		n, sum, buckets := scrape(t, got)
		wantN, wantSum, wantBuckets := scrape(t, want)
		if d := sum - wantSum; n != wantN || d > 1e-6 || d < -1e-6 || !maps.Equal(buckets, wantBuckets) {
			t.Fatalf("got %d, %v s, %v, want %d, %v s, %v", n, sum, buckets, wantN, wantSum, wantBuckets)
		}
	})
}

func scrape(t *rapid.T, c prometheus.Collector) (n uint64, sum float64, buckets map[float64]uint64) {
	r := prometheus.NewPedanticRegistry()
	if err := r.Register(c); err != nil {
		t.Fatal(err)
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	h := families[0].GetMetric()[0].GetHistogram()
	buckets = make(map[float64]uint64)
	for _, b := range h.GetBucket() {
		buckets[b.GetUpperBound()] = b.GetCumulativeCount()
	}
	return h.GetSampleCount(), h.GetSampleSum(), buckets
}

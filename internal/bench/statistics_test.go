package bench

import (
	"testing"
	"time"
)

func TestPercentile(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(i+1) * time.Millisecond
	}
	for _, test := range []struct {
		name   string
		sorted []time.Duration
		p      float64
		want   time.Duration
	}{
		{"nothing measured", nil, 50, 0},
		{"one sample is every percentile", hundred[:1], 99, time.Millisecond},
		{"the lower of two is the median", hundred[:2], 50, time.Millisecond},
		{"the middle of three", hundred[:3], 50, 2 * time.Millisecond},
		{"p50 of 100", hundred, 50, 50 * time.Millisecond},
		{"p99 of 100", hundred, 99, 99 * time.Millisecond},
		{"p99 of ten is the largest", hundred[:10], 99, 10 * time.Millisecond},
		{"p100 is the largest", hundred, 100, 100 * time.Millisecond},
		{"p0 is the smallest", hundred, 0, time.Millisecond},
	} {
		if got := percentile(test.sorted, test.p); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

func TestSpreadSortsACopy(t *testing.T) {
	samples := []time.Duration{3 * time.Millisecond, 1 * time.Millisecond, 2 * time.Millisecond}
	if got, want := spreadOf(samples), (Spread{Samples: 3, P50: 2, P99: 3, Max: 3}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if samples[0] != 3*time.Millisecond {
		t.Error("the samples were reordered")
	}
}

func TestMedian(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   float64
	}{
		{nil, 0}, {[]float64{7}, 7}, {[]float64{9, 1}, 5}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 3, 2}, 2.5},
	} {
		if got := median(test.values); got != test.want {
			t.Errorf("median of %v is %v, want %v", test.values, got, test.want)
		}
	}
}

func TestRateKeepsItsRounds(t *testing.T) {
	var r Rate
	for _, n := range []int64{300, 100, 200} {
		r.add(n, 2*time.Second)
	}
	if r.Median != 100 || len(r.Rounds) != 3 || r.Rounds[0] != 150 {
		t.Errorf("got %+v, want a median of 100 of 150, 50, 100", r)
	}
}

func TestThousands(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0", 999: "999", 1000: "1,000", 333333.3: "333,333", 1234567.8: "1,234,568", -1000: "-1,000",
	} {
		if got := thousands(x); got != want {
			t.Errorf("%v reads %q, want %q", x, got, want)
		}
	}
}

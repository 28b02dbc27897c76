package phi

import (
	"errors"
	"math"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/rollcall-io/rollcall"
)

func mustNew(t rapid.TB, c Config, p rollcall.Params) Detector {
	t.Helper()
	d, err := New(c, p)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func drawParams(t *rapid.T) rollcall.Params {
	p, _ := rollcall.Preset(rapid.SampledFrom(rollcall.PresetNames[:]).Draw(t, "preset"))
	p.IdleTimeout = p.Heartbeat + time.Duration(rapid.Int64Range(1, int64(5*p.Heartbeat)).Draw(t, "spare"))
	return p
}

func drawConfig(t *rapid.T) Config {
	return Config{
		Threshold:    rapid.Float64Range(0.01, MaxThreshold).Draw(t, "threshold"),
		MinSamples:   rapid.IntRange(0, memory).Draw(t, "samples"),
		MinDeviation: time.Duration(rapid.Int64Range(0, int64(10*time.Second)).Draw(t, "deviation")),
		Pause:        time.Duration(rapid.Int64Range(-1, int64(time.Minute)).Draw(t, "pause")),
	}
}

// drawIntervals of one of the distributions on which the detector is judged, or anything.
func drawIntervals(t *rapid.T, usual time.Duration) []time.Duration {
	u := rapid.Float64Range(1e-9, 1-1e-9)
	of := map[string]func() float64{
		"exponential": func() float64 { return -math.Log(u.Draw(t, "u")) },
		"normal":      func() float64 { return 1 + 0.2*math.Sqrt2*math.Erfinv(2*u.Draw(t, "u")-1) },
		"bimodal": func() float64 {
			return 0.9 + 0.2*u.Draw(t, "u") + float64(rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(t, "lost"))
		},
		"anything": func() float64 { return rapid.Float64Range(-10, 1e6).Draw(t, "x") },
	}
	kind := rapid.SampledFrom([]string{"exponential", "normal", "bimodal", "anything"}).Draw(t, "distribution")
	intervals := make([]time.Duration, rapid.IntRange(0, 200).Draw(t, "n"))
	for i := range intervals {
		intervals[i] = time.Duration(of[kind]() * float64(usual))
	}
	return intervals
}

func drawHistory(t *rapid.T, d Detector, usual time.Duration) (h History) {
	for _, x := range drawIntervals(t, usual) {
		d.Observe(&h, x)
	}
	return h
}

// Whatever the intervals: never later than the fixed timeout, never before the heartbeat
// that was promised, and at the fixed timeout exactly without enough history.
func TestDeadlineIsBetweenHeartbeatAndTimeout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, c := drawParams(t), drawConfig(t)
		d := mustNew(t, c, p)
		var h History
		for _, x := range drawIntervals(t, p.Heartbeat) {
			at := d.Deadline(h)
			if at > p.IdleTimeout || at < min(p.Heartbeat, p.IdleTimeout) {
				t.Fatalf("deadline %v after %d intervals, timeout %v", at, h.Samples(), p.IdleTimeout)
			}
			if h.Samples() < int(d.samples) && at != p.IdleTimeout {
				t.Fatalf("deadline %v after %d intervals only", at, h.Samples())
			}
			d.Observe(&h, x)
		}
	})
}

func TestDeadlineGrowsWithTheThreshold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, low, high := drawParams(t), drawConfig(t), drawConfig(t)
		high.MinSamples, high.MinDeviation, high.Pause = low.MinSamples, low.MinDeviation, low.Pause
		if low.Threshold > high.Threshold {
			low, high = high, low
		}
		d, later := mustNew(t, low, p), mustNew(t, high, p)
		if h := drawHistory(t, d, p.Heartbeat); d.Deadline(h) > later.Deadline(h) {
			t.Fatalf("%v at %v, %v at %v", d.Deadline(h), low.Threshold, later.Deadline(h), high.Threshold)
		}
	})
}

// φ grows as the silence does, and reaches the threshold at the deadline, unless a limit
// comes first.
func TestDeadlineIsWherePhiReachesTheThreshold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, c := drawParams(t), drawConfig(t)
		d := mustNew(t, c, p)
		h := drawHistory(t, d, p.Heartbeat)
		a := time.Duration(rapid.Int64Range(0, int64(p.IdleTimeout)).Draw(t, "a"))
		b := time.Duration(rapid.Int64Range(int64(a), int64(p.IdleTimeout)).Draw(t, "b"))
		if d.Phi(h, a) > d.Phi(h, b) {
			t.Fatalf("φ falls from %v at %v to %v at %v", d.Phi(h, a), a, d.Phi(h, b), b)
		}
		at := d.Deadline(h)
		if at == p.IdleTimeout || at == p.Heartbeat {
			return
		}
		if before, after := d.Phi(h, at-time.Microsecond), d.Phi(h, at+time.Microsecond); before > c.Threshold || after < c.Threshold {
			t.Fatalf("φ is %v to %v around %v, threshold %v", before, after, at, c.Threshold)
		}
	})
}

// The history against plain sums: all intervals alike at first, fading ones afterwards.
func TestHistoryModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seconds := rapid.SliceOfN(rapid.Float64Range(0.1, 1000), 1, 300).Draw(t, "seconds")
		var h History
		for _, x := range seconds {
			h.add(x)
		}
		mean, square := 0.0, 0.0
		weight := make([]float64, len(seconds))
		for i := range seconds {
			for j := range i {
				weight[j] *= 1 - 1/float64(min(i+1, memory))
			}
			weight[i] = 1 / float64(min(i+1, memory))
		}
		for i, x := range seconds {
			mean += weight[i] * x
			square += weight[i] * x * x
		}
		if variance := square - mean*mean; math.Abs(float64(h.mean)-mean) > 1e-3 || math.Abs(float64(h.variance)-variance) > 1e-4*(square+1) {
			t.Fatalf("mean %v, variance %v, want %v and %v", h.mean, h.variance, mean, variance)
		}
	})
}

func TestOddHistories(t *testing.T) {
	p := rollcall.Default()
	d := mustNew(t, Config{Pause: -1}, p)
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, tc := range []struct {
		name string
		h    History
		want time.Duration
	}{
		{"nothing", History{}, 75 * time.Second},
		{"too little", History{30, 0, 7}, 75 * time.Second},
		{"no variance", History{30, 0, 64}, 30*time.Second + time.Duration(d.deviations*float64(time.Second))},
		{"mean is not a number", History{nan, 1, 64}, 75 * time.Second},
		{"variance is not a number", History{30, nan, 64}, 75 * time.Second},
		{"variance below zero", History{30, -1, 64}, 75 * time.Second},
		{"endless", History{30, inf, 64}, 75 * time.Second},
		{"never", History{inf, 1, 64}, 75 * time.Second},
		{"always", History{-inf, 1, 64}, 30 * time.Second},
	} {
		if got := d.Deadline(tc.h); (got - tc.want).Abs() > time.Millisecond {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// What a device sends besides its heartbeats does not make it suspicious when it stops.
func TestTalkativeDevices(t *testing.T) {
	d := mustNew(t, Config{}, rollcall.Default())
	var h History
	for range 1000 {
		d.Observe(&h, 100*time.Millisecond)
	}
	if at := d.Deadline(h); at < time.Minute {
		t.Errorf("dead after %v: the heartbeat after a lost one comes after 60 s", at)
	}
}

// By default as many heartbeats may be missing as under the fixed timeout.
func TestMissingHeartbeats(t *testing.T) {
	for _, tc := range []struct {
		preset string
		want   time.Duration
	}{{"default", 30 * time.Second}, {"tight", 30 * time.Second}, {"mobile", 120 * time.Second}, {"worker", 3 * time.Second}} {
		p, _ := rollcall.Preset(tc.preset)
		if got := missable(p); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.preset, got, tc.want)
		}
		d := mustNew(t, Config{}, p)
		var h History
		for range memory {
			d.Observe(&h, p.Heartbeat)
		}
		if at := d.Deadline(h); at <= tc.want+p.Heartbeat || at >= p.IdleTimeout {
			t.Errorf("%s: dead after %v", tc.preset, at)
		}
	}
}

func TestQuantiles(t *testing.T) {
	for phi, want := range map[float64]float64{1: 1.28155, 3: 3.09023, 8: 5.61200, 12: 7.03448} { // of the normal distribution
		if got := quantile(phi); math.Abs(got-want) > 1e-4 {
			t.Errorf("φ = %v at %v deviations, want %v", phi, got, want)
		}
	}
	if got := suspicion(quantile(MaxThreshold)); math.Abs(got-MaxThreshold) > 1e-9 {
		t.Errorf("φ = %v where it should be %v", got, MaxThreshold)
	}
}

func TestConfigsThatCannotWork(t *testing.T) {
	for _, c := range []Config{
		{Threshold: -1}, {Threshold: math.NaN()}, {Threshold: math.Inf(1)}, {Threshold: 101}, {MinSamples: -1}, {MinSamples: 65}, {MinDeviation: -1},
	} {
		if _, err := New(c, rollcall.Default()); !errors.Is(err, ErrConfig) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestHistoryIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(History{}); size != 12 {
		t.Errorf("%d bytes", size)
	}
}

func BenchmarkObserveAndDeadline(b *testing.B) {
	d := mustNew(b, Config{}, rollcall.Default())
	var h History
	b.ReportAllocs()
	for b.Loop() {
		d.Observe(&h, 28*time.Second)
		d.Deadline(h)
	}
}

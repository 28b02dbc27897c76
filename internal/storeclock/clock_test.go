package storeclock_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/internal/storeclock"
)

const ms = time.Millisecond

// reading of a store that is ahead of the local clock, over a path with the given
// delays there and back.
func reading(sent, there, back time.Duration, ahead rollcall.Micros) storeclock.Reading {
	return storeclock.Reading{Sent: sent, Received: sent + there + back, Store: ahead.Add(sent + there)}
}

func TestClock(t *testing.T) {
	const ahead = rollcall.Micros(1_000_000_000)
	for _, tc := range []struct {
		name      string
		readings  []storeclock.Reading
		off       time.Duration // of the estimate at 10 s
		uncertain time.Duration // at 10 s, the drift apart
	}{
		{"even path", []storeclock.Reading{reading(0, 10*ms, 10*ms, ahead)}, 0, 10 * ms},
		{"uneven path", []storeclock.Reading{reading(0, 20*ms, 0, ahead)}, 10 * ms, 10 * ms},
		{"the shortest round trip wins", []storeclock.Reading{
			reading(0, 40*ms, 0, ahead), reading(ms, 2*ms, 0, ahead), reading(2*ms, 60*ms, 0, ahead),
		}, ms, ms},
		{"a later one wins when the first has aged", []storeclock.Reading{
			reading(-time.Hour, 2*ms, 0, ahead), reading(0, 20*ms, 0, ahead),
		}, 10 * ms, 10 * ms},
		{"a step of the store's clock wins at once", []storeclock.Reading{
			reading(0, 0, 0, ahead+5_000_000), reading(ms, 10*ms, 10*ms, ahead),
		}, 0, 10 * ms},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var c storeclock.Clock
			if _, ok := c.At(0); ok {
				t.Error("knows the time without a reading")
			}
			for _, r := range tc.readings {
				c.Observe(r)
			}
			const now = 10 * time.Second
			at, ok := c.At(now)
			if off := at.Sub(ahead.Add(now)); !ok || off != tc.off {
				t.Errorf("off by %v (%v), want %v", off, ok, tc.off)
			}
			bound, _ := c.Bound(now)
			if drift := bound - tc.uncertain; drift < 0 || drift > 2*ms {
				t.Errorf("bound %v, want %v and some drift", bound, tc.uncertain)
			}
		})
	}
}

// As long as the store's clock neither steps nor drifts more than allowed, the
// estimate is within its bound.
func TestBoundHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const ahead = rollcall.Micros(1 << 50)
		rate := rapid.Float64Range(-50e-6, 50e-6).Draw(t, "drift")
		store := func(local time.Duration) rollcall.Micros {
			return ahead.Add(local + time.Duration(rate*float64(local)))
		}
		var c storeclock.Clock
		var now time.Duration
		for range rapid.IntRange(1, 30).Draw(t, "readings") {
			delay := func(name string) time.Duration {
				return time.Duration(rapid.Int64Range(0, int64(200*ms)).Draw(t, name))
			}
			sent := now + time.Duration(rapid.Int64Range(0, int64(10*time.Minute)).Draw(t, "pause"))
			at := sent + delay("there")
			now = at + delay("back")
			c.Observe(storeclock.Reading{Sent: sent, Received: now, Store: store(at)})
			got, _ := c.At(now)
			bound, _ := c.Bound(now)
			if off := got.Sub(store(now)).Abs(); off > bound+3*time.Microsecond {
				t.Fatalf("off by %v, bound %v", off, bound)
			}
		}
	})
}

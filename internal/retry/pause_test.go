package retry

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

func TestBackoffDoublesUpToTheLast(t *testing.T) {
	const first, last = 50 * time.Millisecond, 2 * time.Second
	for attempt, limit := range []time.Duration{first, 2 * first, 4 * first, 8 * first, 16 * first, 32 * first, last, last, last} {
		for range 100 {
			if d := Backoff(attempt, first, last, rand.Int64N); d < limit/2 || d >= limit {
				t.Errorf("attempt %d: %s, want [%s, %s)", attempt, d, limit/2, limit)
			}
		}
	}
	if d := Backoff(1<<40, first, last, rand.Int64N); d < last/2 || d >= last {
		t.Errorf("in the end %s", d)
	}
}

func TestPauseEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		if !Pause(t.Context(), time.Second) || time.Since(begin) != time.Second {
			t.Errorf("returned after %s", time.Since(begin))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if Pause(ctx, time.Hour) || time.Since(begin) != 2*time.Second {
			t.Errorf("returned after %s", time.Since(begin))
		}
	})
}

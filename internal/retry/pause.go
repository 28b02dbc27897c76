package retry

import (
	"context"
	"time"
)

// Pause waits for d; false if ctx ended before.
func Pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// Backoff is the pause after a failed attempt, counted from 0: a random time in the
// upper half of first, doubled with each attempt, and of last at most. random draws
// from [0, n), as rand.Int64N does.
func Backoff(attempt int, first, last time.Duration, random func(n int64) int64) time.Duration {
	limit := min(first<<min(attempt, 10), last)
	return limit/2 + time.Duration(random(int64(limit/2)))
}

package keeper

import (
	"testing"
	"testing/synctest"
	"time"
)

// A loop that stands still is noticed; one that waits for a store that is away turns.
func TestStuckTicker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ticker := &ticker{sweep: 5 * time.Second}
		if still := ticker.stuck(); still != 0 {
			t.Errorf("before it runs it counts as stuck for %s", still)
		}
		ticker.turned.Store(time.Now().UnixNano())
		time.Sleep(17 * time.Second)
		if still := ticker.stuck(); still != 0 {
			t.Errorf("stuck for %s after sweep, timeout and ten seconds", still)
		}
		time.Sleep(time.Nanosecond)
		if still := ticker.stuck(); still != 17*time.Second+time.Nanosecond {
			t.Errorf("not stuck, but %s", still)
		}
	})
}

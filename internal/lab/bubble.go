package lab

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// Bubble runs f in virtual time. Use the t that f is given.
//
// nats.go keeps timers in a process-wide pool, and a timer born in one bubble is
// fatal in the next; two collections empty the pool.
func Bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	oneProcessor()
	runtime.GC()
	runtime.GC()
	synctest.Test(t, func(t *testing.T) {
		// Runs after every other cleanup: whoever still sleeps off a retry wakes
		// up and ends. Without it virtual time would stand still for them.
		t.Cleanup(func() { time.Sleep(time.Minute) })
		f(t)
	})
}

//go:build race

package lab

import "runtime"

// oneProcessor keeps a bubble to one processor. Two timers of a bubble that are due at
// once run on two of them with the one race context that the bubble has, and the
// detector crashes (golang.org/issue/78156). It needs no second processor to see a race:
// it compares what happens before what, not what happened first.
func oneProcessor() { runtime.GOMAXPROCS(1) }

// Package retry is how everybody here waits before trying again: with pauses that
// double, at random within their upper half, so that those who failed together do
// not come back in step. Both functions are pure but for the timer, and work in a
// synctest bubble.
package retry

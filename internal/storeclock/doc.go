// Package storeclock estimates the clock of a JetStream leader on a process's own
// monotonic clock.
//
// # What it owns
//
// Cristian's algorithm (F. Cristian, "Probabilistic clock synchronization",
// Distributed Computing 3, 1989): the store tells its time in an answer; halfway
// between request and answer it was right to within half the round trip. The
// sample with the smallest error wins; errors grow with age by the drift that two
// crystals may have. A sample that contradicts the estimate says that the store's
// clock has stepped, usually because another server leads now, and wins at once.
//
// # What it guarantees
//
// [Clock] is pure, it reads no clock, and is safe for concurrent use. As long as
// the store's clock does not step, [Clock.At] is off by at most [Clock.Bound].
// [Sync] does the I/O. It never reads the wall clock.
//
// # How to test against it
//
// Feed [Clock.Observe] with invented readings; [Sync] works in a synctest bubble.
package storeclock

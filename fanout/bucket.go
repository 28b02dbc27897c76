package fanout

import "time"

// A bucket of tokens bounds the messages of one stream: a burst at once, a steady
// rate after it. The zero bucket is full.
type bucket struct {
	used float64 // tokens taken and not yet refilled
	at   time.Time
}

// Burst and rate of a stream. Whoever flaps is told at most this often; a viewer
// still hears the last state within 1/rate.
const (
	bucketBurst = 20
	bucketRate  = 2 // tokens a second
)

func (b *bucket) refill(now time.Time) {
	if b.used > 0 {
		b.used = max(0, b.used-now.Sub(b.at).Seconds()*bucketRate)
	}
	b.at = now
}

// take takes a token even if there is none; see ready.
func (b *bucket) take(now time.Time) {
	b.refill(now)
	b.used = min(b.used+1, bucketBurst)
}

// ready is the earliest instant from now on at which there is a token.
func (b *bucket) ready(now time.Time) time.Time {
	b.refill(now)
	lacking := b.used - (bucketBurst - 1)
	if lacking <= 0 {
		return now
	}
	// Rounded up, so that the token is there when the timer fires.
	return now.Add(time.Duration(lacking/bucketRate*float64(time.Second)) + time.Microsecond)
}

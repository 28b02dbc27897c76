package viewer

import "time"

// trouble decides when requests that fail make everything unknown. It is pure; the
// caller reads the clock.
type trouble struct {
	since    time.Time // of the first failure in a row; zero if the last one worked
	timeouts int       // in a row
}

func (t *trouble) worked() { *t = trouble{} }

func (t *trouble) failed(timeout bool, now time.Time) {
	if t.since.IsZero() {
		t.since = now
	}
	if timeout {
		t.timeouts++
	}
}

// silent says that the fanout does not answer: two requests timed out, or every
// request of a whole outage failed otherwise.
func (t *trouble) silent(outage time.Duration, now time.Time) bool {
	return t.timeouts >= 2 || !t.since.IsZero() && now.Sub(t.since) >= outage
}

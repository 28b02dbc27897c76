package cohort

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/rollcall-io/rollcall/internal/feed"
	"github.com/rollcall-io/rollcall/internal/retry"
)

// A leaseWatch knows when the coordinator was last heard, by this process's own clock: nobody's
// clocks are compared.
type leaseWatch struct {
	mu       sync.Mutex
	reader   *feed.Reader
	revision uint64
	held     bool
	at       time.Time
	vacant   chan struct{} // the lease has ended
}

func newLeaseWatch() leaseWatch { return leaseWatch{vacant: make(chan struct{}, 1)} }

func (w *leaseWatch) watch(r *feed.Reader) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reader = r
}

// saw takes a renewal of the lease, or its end.
func (w *leaseWatch) saw(revision uint64, held bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.revision, w.held, w.at = revision, held, time.Now()
	if !held {
		wake(w.vacant)
	}
}

// stale says whether a lease of this revision has not been renewed for as long as it holds.
func (w *leaseWatch) stale(revision uint64, lease time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return revision == w.revision && time.Since(w.at) >= lease
}

// behind is about a lease that was found to be newer than what we had read.
func (w *leaseWatch) behind(revision uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if revision == w.revision {
		return
	}
	w.revision, w.held, w.at = revision, true, time.Now()
	if w.reader != nil {
		w.reader.Kick()
	}
}

// remaining is how long the lease that was last seen holds.
func (w *leaseWatch) remaining(lease time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.held {
		return 0
	}
	return lease - time.Since(w.at)
}

// spread keeps members from standing for election in step. Only one can win anyway.
const spread = 20 * time.Millisecond

// campaign stands for coordinator whenever there is none, and coordinates while elected.
func (m *Member) campaign(ctx context.Context) error {
	for attempt := 0; ; attempt++ {
		timer := time.NewTimer(max(m.lease.remaining(m.timing.Lease), 0) + rand.N(spread<<min(attempt, 6)))
		select {
		case <-ctx.Done():
		case <-m.lease.vacant:
		case <-timer.C:
		}
		timer.Stop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		office := newCoordinator(m)
		elected, err := office.stand(ctx, &m.lease)
		switch {
		case elected:
			office.run(ctx)
			attempt = 0
		case err != nil:
			if !retry.Pause(ctx, retry.Backoff(attempt, firstPause, lastPause, rand.Int64N)) {
				return ctx.Err()
			}
		default:
			attempt = 0
		}
	}
}

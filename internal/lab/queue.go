package lab

import (
	"slices"
	"sync"
	"time"
)

// A queue is one direction of a detour: what was written and has not arrived.
type queue struct {
	link *Link

	mu     sync.Mutex
	parts  []part
	last   time.Time     // when the newest part is due
	pushed chan struct{} // holds one token when parts came
}

type part struct {
	due  time.Time
	data []byte // nil for the end
}

func newQueue(l *Link) *queue { return &queue{link: l, pushed: make(chan struct{}, 1)} }

func (q *queue) push(data []byte) {
	if len(data) > 0 {
		q.add(slices.Clone(data))
	}
}

// finish marks the end; nothing is pushed behind it.
func (q *queue) finish() { q.add(nil) }

func (q *queue) add(data []byte) {
	due := time.Now().Add(q.link.latency())
	q.mu.Lock()
	if due.Before(q.last) {
		due = q.last
	}
	q.last = due
	q.parts = append(q.parts, part{due, data})
	q.mu.Unlock()
	select {
	case q.pushed <- struct{}{}:
	default:
	}
}

// next waits for the first part to be due and the link to let it pass. It returns
// false at the end and when the connection is gone.
func (q *queue) next(gone <-chan struct{}) ([]byte, bool) {
	for {
		open, changed := q.link.gate()
		p, wait, found := q.take(open)
		if found {
			return p.data, p.data != nil
		}
		if !q.await(wait, changed, gone) {
			return nil, false
		}
	}
}

// await returns when the first part may have changed or be due; false if the
// connection is gone. A wait of zero has no end of its own.
func (q *queue) await(wait time.Duration, changed, gone <-chan struct{}) bool {
	var due <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-gone:
		return false
	case <-q.pushed:
	case <-changed:
	case <-due:
	}
	return true
}

// take removes the first part if it is due, and says how long it takes
// otherwise; zero if that is not known.
func (q *queue) take(open bool) (p part, wait time.Duration, found bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.parts) == 0 || !open {
		return part{}, 0, false
	}
	p = q.parts[0]
	if wait = time.Until(p.due); wait > 0 {
		return part{}, wait, false
	}
	q.parts[0] = part{}
	q.parts = q.parts[1:]
	return p, 0, true
}

package viewer

import (
	"container/list"
	"context"
	"sync"
)

// A queue holds the newest change of each target until it is read. Its length is
// bounded by the number of targets: a change of a target that is waiting already
// takes the older one's place.
type queue struct {
	mu     sync.Mutex
	order  *list.List // of *Change, oldest place first
	places map[string]*list.Element
	wake   chan struct{}
}

func newQueue() *queue {
	return &queue{order: list.New(), places: make(map[string]*list.Element), wake: make(chan struct{}, 1)}
}

func (q *queue) push(changes ...Change) {
	if len(changes) == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, c := range changes {
		if place := q.places[c.Target]; place != nil {
			place.Value = &c
		} else {
			q.places[c.Target] = q.order.PushBack(&c)
		}
	}
	q.rouse()
}

// drop forgets what waits for targets.
func (q *queue) drop(targets ...string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, t := range targets {
		if place := q.places[t]; place != nil {
			q.order.Remove(place)
			delete(q.places, t)
		}
	}
	q.rouse()
}

func (q *queue) rouse() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *queue) front() *Change {
	q.mu.Lock()
	defer q.mu.Unlock()
	if first := q.order.Front(); first != nil {
		return first.Value.(*Change)
	}
	return nil
}

// taken removes a change that was read, unless a newer one has its place.
func (q *queue) taken(c *Change) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if place := q.places[c.Target]; place != nil && place.Value == any(c) {
		q.order.Remove(place)
		delete(q.places, c.Target)
	}
}

// deliver hands the changes over until ctx ends. What it offers is replaced while
// it waits for the reader.
func (q *queue) deliver(ctx context.Context, to chan<- Change) {
	for {
		c := q.front()
		if c == nil {
			select {
			case <-ctx.Done():
				return
			case <-q.wake:
			}
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-q.wake:
		case to <- *c:
			q.taken(c)
		}
	}
}

package fanout

import (
	"container/heap"
	"time"
)

// An agenda is a shard's timer: everything that waits for an instant, in order of
// time. One agenda serves all viewers, so that a waiting stream costs no
// goroutine.
type agenda []*task

// A task is one entry; its owner embeds it.
type task struct {
	at    time.Time
	index int                 // position in the agenda plus one; 0 if it is not there
	run   func(now time.Time) // set once by the owner
}

// set moves a task to an instant; the zero instant takes it off.
func (a *agenda) set(t *task, at time.Time) {
	switch {
	case at.IsZero() && t.index > 0:
		heap.Remove(a, t.index-1)
	case at.IsZero():
	case t.index > 0:
		t.at = at
		heap.Fix(a, t.index-1)
	default:
		t.at = at
		heap.Push(a, t)
	}
}

// next is when the first task is due; zero if there is none.
func (a agenda) next() time.Time {
	if len(a) == 0 {
		return time.Time{}
	}
	return a[0].at
}

// pop takes the first task off if it is due.
func (a *agenda) pop(now time.Time) *task {
	if len(*a) == 0 || (*a)[0].at.After(now) {
		return nil
	}
	return heap.Pop(a).(*task)
}

// Len, Less, Swap, Push and Pop implement [heap.Interface].
func (a agenda) Len() int           { return len(a) }
func (a agenda) Less(i, j int) bool { return a[i].at.Before(a[j].at) }
func (a agenda) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].index, a[j].index = i+1, j+1
}
func (a *agenda) Push(x any) {
	t := x.(*task)
	*a = append(*a, t)
	t.index = len(*a)
}
func (a *agenda) Pop() any {
	old := *a
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*a = old[:len(old)-1]
	t.index = 0
	return t
}

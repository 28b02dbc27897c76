package fanout

import (
	"cmp"
	"container/heap"
	"time"
)

// An agenda is a shard's timer: everything that waits for an instant, in order of
// time. One agenda serves all viewers, so that a waiting stream costs no
// goroutine. What is due at the same instant goes in an order of its own: if it were
// left to the heap, what else waits would show in it. Targets that look different by
// themselves come first, so that the message of that instant tells of them, and by name,
// whatever they had planned before. The others come as they began to wait, so that
// whoever has much to do leaves room for others.
type agenda struct {
	queue
	turns uint64
}

// A task is one entry; its owner embeds it.
type task struct {
	at    time.Time
	turn  uint64 // at which it began to wait for at
	index int32  // position in the queue plus one; 0 if it is not there
	// These are set once by the owner.
	first string // the name of a target that looks different by itself
	run   func(now time.Time)
}

// set moves a task to an instant; the zero instant takes it off.
func (a *agenda) set(t *task, at time.Time) {
	switch waits := t.index > 0; {
	case at.IsZero() && waits:
		heap.Remove(&a.queue, int(t.index-1))
	case at.IsZero(), waits && t.at.Equal(at):
	default:
		a.turns++
		t.at, t.turn = at, a.turns
		if waits {
			heap.Fix(&a.queue, int(t.index-1))
		} else {
			heap.Push(&a.queue, t)
		}
	}
}

// next is when the first task is due; zero if there is none.
func (a *agenda) next() time.Time {
	if len(a.queue) == 0 {
		return time.Time{}
	}
	return a.queue[0].at
}

// pop takes the first task off if it is due.
func (a *agenda) pop(now time.Time) *task {
	if len(a.queue) == 0 || a.queue[0].at.After(now) {
		return nil
	}
	return heap.Pop(&a.queue).(*task)
}

// A queue is a heap of tasks.
type queue []*task

func (t *task) compare(o *task) int {
	switch {
	case !t.at.Equal(o.at):
		return t.at.Compare(o.at)
	case t.first != o.first && t.first != "" && o.first != "":
		return cmp.Compare(t.first, o.first)
	case t.first != o.first && t.first != "":
		return -1
	case t.first != o.first:
		return 1
	}
	return cmp.Compare(t.turn, o.turn)
}

// Len, Less, Swap, Push and Pop implement [heap.Interface].
func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].compare(q[j]) < 0 }
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = int32(i+1), int32(j+1)
}
func (q *queue) Push(x any) {
	t := x.(*task)
	*q = append(*q, t)
	t.index = int32(len(*q))
}
func (q *queue) Pop() any {
	old := *q
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	t.index = 0
	return t
}

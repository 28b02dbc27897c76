package edge

import "time"

// wheel is a hashed timing wheel (Varghese and Lauck, 1987, scheme 6): slots of
// connections to be looked at, each slot a doubly linked list through the
// connections themselves. Far appointments are cut to the horizon and made anew
// at the visit.
type wheel struct {
	width  time.Duration
	turn   int64 // the last turn that was visited
	slots  []*Conn
	booked int
}

const (
	// maxSlots bounds the wheel for odd timings; a slot must fit Conn.slot.
	maxSlots = 4096
	// unbooked is the slot of a connection that is in none.
	unbooked = 1<<16 - 1
)

func newWheel(width, horizon time.Duration) wheel {
	n := min(int64(horizon/width)+2, maxSlots)
	return wheel{width: width, slots: make([]*Conn, n)}
}

// add books a visit at the first turn that is not before at.
func (w *wheel) add(c *Conn, at instant) {
	turn := int64((at + w.width - 1) / w.width)
	turn = min(max(turn, w.turn+1), w.turn+int64(len(w.slots)))
	slot := int(turn % int64(len(w.slots)))
	head := w.slots[slot]
	c.slot, c.next, c.prev = uint16(slot), head, nil
	if head != nil {
		head.prev = c
	}
	w.slots[slot] = c
	w.booked++
}

// remove cancels the visit, if there is one.
func (w *wheel) remove(c *Conn) {
	if c.slot == unbooked {
		return
	}
	if c.prev != nil {
		c.prev.next = c.next
	} else {
		w.slots[c.slot] = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	}
	w.unlink(c)
}

func (w *wheel) unlink(c *Conn) {
	c.next, c.prev, c.slot = nil, nil, unbooked
	w.booked--
}

// advance visits every connection that is due. A visit finds its connection
// unbooked and may book it again, but must leave all others alone.
func (w *wheel) advance(now instant, visit func(*Conn)) {
	last := int64(now / w.width)
	first := max(w.turn+1, last-int64(len(w.slots))+1)
	if w.booked == 0 {
		first = last + 1
	}
	for turn := first; turn <= last; turn++ {
		w.turn = turn
		slot := turn % int64(len(w.slots))
		due := w.slots[slot]
		w.slots[slot] = nil
		for due != nil {
			c := due
			due = c.next
			w.unlink(c)
			visit(c)
		}
	}
	w.turn = max(w.turn, last)
}

package edge

import (
	"slices"

	"github.com/rollcall-io/rollcall/subjects/wire"
)

// A change is what is still to be said of one connection.
type change struct {
	conn   *Conn
	at     instant
	seen   instant // CLOSE: the last sign of life
	kind   wire.Kind
	reason wire.Reason
}

// backlog holds the changes that are not emitted yet, at most one for each
// connection, in the order in which the connections first had one. So however
// long the store is away, it holds no more than the connections that there are
// and those that were told to the store and have ended since.
type backlog struct {
	items []change // items without a connection are holes
	head  int
	count int
}

func (b *backlog) len() int { return b.count }

// of is the change of a connection, nil if there is none.
func (b *backlog) of(c *Conn) *change {
	if c.pending == 0 {
		return nil
	}
	return &b.items[c.pending-1]
}

func (b *backlog) push(ch change) {
	b.items = append(b.items, ch)
	ch.conn.pending = uint32(len(b.items))
	b.count++
}

// drop forgets the change of a connection.
func (b *backlog) drop(c *Conn) {
	b.items[c.pending-1] = change{}
	c.pending = 0
	b.count--
	b.tidy()
}

// pop takes the first change.
func (b *backlog) pop() (change, bool) {
	if b.count == 0 {
		return change{}, false
	}
	for b.items[b.head].conn == nil {
		b.head++
	}
	ch := b.items[b.head]
	b.drop(ch.conn)
	return ch, true
}

// tidy closes the holes when they are more than half of the list.
func (b *backlog) tidy() {
	const small = 32
	if len(b.items) < small || len(b.items) < 2*b.count {
		return
	}
	b.items = shrink(slices.DeleteFunc(b.items, func(ch change) bool { return ch.conn == nil }))
	b.head = 0
	for i := range b.items {
		b.items[i].conn.pending = uint32(i + 1)
	}
}

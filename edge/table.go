package edge

import (
	"hash/maphash"
	"iter"
	"slices"
)

// endpoints finds the live connection of an endpoint. The map is keyed by a hash,
// which takes a quarter of the memory of a map keyed by both ids.
type endpoints struct {
	seed  maphash.Seed
	first map[uint64]*Conn
}

func newEndpoints() endpoints {
	return endpoints{maphash.MakeSeed(), make(map[uint64]*Conn)}
}

func (e *endpoints) hash(ids string) uint64 { return maphash.String(e.seed, ids) }

func (e *endpoints) get(user, device string) *Conn {
	ids := user + device
	for c := e.first[e.hash(ids)]; c != nil; c = c.twin {
		if c.endpoint() == ids && int(c.split) == len(user) {
			return c
		}
	}
	return nil
}

func (e *endpoints) add(c *Conn) {
	h := e.hash(c.endpoint())
	c.twin = e.first[h]
	e.first[h] = c
}

func (e *endpoints) remove(c *Conn) {
	h := e.hash(c.endpoint())
	if e.first[h] == c {
		if c.twin == nil {
			delete(e.first, h)
		} else {
			e.first[h] = c.twin
		}
		c.twin = nil
		return
	}
	for o := e.first[h]; o != nil; o = o.twin {
		if o.twin == c {
			o.twin, c.twin = c.twin, nil
			return
		}
	}
}

// roll lists connections in the order of their numbers: every connection from its
// Connect until its CLOSE is emitted. Numbers only ascend, so joining is an append
// and finding is a binary search; who leaves leaves a hole, and holes are closed
// when they are the half.
type roll struct {
	seats []seat
	holes int
}

type seat struct {
	number uint64
	conn   *Conn // nil in a hole
}

func (r *roll) len() int { return len(r.seats) - r.holes }

func (r *roll) add(c *Conn) { r.seats = append(r.seats, seat{c.number, c}) }

// last is the highest number that was ever taken and may still be held.
func (r *roll) last() uint64 {
	if len(r.seats) == 0 {
		return 0
	}
	return r.seats[len(r.seats)-1].number
}

func (r *roll) find(number uint64) (int, bool) {
	return slices.BinarySearchFunc(r.seats, number, func(s seat, n uint64) int {
		switch {
		case s.number < n:
			return -1
		case s.number > n:
			return 1
		}
		return 0
	})
}

func (r *roll) get(number uint64) *Conn {
	if i, ok := r.find(number); ok {
		return r.seats[i].conn
	}
	return nil
}

func (r *roll) remove(c *Conn) {
	i, ok := r.find(c.number)
	if !ok || r.seats[i].conn == nil {
		return
	}
	r.seats[i].conn = nil
	r.holes++
	if r.holes > len(r.seats)/2 {
		r.compact()
	}
}

func (r *roll) compact() {
	kept := slices.DeleteFunc(r.seats, func(s seat) bool { return s.conn == nil })
	r.seats, r.holes = shrink(kept), 0
}

// from lists the connections with numbers above the given one, ascending.
func (r *roll) from(number uint64) iter.Seq[*Conn] {
	i, _ := r.find(number + 1)
	return func(yield func(*Conn) bool) {
		for _, s := range r.seats[i:] {
			if s.conn != nil && !yield(s.conn) {
				return
			}
		}
	}
}

// shrink gives memory back after a crowd has left.
func shrink[T any](s []T) []T {
	const small = 1024
	if cap(s) > small && len(s) < cap(s)/4 {
		return slices.Clone(s)
	}
	return s
}

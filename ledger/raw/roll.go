package raw

import (
	"cmp"
	"slices"
)

// A roll lists connections by their numbers. Edges number them in order and list them
// so in their heartbeats, so that a walk beside those finds nearly all without a search.
type roll []seat

type seat struct {
	number uint64
	conn   *Conn
}

func (r roll) find(number uint64) (int, bool) {
	return slices.BinarySearchFunc(r, number, func(s seat, n uint64) int { return cmp.Compare(s.number, n) })
}

func (r roll) get(number uint64) *Conn {
	if i, ok := r.find(number); ok {
		return r[i].conn
	}
	return nil
}

func (r *roll) add(number uint64, c *Conn) {
	if n := len(*r); n == 0 || (*r)[n-1].number < number {
		*r = append(*r, seat{number, c})
		return
	}
	i, _ := r.find(number)
	*r = slices.Insert(*r, i, seat{number, c})
}

// next finds a number at or behind a place, and the place to go on from.
func (r roll) next(place int, number uint64) (*Conn, int) {
	for range 4 {
		if place < len(r) && r[place].number < number {
			place++
		}
	}
	if place < len(r) && r[place].number < number {
		i, _ := r[place:].find(number)
		place += i
	}
	if place < len(r) && r[place].number == number {
		return r[place].conn, place + 1
	}
	return nil, place
}

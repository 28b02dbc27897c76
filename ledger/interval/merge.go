package interval

// Merge appends to dst the union of lists that are each sorted by start, such as
// the sessions of each device of a user. It walks the lists side by side and does
// not write to them; a list out of order is refused with [ErrOrder], and dst is
// returned as it was.
func Merge(dst []Interval, lists ...[]Interval) ([]Interval, error) {
	h := make(heads, 0, len(lists))
	for _, list := range lists {
		if len(list) > 0 {
			h = append(h, list)
		}
	}
	for k := len(h)/2 - 1; k >= 0; k-- {
		h.sink(k)
	}
	return h.union(dst)
}

func (h heads) union(dst []Interval) ([]Interval, error) {
	var j Joiner
	before := len(dst)
	for len(h) > 0 {
		// An empty interval says nothing of time, but it too must stand in its place.
		if len(h[0]) > 1 && h[0][1].From < h[0][0].From {
			return dst[:before], ErrOrder
		}
		done, ok, err := j.Add(h[0][0])
		if err != nil {
			return dst[:before], err
		}
		if ok {
			dst = append(dst, done)
		}
		h = h.next()
	}
	if last, ok := j.Flush(); ok {
		dst = append(dst, last)
	}
	return dst, nil
}

// heads are lists that are not used up, as a binary heap by their first start.
type heads [][]Interval

// next drops the smallest first interval.
func (h heads) next() heads {
	if h[0] = h[0][1:]; len(h[0]) == 0 {
		last := len(h) - 1
		h[0], h = h[last], h[:last]
	}
	h.sink(0)
	return h
}

func (h heads) sink(k int) {
	for {
		least := k
		for child := 2*k + 1; child <= 2*k+2 && child < len(h); child++ {
			if h[child][0].From < h[least][0].From {
				least = child
			}
		}
		if least == k {
			return
		}
		h[k], h[least] = h[least], h[k]
		k = least
	}
}

package interval

// A Joiner is a union of input that arrives sorted by start. It remembers one
// interval, whatever the input. The zero Joiner is ready.
type Joiner struct {
	open    Interval
	from    int64 // the latest start seen
	holding bool
}

// Add takes the next interval. When that shows an earlier one to be complete, it
// returns it and true. An interval that starts before its predecessor is refused
// with [ErrOrder] and changes nothing; empty ones are ignored.
func (j *Joiner) Add(i Interval) (done Interval, ok bool, err error) {
	switch {
	case i.Empty():
		return Interval{}, false, nil
	case !j.holding:
		j.open, j.from, j.holding = i, i.From, true
		return Interval{}, false, nil
	case i.From < j.from:
		return Interval{}, false, ErrOrder
	}
	j.from = i.From
	if i.From <= j.open.To {
		j.open.To = max(j.open.To, i.To)
		return Interval{}, false, nil
	}
	done, j.open = j.open, i
	return done, true, nil
}

// Flush returns the interval that is still open, if there is one, and leaves the
// Joiner as new.
func (j *Joiner) Flush() (last Interval, ok bool) {
	last, ok = j.open, j.holding
	*j = Joiner{}
	return last, ok
}

package interval

import "sort"

// A Builder makes the intervals of one session beat by beat. It keeps the first and
// the last beat of every run, a run being beats without a gap above the cap: 16
// bytes a run that is not settled, whatever the number of beats. A beat in order
// costs a comparison, a late one a search among the runs. Make it
// with [NewBuilder]; copies of one share memory, so only one of them may go on.
type Builder struct {
	cap, grace int64

	last  Interval   // the newest run, From its first beat and To its last
	runs  []Interval // the runs before it, in the same form, in order
	began bool       // last holds a run

	end   int64 // the close; beats after it are refused
	floor int64 // where settled time ends; beats before it are refused
}

// NewBuilder returns the builder of a session without beats, or [ErrRule].
func NewBuilder(g Gaps) (Builder, error) {
	if err := g.Validate(); err != nil {
		return Builder{}, err
	}
	b := Builder{cap: g.limit(), grace: g.Grace.Milliseconds()}
	b.Reset()
	return b, nil
}

// Reset makes the builder as new, for the next session under the same rule. It
// keeps its memory.
func (b *Builder) Reset() {
	b.last, b.began, b.runs = Interval{}, false, b.runs[:0]
	b.end, b.floor = maxInt64, minInt64
}

// Beat counts a heartbeat. Beats come in any order; repeating one changes nothing.
// [ErrClosed] and [ErrSettled] are beats that do not count, for the caller's
// quarantine.
func (b *Builder) Beat(at int64) error {
	if b.began && at >= b.last.To && at-b.last.To <= b.cap && at <= b.end && at >= b.floor {
		b.last.To = at
		return nil
	}
	return b.other(at)
}

// other is a beat that does not simply prolong the newest run.
func (b *Builder) other(at int64) error {
	switch {
	case at > b.end:
		return ErrClosed
	case at < b.floor:
		return ErrSettled
	case !b.began:
		b.last, b.began = Interval{From: at, To: at}, true
	case at > b.last.To:
		b.runs = append(b.runs, b.last)
		b.last = Interval{From: at, To: at}
	case at >= b.last.From:
	case b.last.From-at <= b.cap:
		b.lengthenLast(at)
	default:
		b.insert(at)
	}
	return nil
}

// lengthenLast moves the start of the newest run back to at, which may bridge the
// gap to the run before it.
func (b *Builder) lengthenLast(at int64) {
	b.last.From = at
	if k := len(b.runs) - 1; k >= 0 && at-b.runs[k].To <= b.cap {
		b.last.From = b.runs[k].From
		b.runs = b.runs[:k]
	}
}

// insert counts a beat that is too early for the newest run.
func (b *Builder) insert(at int64) {
	k := sort.Search(len(b.runs), func(k int) bool { return b.runs[k].To >= at })
	if k < len(b.runs) && b.runs[k].From <= at {
		return
	}
	left := k > 0 && at-b.runs[k-1].To <= b.cap
	right := k < len(b.runs) && b.runs[k].From-at <= b.cap
	switch {
	case left && right:
		b.runs[k-1].To = b.runs[k].To
		b.runs = append(b.runs[:k], b.runs[k+1:]...)
	case left:
		b.runs[k-1].To = at
	case right:
		b.runs[k].From = at
	default:
		b.runs = append(b.runs, Interval{})
		copy(b.runs[k+1:], b.runs[k:])
		b.runs[k] = Interval{From: at, To: at}
	}
}

// Close ends the session at its close as received. It cuts the grace and adds
// nothing; of several closes the earliest counts. A close may come before beats that
// were counted already. Those no longer count, but if it falls amid a run, the last
// beat before it is not known any more: the run then ends at the close, by at most
// cap − grace later than [Gaps.OnlineUntil] finds from the raw beats, and Close
// returns [ErrOverrun]. [ErrSettled] is a close in time already handed out.
func (b *Builder) Close(at int64) error {
	switch {
	case at >= b.end:
		return nil
	case at < b.floor:
		return ErrSettled
	}
	b.end = at
	for b.began && b.last.From > at {
		b.dropLast()
	}
	if !b.began || b.last.To <= at {
		return nil
	}
	b.last.To = at
	if b.last.From < at && b.grace < b.cap {
		return ErrOverrun
	}
	return nil
}

func (b *Builder) dropLast() {
	k := len(b.runs) - 1
	if b.began = k >= 0; b.began {
		b.last, b.runs = b.runs[k], b.runs[:k]
	}
}

// Last is the latest beat that counts, false if there is none.
func (b *Builder) Last() (at int64, ok bool) { return b.last.To, b.began }

// Intervals appends to dst what is not settled, as if no further beat came. The
// grace counts in full; to know what has passed of it, clip to now.
func (b *Builder) Intervals(dst []Interval) []Interval {
	for _, run := range b.runs {
		dst = b.finish(dst, run)
	}
	if b.began {
		dst = b.finish(dst, b.last)
	}
	return dst
}

func (b *Builder) finish(dst []Interval, run Interval) []Interval {
	// The grace is below every gap, so it never reaches the next run.
	run.To = min(run.To+b.grace, b.end)
	if run.Empty() {
		return dst
	}
	return append(dst, run)
}

// Settle says that no beat or close before watermark will count any more. It appends
// to dst the intervals that nothing can change after that, and forgets them. What
// the appends of all calls and a last [Builder.Intervals] return, in that order, is
// what one Intervals without them would have.
func (b *Builder) Settle(dst []Interval, watermark int64) []Interval {
	b.floor = max(b.floor, watermark)
	n := 0
	for n < len(b.runs) && b.final(b.runs[n]) {
		dst = b.finish(dst, b.runs[n])
		n++
	}
	b.runs = append(b.runs[:0], b.runs[n:]...)
	if len(b.runs) == 0 && b.began && b.final(b.last) {
		dst = b.finish(dst, b.last)
		b.began = false
	}
	return dst
}

// final says whether no beat from the floor on can reach a run. Its grace, below
// the cap, ends before the floor too, so that no close can cut it.
func (b *Builder) final(run Interval) bool {
	return b.floor > b.end || b.floor-run.To > b.cap
}

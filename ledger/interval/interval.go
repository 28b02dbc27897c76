package interval

import (
	"fmt"
	"time"
)

// Bounds of the instants that the package computes with: years 1 to 9999, as
// RFC 3339 can write them, in milliseconds since the Unix epoch.
const (
	Earliest int64 = int64(firstDate) * dayLength
	Latest   int64 = int64(lastDate+1) * dayLength
)

// An Interval is the time from From up to, but not including, To, in milliseconds
// since the Unix epoch. One whose To is not after From is empty.
type Interval struct {
	From, To int64
}

// Empty says whether the interval holds no instant.
func (i Interval) Empty() bool { return i.To <= i.From }

// Length is the number of milliseconds in the interval, zero if it is empty.
func (i Interval) Length() int64 { return max(i.To-i.From, 0) }

// Contains says whether at lies in the interval.
func (i Interval) Contains(at int64) bool { return i.From <= at && at < i.To }

// Clip is the part of i that lies within bounds.
func (i Interval) Clip(bounds Interval) Interval {
	return Interval{From: max(i.From, bounds.From), To: min(i.To, bounds.To)}
}

// Check returns [ErrInstant] for an interval that ends before it starts or leaves
// [Earliest, Latest]. Those it accepts cannot overflow anything in this package.
func (i Interval) Check() error {
	if i.From > i.To || i.From < Earliest || i.To > Latest {
		return fmt.Errorf("%w: %d to %d", ErrInstant, i.From, i.To)
	}
	return nil
}

// String is for people: RFC 3339 in UTC.
func (i Interval) String() string {
	const layout = "2006-01-02T15:04:05.999Z07:00"
	return "[" + time.UnixMilli(i.From).UTC().Format(layout) + ", " + time.UnixMilli(i.To).UTC().Format(layout) + ")"
}

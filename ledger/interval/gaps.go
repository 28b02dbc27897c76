package interval

import (
	"fmt"
	"slices"
	"time"
)

// Gaps is the rule that makes online time of heartbeats. Both values are whole
// milliseconds, not negative.
type Gaps struct {
	// Cap is the longest silence between two beats that still counts as online,
	// inclusive; a longer one splits. Zero means no cap: everything between the first
	// and the last beat counts. A large cap forgives lost beats, and counts short
	// absences as presence.
	Cap time.Duration

	// Grace is how much of the silence after the last beat counts. It must not exceed
	// the cap: a device that fell silent for good would otherwise get more than one
	// that came back.
	Grace time.Duration
}

// Validate returns [ErrRule] with the reason for a rule that makes no sense.
func (g Gaps) Validate() error {
	switch {
	case g.Cap < 0 || g.Grace < 0:
		return fmt.Errorf("%w: cap %v and grace %v must not be negative", ErrRule, g.Cap, g.Grace)
	case g.Cap%time.Millisecond != 0 || g.Grace%time.Millisecond != 0:
		return fmt.Errorf("%w: cap %v and grace %v must be whole milliseconds", ErrRule, g.Cap, g.Grace)
	case g.Cap != 0 && g.Grace > g.Cap:
		return fmt.Errorf("%w: grace %v above cap %v", ErrRule, g.Grace, g.Cap)
	}
	return nil
}

// Online appends to dst the intervals of a session that was never closed. The beats
// come in any order and may repeat; they are sorted in place.
func (g Gaps) Online(dst []Interval, beats []int64) ([]Interval, error) {
	return g.OnlineUntil(dst, beats, maxInt64)
}

// OnlineUntil is [Gaps.Online] for a session that was closed. The close cuts the
// grace and adds nothing: where the last beat was longer ago than the grace, the
// time up to the close stays unproven. Beats at the close count, later ones do not.
func (g Gaps) OnlineUntil(dst []Interval, beats []int64, closed int64) ([]Interval, error) {
	b, err := NewBuilder(g)
	if err != nil {
		return dst, err
	}
	if !slices.IsSorted(beats) {
		slices.Sort(beats)
	}
	for _, at := range beats {
		if at > closed {
			break
		}
		if b.Beat(at) != nil {
			panic("interval: a new builder refused a beat")
		}
	}
	b.end = closed
	return b.Intervals(dst), nil
}

// limit is the cap in milliseconds, as a number that no gap exceeds if there is none.
func (g Gaps) limit() int64 {
	if g.Cap == 0 {
		return maxInt64
	}
	return g.Cap.Milliseconds()
}

package interval

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// A Switch is an instant at which something went on or off. Switches of one instant
// count in the order of their sequence; if that is the same too, off counts, since
// time that is not certain is not counted.
type Switch struct {
	At       int64
	Sequence uint64
	On       bool
}

func sortSwitches(list []Switch) {
	order := func(a, b Switch) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Sequence, b.Sequence), cmp.Compare(rank(a.On), rank(b.On)))
	}
	if !slices.IsSortedFunc(list, order) {
		slices.SortFunc(list, order)
	}
}

// rank puts off after on, so that it has the last word.
func rank(on bool) int {
	if on {
		return 0
	}
	return 1
}

// Foreground appends to dst the time in the foreground: from every switch on to the
// next switch off. The session ends at until, and with it the foreground. Before the
// first switch nothing is known and nothing counts. Switches come in any order and
// may repeat; they are sorted in place.
func Foreground(dst []Interval, switches []Switch, until int64) []Interval {
	sortSwitches(switches)
	w := writer{dst: dst}
	on := false
	var since int64
	for _, s := range switches {
		if s.At >= until {
			break
		}
		if on && !s.On {
			w.add(Interval{From: since, To: s.At})
		}
		if !on {
			since = s.At
		}
		on = s.On
	}
	if on {
		w.add(Interval{From: since, To: until})
	}
	return w.close()
}

// A writer appends intervals in order of start to dst, joining them.
type writer struct {
	dst  []Interval
	open Interval
}

func (w *writer) add(i Interval) {
	switch {
	case i.Empty():
	case w.open.Empty():
		w.open = i
	case i.From <= w.open.To:
		w.open.To = max(w.open.To, i.To)
	default:
		w.dst = append(w.dst, w.open)
		w.open = i
	}
}

func (w *writer) close() []Interval {
	if !w.open.Empty() {
		w.dst = append(w.dst, w.open)
	}
	return w.dst
}

// Activity is the rule that makes active time of input.
type Activity struct {
	// Idle is how long a user counts as active after an input, above zero and in whole
	// milliseconds. A long threshold counts people who have walked away.
	Idle time.Duration
}

// Validate returns [ErrRule] with the reason for a rule that makes no sense.
func (a Activity) Validate() error {
	if a.Idle <= 0 || a.Idle%time.Millisecond != 0 {
		return fmt.Errorf("%w: idle threshold %v must be whole milliseconds above zero", ErrRule, a.Idle)
	}
	return nil
}

// Active appends to dst the time in which the last input was less than Idle ago.
// Whoever notices the silence, and when, makes no difference. Inputs come in any
// order and may repeat; they are sorted in place.
func (a Activity) Active(dst []Interval, inputs []int64) ([]Interval, error) {
	if err := a.Validate(); err != nil {
		return dst, err
	}
	return Gaps{Cap: a.Idle, Grace: a.Idle}.Online(dst, inputs)
}

// ActiveFlags is [Activity.Active] for devices that tell flags: on is a sign of
// input, off is a word that the user went idle or away. An off cuts what is left of
// the threshold and adds nothing, so one that was sent late does not count the time
// it took. Flags come in any order and may repeat; they are sorted in place.
func (a Activity) ActiveFlags(dst []Interval, flags []Switch) ([]Interval, error) {
	if err := a.Validate(); err != nil {
		return dst, err
	}
	sortSwitches(flags)
	w := writer{dst: dst}
	var now Interval
	for _, f := range flags {
		// Whichever way the flag goes, what came before it says nothing of what follows.
		w.add(now.Clip(Interval{From: now.From, To: f.At}))
		now = Interval{}
		if f.On {
			now = Interval{From: f.At, To: f.At + a.Idle.Milliseconds()}
		}
	}
	w.add(now)
	return w.close(), nil
}

package interval

import (
	"slices"

	"pgregory.net/rapid"
)

// The counters here are the definitions, written down without any idea of speed:
// one look at every millisecond.

// span is the short time, in milliseconds from zero, in which random histories play,
// so that they collide all the time.
const span = 240

// A tally says for every millisecond of the span whether it counts.
type tally [span]bool

func tallyOf(lists ...[]Interval) (t tally) {
	for _, list := range lists {
		for _, i := range list {
			for at := max(i.From, 0); at < min(i.To, span); at++ {
				t[at] = true
			}
		}
	}
	return t
}

func (t tally) total() (n int64) {
	for _, counts := range t {
		if counts {
			n++
		}
	}
	return n
}

// set reads the intervals off the tally.
func (t tally) set() (set []Interval) {
	for at, counts := range t {
		switch {
		case !counts:
		case at > 0 && t[at-1]:
			set[len(set)-1].To++
		default:
			set = append(set, Interval{From: int64(at), To: int64(at) + 1})
		}
	}
	return set
}

func (t tally) where(other tally, keep func(a, b bool) bool) (both tally) {
	for at := range t {
		both[at] = keep(t[at], other[at])
	}
	return both
}

// anyInterval is now and then empty, or ends before it starts.
var anyInterval = rapid.Custom(func(t *rapid.T) Interval {
	from := rapid.Int64Range(0, span-1).Draw(t, "from")
	return Interval{From: from, To: min(from+rapid.Int64Range(-3, span/6).Draw(t, "length"), span)}
})

var anyList = rapid.SliceOfN(anyInterval, 0, 40)

var anyInstants = rapid.SliceOfN(rapid.Int64Range(0, span-1), 0, 40)

// muddle repeats some of a list and puts it in another order.
func muddle[T any](t *rapid.T, list []T) []T {
	muddled := slices.Clone(list)
	for range rapid.IntRange(0, len(list)).Draw(t, "repeats") {
		muddled = append(muddled, rapid.SampledFrom(list).Draw(t, "repeated"))
	}
	if len(muddled) == 0 {
		return muddled
	}
	return rapid.Permutation(muddled).Draw(t, "order")
}

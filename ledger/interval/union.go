package interval

import (
	"cmp"
	"slices"
)

// Sort orders a list by start, in place. Intervals of one start come in any order.
func Sort(list []Interval) {
	if !sorted(list) {
		sortByFrom(list)
	}
}

// Union makes a set of a list, in place: sorted, without empty intervals, what
// overlaps or touches merged. It returns the set, a prefix of list.
func Union(list []Interval) []Interval {
	Sort(list)
	return join(list)
}

// Sum adds the lengths of a list, so what two intervals share counts twice: the
// sessions of a user, not the user.
func Sum(list []Interval) (sum int64) {
	for _, i := range list {
		sum += i.Length()
	}
	return sum
}

// Total is the time that at least one interval covers. The list must be sorted by
// start, as [Sort] and every set are. Total(Union(list)) is the same, but Total
// writes nothing.
func Total(list []Interval) (total int64) {
	end := int64(minInt64)
	for _, i := range list {
		if i.To <= end || i.Empty() {
			continue
		}
		total += i.To - max(i.From, end)
		end = i.To
	}
	return total
}

// IsSet says whether a list has the form that [Union] gives it.
func IsSet(list []Interval) bool {
	for k, i := range list {
		if i.Empty() || k > 0 && i.From <= list[k-1].To {
			return false
		}
	}
	return true
}

const (
	minInt64 = -1 << 63
	maxInt64 = 1<<63 - 1

	// Below this length insertion beats the general sort: most users have a handful
	// of sessions, and the general sort pays a call for every comparison.
	short = 24
)

// join merges a list sorted by start, in place.
func join(list []Interval) []Interval {
	n := 0
	for _, i := range list {
		switch {
		case i.Empty():
		case n > 0 && i.From <= list[n-1].To:
			list[n-1].To = max(list[n-1].To, i.To)
		default:
			list[n] = i
			n++
		}
	}
	return list[:n]
}

func sorted(list []Interval) bool {
	for k := 1; k < len(list); k++ {
		if list[k].From < list[k-1].From {
			return false
		}
	}
	return true
}

func sortByFrom(list []Interval) {
	if len(list) > short {
		slices.SortFunc(list, func(a, b Interval) int { return cmp.Compare(a.From, b.From) })
		return
	}
	for k := 1; k < len(list); k++ {
		i, at := list[k], k
		for ; at > 0 && i.From < list[at-1].From; at-- {
			list[at] = list[at-1]
		}
		list[at] = i
	}
}

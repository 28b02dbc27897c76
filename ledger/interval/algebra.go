package interval

import "sort"

// Clip is the part of a set within bounds, in place: a piece of set, of which only
// the first and the last interval may have been shortened.
func Clip(set []Interval, bounds Interval) []Interval {
	if bounds.Empty() {
		return set[:0]
	}
	first := sort.Search(len(set), func(k int) bool { return set[k].To > bounds.From })
	set = set[first:]
	set = set[:sort.Search(len(set), func(k int) bool { return set[k].From >= bounds.To })]
	if len(set) > 0 {
		set[0].From = max(set[0].From, bounds.From)
		set[len(set)-1].To = min(set[len(set)-1].To, bounds.To)
	}
	return set
}

// Intersect appends to dst what lies in both sets.
func Intersect(dst, a, b []Interval) []Interval {
	for len(a) > 0 && len(b) > 0 {
		if both := a[0].Clip(b[0]); !both.Empty() {
			dst = append(dst, both)
		}
		if a[0].To < b[0].To {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return dst
}

// Subtract appends to dst what lies in a but not in b, both sets.
func Subtract(dst, a, b []Interval) []Interval {
	for _, left := range a {
		for len(b) > 0 && b[0].To <= left.From {
			b = b[1:]
		}
		// What b still holds of left may reach into the next interval of a, so it is
		// walked, not consumed.
		for _, hole := range b {
			if hole.From >= left.To {
				break
			}
			if hole.From > left.From {
				dst = append(dst, Interval{From: left.From, To: hole.From})
			}
			left.From = hole.To
		}
		if !left.Empty() {
			dst = append(dst, left)
		}
	}
	return dst
}

// Within says whether the set inner lies in the set outer.
func Within(inner, outer []Interval) bool {
	for _, i := range inner {
		for len(outer) > 0 && outer[0].To < i.To {
			outer = outer[1:]
		}
		if len(outer) == 0 || i.From < outer[0].From {
			return false
		}
	}
	return true
}

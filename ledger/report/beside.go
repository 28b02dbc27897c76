package report

import "slices"

// A Comparison is a group of two answers to the same question.
type Comparison struct {
	Keys        []string
	Here, There int64 // ms; 0 where an answer lacks the group
}

// Beside puts two answers side by side, in the order of their rows.
func Beside(here, there []Row) []Comparison {
	all := make([]Comparison, 0, max(len(here), len(there)))
	for len(here) > 0 || len(there) > 0 {
		order := 0
		switch {
		case len(here) == 0:
			order = 1
		case len(there) == 0:
			order = -1
		default:
			order = slices.Compare(here[0].Keys, there[0].Keys)
		}
		var c Comparison
		if order <= 0 {
			c.Keys, c.Here, here = here[0].Keys, here[0].Total, here[1:]
		}
		if order >= 0 {
			c.Keys, c.There, there = there[0].Keys, there[0].Total, there[1:]
		}
		all = append(all, c)
	}
	return all
}

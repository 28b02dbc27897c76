package machine

import (
	"cmp"
	"slices"
)

// A Seat is a member to whom partitions can be given.
type Seat struct {
	ID string
	// Weight is its share beside the others'; at 0 it gets nothing and gives away what it has.
	Weight int
	// Frozen seats keep what they have up to their share, and get nothing more.
	Frozen bool
}

// Assign gives every partition to a seat. current says where each is now; empty, or the id of
// nobody with a seat, means nowhere. pinned partitions go where they are pinned to, if that
// has a seat.
//
// Every seat gets its share of the partitions by weight, rounded up or down, unless pins or
// frozen seats leave no choice; then the others share out what is left in the same way. Among
// all such assignments it is one with the fewest moves. It depends on nothing but its
// arguments. Where nobody may get a partition it stays, or belongs to nobody.
func Assign(current []string, seats []Seat, pinned map[int]string) []string {
	a := newAssigner(current, seats, pinned)
	a.share()
	return a.place()
}

// An assigner works on indices of seats; -1 stands for nowhere.
type assigner struct {
	seats  []Seat // by id
	now    []int  // where each partition is
	fixed  []bool // pinned there
	owned  []int  // partitions that each seat has now
	pins   []int  // of them, those that it must keep
	quota  []int  // partitions that each seat shall have
	target []int
}

func newAssigner(current []string, seats []Seat, pinned map[int]string) *assigner {
	a := &assigner{seats: slices.Clone(seats), now: make([]int, len(current)), fixed: make([]bool, len(current))}
	slices.SortFunc(a.seats, func(s, t Seat) int { return cmp.Compare(s.ID, t.ID) })
	index := make(map[string]int, len(a.seats))
	frozen := true
	for i, s := range a.seats {
		index[s.ID] = i
		frozen = frozen && (s.Frozen || s.Weight == 0)
	}
	if frozen { // somebody must take what belongs to nobody
		for i := range a.seats {
			a.seats[i].Frozen = false
		}
	}
	a.owned, a.pins, a.quota = make([]int, len(seats)), make([]int, len(seats)), make([]int, len(seats))
	for n, id := range current {
		at, seated := index[id]
		if pin, ok := index[pinned[n]]; ok {
			at, seated, a.fixed[n] = pin, true, true
			a.pins[pin]++
		}
		if !seated {
			a.now[n] = -1
			continue
		}
		a.now[n] = at
		a.owned[at]++
	}
	a.target = slices.Clone(a.now)
	return a
}

// share sets the quotas: first of those whose hands are tied whatever the others have, then of the
// rest. Nothing but stickiness depends on where partitions are now, so that an assignment is not
// assigned anew.
func (a *assigner) share() {
	left, total := len(a.now), 0
	for i, s := range a.seats {
		if total += s.Weight; s.Weight == 0 {
			a.quota[i] = a.pins[i]
			left -= a.quota[i]
		}
	}
	var free []int
	shared := left
	for i, s := range a.seats {
		switch {
		case s.Weight == 0:
		case s.Frozen:
			up := (shared*s.Weight + total - 1) / total
			a.quota[i] = max(a.pins[i], min(a.owned[i], up))
			left -= a.quota[i]
		default:
			free = append(free, i)
		}
	}
	for tied := true; tied; {
		a.shareAmong(free, left)
		before := len(free)
		free = slices.DeleteFunc(free, func(i int) bool {
			if a.pins[i] <= a.quota[i] {
				return false
			}
			a.quota[i] = a.pins[i]
			left -= a.quota[i]
			return true
		})
		tied = len(free) < before
	}
}

// shareAmong shares partitions out by weight: everybody's share rounded down, and one more for
// as many as that leaves, first of all for those to whom it is pinned or who have it already.
func (a *assigner) shareAmong(free []int, partitions int) {
	total := 0
	for _, i := range free {
		total += a.seats[i].Weight
	}
	if total == 0 {
		return
	}
	rest := make(map[int]int, len(free))
	left := partitions
	for _, i := range free {
		a.quota[i], rest[i] = partitions*a.seats[i].Weight/total, partitions*a.seats[i].Weight%total
		left -= a.quota[i]
	}
	order := slices.DeleteFunc(slices.Clone(free), func(i int) bool { return rest[i] == 0 })
	slices.SortStableFunc(order, func(i, j int) int {
		return cmp.Or(compare(a.pins[j] > a.quota[j], a.pins[i] > a.quota[i]), compare(a.owned[j] > a.quota[j], a.owned[i] > a.quota[i]),
			cmp.Compare(rest[j], rest[i]))
	})
	for _, i := range order[:left] {
		a.quota[i]++
	}
}

// compare orders false before true.
func compare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// place takes from those who have too much, their highest numbers first, and fills up those
// who have too little, first with what belongs to nobody.
func (a *assigner) place() []string {
	var nobodys, spare []int
	excess := make([]int, len(a.seats))
	for i := range a.seats {
		excess[i] = a.owned[i] - a.quota[i]
	}
	for n, i := range slices.Backward(a.now) {
		switch {
		case i < 0:
			nobodys = append(nobodys, n)
		case excess[i] > 0 && !a.fixed[n]:
			excess[i]--
			spare = append(spare, n)
		}
	}
	slices.Reverse(nobodys)
	slices.Reverse(spare)
	loose := append(nobodys, spare...)
	for i := range a.seats {
		for ; excess[i] < 0 && len(loose) > 0; excess[i]++ {
			a.target[loose[0]], loose = i, loose[1:]
		}
	}
	result := make([]string, len(a.now))
	for n, i := range a.target {
		if i >= 0 {
			result[n] = a.seats[i].ID
		}
	}
	return result
}

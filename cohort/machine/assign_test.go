package machine

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func moves(from, to []string) (moved int) {
	for n := range from {
		if from[n] != to[n] {
			moved++
		}
	}
	return moved
}

func loads(assignment []string) map[string]int {
	count := make(map[string]int)
	for _, id := range assignment {
		count[id]++
	}
	return count
}

func members(n int) []Seat {
	seats := make([]Seat, n)
	for i := range seats {
		seats[i] = Seat{ID: fmt.Sprintf("w%03d", i), Weight: 1}
	}
	return seats
}

// The figures that issue 5 asks for; package e2e has the whole way.
func TestOneMoreMemberMovesTheFewest(t *testing.T) {
	for _, c := range []struct{ partitions, before, most int }{{12, 3, 3}, {64, 10, 6}, {256, 32, 8}, {1024, 32, 32}} {
		before := Assign(make([]string, c.partitions), members(c.before), nil)
		after := Assign(before, members(c.before+1), nil)
		if moved := moves(before, after); moved > c.most {
			t.Errorf("%d partitions, %d→%d: %d moved, at most %d", c.partitions, c.before, c.before+1, moved, c.most)
		}
		counts := slices.Sorted(maps.Values(loads(after)))
		if len(counts) != c.before+1 || counts[len(counts)-1]-counts[0] > 1 {
			t.Errorf("%d partitions, %d→%d: loads %v", c.partitions, c.before, c.before+1, counts)
		}
	}
}

// fewest is the least number of moves of any assignment in which every seat has its share
// rounded down or up: it tries all ways of rounding.
func fewest(current []string, seats []Seat) int {
	total := 0
	for _, s := range seats {
		total += s.Weight
	}
	owned := loads(current)
	best := len(current) + 1
	var try func(i, left, kept int)
	try = func(i, left, kept int) {
		if i == len(seats) {
			if left == 0 {
				best = min(best, len(current)-kept)
			}
			return
		}
		down := len(current) * seats[i].Weight / total
		up := (len(current)*seats[i].Weight + total - 1) / total
		for quota := down; quota <= up; quota++ {
			try(i+1, left-quota, kept+min(quota, owned[seats[i].ID]))
		}
	}
	try(0, len(current), 0)
	return best
}

// Members come, go and change their weights; each assignment is as good as the best of all
// possible ones.
func TestAssignmentIsBalancedByTheFewestMoves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		current := make([]string, rapid.IntRange(1, 40).Draw(t, "partitions"))
		for range rapid.IntRange(1, 12).Draw(t, "changes") {
			seats := members(8)
			for i := range seats {
				seats[i].Weight = rapid.SampledFrom([]int{0, 0, 1, 1, 1, 2, 5}).Draw(t, "weight")
			}
			seats = slices.DeleteFunc(seats, func(s Seat) bool { return s.Weight == 0 })
			if len(seats) == 0 {
				continue
			}
			next := Assign(current, seats, nil)
			total := 0
			for _, s := range seats {
				total += s.Weight
			}
			count := loads(next)
			for _, s := range seats {
				if share := len(current) * s.Weight; count[s.ID] < share/total || count[s.ID] > (share+total-1)/total {
					t.Fatalf("%s has %d of %d by weight %d of %d", s.ID, count[s.ID], len(current), s.Weight, total)
				}
				delete(count, s.ID)
			}
			if len(count) > 0 {
				t.Fatalf("belong to nobody: %v", count)
			}
			if moved, best := moves(current, next), fewest(current, seats); moved != best {
				t.Fatalf("%d moves, %d would do: %v → %v", moved, best, current, next)
			}
			if again := Assign(next, seats, nil); !slices.Equal(again, next) {
				t.Fatalf("not stable: %v → %v", next, again)
			}
			current = next
		}
	})
}

// Pins, drained and frozen seats, in any mixture.
func TestAssignmentKeepsOrders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seats := members(6)
		current := make([]string, rapid.IntRange(1, 30).Draw(t, "partitions"))
		pinned := make(map[int]string)
		weighted, warm := false, false
		for i := range seats {
			seats[i].Weight = rapid.IntRange(0, 3).Draw(t, "weight")
			seats[i].Frozen = rapid.Bool().Draw(t, "frozen")
			weighted = weighted || seats[i].Weight > 0
			warm = warm || seats[i].Weight > 0 && !seats[i].Frozen
		}
		for n := range current {
			current[n] = rapid.SampledFrom([]string{"", "gone", "w000", "w001", "w002", "w003", "w004", "w005"}).Draw(t, "owner")
			if rapid.IntRange(0, 4).Draw(t, "pin") == 0 {
				pinned[n] = rapid.SampledFrom([]string{"gone", "w000", "w001"}).Draw(t, "to")
			}
		}
		next := Assign(current, seats, pinned)
		if again := Assign(next, seats, pinned); !slices.Equal(again, next) {
			t.Fatalf("not stable: %v → %v", next, again)
		}
		for n, id := range next {
			i := slices.IndexFunc(seats, func(s Seat) bool { return s.ID == id })
			switch pin := pinned[n]; {
			case pin != "" && pin != "gone":
				if id != pin {
					t.Fatalf("partition %d is with %q, pinned to %q", n, id, pin)
				}
			case i < 0:
				if weighted || id != "" {
					t.Fatalf("partition %d belongs to %q", n, id)
				}
			case seats[i].Weight == 0 && weighted:
				t.Fatalf("partition %d is left with %q, which is drained", n, id)
			case seats[i].Frozen && id != current[n] && warm:
				t.Fatalf("partition %d was given to %q, which is frozen", n, id)
			}
		}
	})
}

package pcgroups

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/synadia-io/orbit.go/pcgroups"

	"github.com/rollcall-io/rollcall/cohort/machine"
)

// growth is that of package cohort's figures.
var growth = []struct{ partitions, before int }{{12, 3}, {64, 10}, {256, 32}, {1024, 32}}

func names(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("w%02d", i)
	}
	return all
}

// theirs is who has each partition by their assignment, which depends on the members only.
func theirs(t *testing.T, partitions int, members []string) []string {
	owners := make([]string, partitions)
	for _, m := range members {
		for _, filter := range pcgroups.GeneratePartitionFilters(members, uint(partitions), nil, m, ">") {
			number, _, _ := strings.Cut(filter, ".")
			n, err := strconv.Atoi(number)
			if err != nil {
				t.Fatal(err)
			}
			owners[n] = m
		}
	}
	return owners
}

func ours(current, members []string) []string {
	var seats []machine.Seat
	for _, m := range members {
		seats = append(seats, machine.Seat{ID: m, Weight: 1})
	}
	return machine.Assign(current, seats, nil)
}

// figures are how many partitions moved, and the least and the most that a member has.
func figures(before, after []string) (moved, least, most int) {
	count := make(map[string]int)
	for n, owner := range after {
		if count[owner]++; before[n] != owner {
			moved++
		}
	}
	least = len(after)
	for _, c := range count {
		least, most = min(least, c), max(most, c)
	}
	return moved, least, most
}

func TestMovesBesidePcgroups(t *testing.T) {
	table := "partitions, members: moves, loads of cohort | of pcgroups\n"
	for _, c := range growth {
		before, after := names(c.before), names(c.before+1)
		first := ours(make([]string, c.partitions), before)
		moved, least, most := figures(first, ours(first, after))
		theirMoved, theirLeast, theirMost := figures(theirs(t, c.partitions, before), theirs(t, c.partitions, after))
		table += fmt.Sprintf("%5d, %2d→%2d: %3d, %2d to %2d | %3d, %2d to %2d\n", c.partitions, c.before, c.before+1,
			moved, least, most, theirMoved, theirLeast, theirMost)
		if moved > theirMoved || most-least > theirMost-theirLeast {
			t.Errorf("%d partitions, %d→%d: worse than pcgroups", c.partitions, c.before, c.before+1)
		}
	}
	t.Log(strings.TrimSpace(table))
}

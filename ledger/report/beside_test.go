package report

import (
	"math/rand/v2"
	"strconv"
	"testing"
)

// Every group of either answer is there once, in order, with the totals of both.
func TestBeside(t *testing.T) {
	rnd := rand.New(rand.NewPCG(21, 21))
	for range 200 {
		var answers [2][]Row
		totals := [2]map[string]int64{{}, {}}
		for k := range answers {
			for n := range 10 {
				if rnd.IntN(3) > 0 {
					name := strconv.Itoa(n)
					answers[k] = append(answers[k], Row{Keys: []string{name}, Total: 1 + rnd.Int64N(100)})
					totals[k][name] = answers[k][len(answers[k])-1].Total
				}
			}
		}
		last, seen := "", 0
		for _, c := range Beside(answers[0], answers[1]) {
			name := c.Keys[0]
			if name <= last && last != "" || c.Here != totals[0][name] || c.There != totals[1][name] || c.Here == 0 && c.There == 0 {
				t.Fatalf("%+v after %q, of %v", c, last, answers)
			}
			last = name
			seen++
		}
		for name := range totals[1] {
			totals[0][name] = 1
		}
		if seen != len(totals[0]) {
			t.Fatalf("%d of %d groups", seen, len(totals[0]))
		}
	}
}

package fanout

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
)

// Several targets look different by themselves at the same minute. In which order a
// viewer is told of them must not depend on what else waits for an instant, nor on what
// those targets did that the viewer cannot see.
func TestTheOrderAtOneInstantTellsNothing(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var stories [2][]heard
		for i := range stories {
			stories[i] = flips(random, i == 1)
		}
		if d := differences(stories[0], stories[1]); d != "" {
			t.Fatalf("the order tells the runs apart:%s", d)
		}
	}
}

// flips is what v is told of five targets that were seen in the same minute, while
// others of whom it knows nothing, and the five themselves, have plans of their own.
func flips(random *rand.Rand, busy bool) []heard {
	const far = 1000 * time.Hour
	coarse := Defaults{rollcall.Coarse, rollcall.Coarse, rollcall.Coarse}
	r := newRun(boardConfig{generation: 1, defaults: coarse, window: DefaultWindow, ttl: far, sightTTL: far, outage: far, maxPayload: 1 << 20}, begin)
	five := []string{"a", "b", "c", "d", "e"}
	for _, user := range five {
		r.set(user, &View{Observed: 1, Seen: rollcall.MicrosOf(begin)})
	}
	r.subscribe("v", five)()
	for step := range 20 {
		if busy {
			user := slices.Concat(five, []string{"m1", "m2", "m3"})[random.IntN(8)]
			ends := &subjects.ManualStatus{Availability: rollcall.Away, Until: r.now.Add(time.Duration(1+random.IntN(100)) * time.Minute)}
			if d, err := r.amended(subjects.PolicyStatus, user, subjects.PolicyRequest{Status: ends}); err == nil {
				r.file(user, d)
			}
			r.set("m1", &View{Observed: 1, Seen: rollcall.MicrosOf(begin)})
			r.subscribe("f", []string{"m1", "m2", "m3"}[:1+step%3])()
		}
		r.advance(r.now.Add(7 * time.Minute))
	}
	r.advance(begin.Add(25 * time.Hour))
	return r.heard["v"]
}

package e2e_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall/e2e"
)

var takeoverFile = flag.String("takeover", "", "file for the figures of TestTakeover")

// TestTakeover measures from when a keeper is killed, or drained, until its shards have an owner who
// has read their logs, at random moments.
func TestTakeover(t *testing.T) {
	var text string
	for _, way := range []struct {
		what  string
		limit time.Duration
		leave func(*e2e.Keeper)
	}{
		{"killed", takeover, func(k *e2e.Keeper) { k.Kill() }},
		{"drained", second, func(k *e2e.Keeper) { k.Leave(k.Drain) }},
	} {
		var took []time.Duration
		moments := uint64(20)
		if testing.Short() {
			moments = 4
		}
		for seed := range moments {
			shared(t, e2e.Options{}, func(t *testing.T, c *crew) {
				g := c.StartEdge("g1")
				c.connectAll(g, names("u", 100))
				random := rand.New(rand.NewPCG(seed, 3))
				c.At(c.Now() + time.Duration(random.IntN(10_000))*time.Millisecond)
				victim := []string{"a", "b"}[seed%2] // one of them coordinates
				heir := c.keepers[[]string{"b", "a"}[seed%2]]
				began := c.Now()
				way.leave(c.keepers[victim])
				for !(heir.Ready() && len(c.shards(victim)) == 0) && c.Now() < began+time.Minute {
					c.At(c.Now() + 10*time.Millisecond)
				}
				took = append(took, c.Now()-began)
			})
		}
		slices.Sort(took)
		text += fmt.Sprintf("a keeper %-8s %6.2f s in the median, %.2f s at most, of %d\n",
			way.what, took[len(took)/2].Seconds(), took[len(took)-1].Seconds(), len(took))
		if longest := took[len(took)-1]; longest > way.limit {
			t.Errorf("%s: taken over after %s", way.what, longest)
		}
	}
	t.Logf("\n%s", text)
	if *takeoverFile != "" {
		if err := os.WriteFile(*takeoverFile, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

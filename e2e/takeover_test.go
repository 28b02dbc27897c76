package e2e_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/e2e"
	"github.com/rollcall-io/rollcall/internal/trace"
)

var takeoverFile = flag.String("takeover", "", "file for the figures of TestTakeover, or TestFanoutTakeover")

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
		for seed := range moments(20) {
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
		text += summary("a keeper "+way.what, took)
		if longest := slices.Max(took); longest > way.limit {
			t.Errorf("%s: taken over after %s", way.what, longest)
		}
	}
	figures(t, text)
}

// TestFanoutTakeover measures how long those who come are not shown to viewers who watch them,
// when a fanout is killed, cut off, or hangs for a while, at random moments. Nobody is unknown
// meanwhile, except to a viewer whose every request NATS hands to the one that hangs.
func TestFanoutTakeover(t *testing.T) {
	var text string
	for _, way := range []struct {
		what   string
		vanish func(*e2e.Fanout)
		luck   bool // it depends on whom NATS hands requests
	}{
		{"killed", func(f *e2e.Fanout) { f.Kill() }, false},
		{"cut off", func(f *e2e.Fanout) { f.Link.Cut() }, false},
		{"hanging", func(f *e2e.Fanout) { f.Link.Freeze(); time.AfterFunc(15*second, f.Link.Thaw) }, true},
	} {
		var took []time.Duration
		unknown := 0
		for seed := range moments(3) {
			shared(t, e2e.Options{}, func(t *testing.T, c *crew) {
				longest, blind := c.missed(seed, way.vanish)
				took, unknown = append(took, longest), unknown+blind
			})
		}
		text += summary("a fanout "+way.what, took)
		late, most := took[len(took)-1], 0
		if way.luck {
			late, most = took[len(took)/2], 1
		}
		if late > takeover || unknown > most {
			t.Errorf("%s: somebody was shown after %s, %d viewers did not know", way.what, late, unknown)
		}
	}
	figures(t, text)
}

// moments is how many to measure at: few in short runs, and more for the figures.
func moments(usual uint64) uint64 {
	switch {
	case *takeoverFile != "":
		return 20
	case testing.Short():
		return max(usual/5, 1)
	}
	return usual
}

// missed has somebody come every 100 ms when one of the fanouts vanishes. It returns the longest that
// one of them is not shown, and how many viewers were shown somebody as unknown.
func (c *crew) missed(seed uint64, vanish func(*e2e.Fanout)) (longest time.Duration, blind int) {
	c.T.Helper()
	const viewers, comers = 10, 200
	came := make(map[string]time.Duration)
	var watching []*e2e.Viewer
	for i := range viewers { // several, since one is told at most twice a second and shard
		var targets []string
		for n := i; n < comers; n += viewers {
			targets = append(targets, fmt.Sprint("comes", n))
		}
		watching = append(watching, c.StartViewer(fmt.Sprint("vera", i), append(targets, "stays")...))
	}
	g := c.StartEdge("g1")
	c.Connect(g, "stays", "phone")
	random := rand.New(rand.NewPCG(seed, 5))
	c.At(c.Now() + time.Duration(random.IntN(30_000))*time.Millisecond)
	vanish(c.fanouts[[]string{"a", "b"}[seed%2]]) // one of them coordinates
	for n := range comers {
		user := fmt.Sprint("comes", n)
		came[user] = c.Now()
		c.Connect(g, user, "phone")
		c.At(c.Now() + 100*time.Millisecond)
	}
	c.At(c.Now() + 60*second)
	for _, v := range watching {
		rows := v.Rows()
		shown := make(map[string]bool)
		for _, r := range rows {
			if at, comes := came[r.User]; comes && !shown[r.User] {
				longest = max(longest, r.At-at)
			}
			shown[r.User] = true
		}
		if len(shown) != comers/viewers+1 {
			c.T.Errorf("a viewer was shown %d", len(shown))
		}
		if slices.ContainsFunc(rows, unknown) {
			blind++
		}
	}
	return longest, blind
}

func unknown(r trace.Row) bool { return r.Status == rollcall.StatusUnknown }

// summary is a line about figures.
func summary(what string, took []time.Duration) string {
	slices.Sort(took)
	return fmt.Sprintf("%-17s %6.2f s in the median, %.2f s at most, of %d\n",
		what, took[len(took)/2].Seconds(), took[len(took)-1].Seconds(), len(took))
}

// figures logs figures and writes them to the file that was asked for.
func figures(t *testing.T, text string) {
	t.Helper()
	t.Logf("\n%s", text)
	if *takeoverFile != "" {
		if err := os.WriteFile(*takeoverFile, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

package rebuild_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/ledger/interval"
	"github.com/rollcall-io/rollcall/ledger/rebuild"
	"github.com/rollcall-io/rollcall/ledger/store"
)

const killedPlace = "ROLLCALL_TEST_REBUILD_PLACE"

// mortals is what the process rebuilds that is killed: in the same way each time.
func mortals(s rebuild.Store) rebuild.Config {
	return rebuild.Config{
		Store: s, Source: split(history(rand.New(rand.NewPCG(8, 8)), 4, 4*day), 2), Definition: usual,
		Bounds: interval.Interval{From: 10 * hour, To: 3 * day}, Every: time.Millisecond,
	}
}

// TestKilled: a process that is killed at any moment, again and again, has rebuilt what
// one has that was left alone.
func TestKilled(t *testing.T) {
	if place := os.Getenv(killedPlace); place != "" {
		liveAndDie(t, place)
		return
	}
	testKilled(t, filepath.Join(t.TempDir(), "ledger.db"))
}

func liveAndDie(t *testing.T, place string) {
	s, err := store.Open(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c := mortals(s)
	c.Zones = zones(t, "UTC", "Europe/Berlin")
	n := 0
	c.Progress = func(rebuild.Progress) {
		if n++; n%20 == 0 {
			fmt.Println("alive")
		}
	}
	if done := run(t, c); done.Version != "1" {
		t.Errorf("%+v", done)
	}
}

func testKilled(t *testing.T, place string) {
	rnd, kills, signs := rand.New(rand.NewPCG(2, 9)), 0, 40
	if testing.Short() {
		signs = 150
	}
	for ended := false; !ended; {
		if ended = !lab.KillChild(t, "TestKilled", killedPlace, place, signs+rnd.IntN(100)); !ended {
			kills++
		}
		if s := openAt(t, place); !ended && finished(t, s) {
			break // killed when everything was done
		}
	}
	s := openAt(t, place)
	c := mortals(s)
	kept(t, s, "1").mustBe(t, naive(t, usual, flatten(c.Source.(tape)), c.Bounds))
	if made, err := s.Rebuilds(t.Context()); err != nil || len(made) != 1 || made[0].Finished.IsZero() {
		t.Errorf("%+v, %v", made, err)
	}
	if t.Logf("killed %d times", kills); kills < 3 {
		t.Errorf("killed only %d times", kills)
	}
}

func flatten(t tape) (all []arrival) {
	for _, list := range t {
		all = append(all, list...)
	}
	return all
}

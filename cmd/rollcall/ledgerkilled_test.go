package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall/ledger/interval"
	"github.com/rollcall-io/rollcall/ledger/store"
	"github.com/rollcall-io/rollcall/subjects"
)

// A ledger that is killed again and again, as a process, has the figures of a rebuild.
func TestLedgerRunIsKilled(t *testing.T) {
	killLedgers(t, filepath.Join(t.TempDir(), "ledger.db"))
}

func killLedgers(t *testing.T, place string) {
	data := filepath.Join(t.TempDir(), "data")
	url := up(t, "--data", data, "--no-ledger", "--preset", "worker")
	start := func() child { // of all shards: a group would miss the one before only after a while
		args := []string{"ledger", "run", "-s", url, "--dir", data, "--store", place, "--every", "30ms"}
		for shard := range 4 {
			args = append(args, "--shard", fmt.Sprint(shard))
		}
		return startChild(t, args...)
	}
	played := make(chan string, 1)
	go func() {
		code, _, errs := command(t, "replay", "-s", url, writeTrace(t, crowd()), "--settle", "1s")
		played <- fmt.Sprint(code, errs)
	}()
	random := rand.New(rand.NewPCG(7, 7))
	kills := 0
	for done := false; !done; kills++ {
		c := start()
		select {
		case says := <-played:
			if done = true; !strings.HasPrefix(says, "0") {
				t.Error("replay: ", says)
			}
		case <-time.After(time.Duration(100+random.IntN(900)) * time.Millisecond):
		}
		c.kill()
	}
	over := time.Now()
	last := start()
	for read := (subjects.Stats{}); read.AsOf.Before(over); {
		if code, out, errs := command(t, "top", "-s", url, "--once", "--json"); code == 0 {
			if err := json.Unmarshal([]byte(out), &read); err != nil {
				t.Fatal(err)
			}
		} else if time.Since(over) > time.Minute {
			t.Fatal(errs)
		}
	}
	last.stop(t)
	ask := func(args ...string) string {
		return ledgerSays(t, data, append(args, "--store", place)...)
	}
	from := over.UTC().AddDate(0, 0, -1).Format(time.DateOnly)
	ask("rebuild", "-s", url, "--from", from, "--to", over.UTC().AddDate(0, 0, 2).Format(time.DateOnly))
	live, rebuilt := sessionsOf(t, place)
	if len(live) < crowdSize || !slices.Equal(live, rebuilt) {
		t.Errorf("live %d sessions, rebuilt %d:\n%s\n\n%s", len(live), len(rebuilt), strings.Join(live, "\n"), strings.Join(rebuilt, "\n"))
	}
	if out := ask("quarantine", "list"); strings.Count(out, "\n") != 1 {
		t.Error(out)
	}
	t.Logf("killed %d times", kills)
}

// sessionsOf are the sessions of both versions in a store, as they are.
func sessionsOf(t *testing.T, place string) (live, rebuilt []string) {
	t.Helper()
	s, err := store.Open(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	versions, err := s.Definitions(t.Context())
	if err != nil || len(versions) != 2 {
		t.Fatalf("%v, %v", versions, err)
	}
	for _, d := range versions {
		list := &live
		if d.Rebuilt {
			list = &rebuilt
		}
		always := interval.Interval{From: interval.Earliest, To: interval.Latest}
		for row, err := range s.Sessions(t.Context(), store.Query{Definition: d.Version, Bounds: always}) {
			if err != nil {
				t.Fatal(err)
			}
			*list = append(*list, fmt.Sprintf("%+v", row))
		}
	}
	return live, rebuilt
}

const crowdSize = 30

// crowd is a trace of ten seconds in which users come and go all the time.
func crowd() string {
	random := rand.New(rand.NewPCG(3, 3))
	var b strings.Builder
	b.WriteString("t,user,device,edge,event\n")
	open := make([]bool, crowdSize)
	for tick := range 400 {
		u := random.IntN(crowdSize)
		if tick < crowdSize {
			u = tick
		}
		event := "open"
		if open[u] {
			event = "close"
		}
		open[u] = !open[u]
		fmt.Fprintf(&b, "%.3f,u%d,d,g%d,%s\n", float64(tick)/40, u, u%2, event)
	}
	return b.String()
}

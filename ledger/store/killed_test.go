package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/definition"
)

const killedPlace = "ROLLCALL_TEST_KILLED_PLACE"

// feed is what a source has at a position: every third one corrects an earlier session.
func feed(n int64) ledger.Session {
	if n%3 == 2 {
		return session(fmt.Sprint(n-2), "ann", 2, n)
	}
	return session(fmt.Sprint(n), "ann", 1, n)
}

const perBatch = 300

// readOn stores the source from the position on, batch by batch.
func readOn(ctx context.Context, s Store, upto int64, stored func(int64)) error {
	if err := s.Define(ctx, definition.Default()); err != nil {
		return err
	}
	at, c, err := position(ctx, s)
	for err == nil && at < upto {
		next := min(at+perBatch, upto)
		c = Checkpoint{c.Revision + 1, fmt.Append(nil, next)}
		b := Batch{Definition: "1", Source: "log", Checkpoint: c}
		for ; at < next; at++ {
			b.Sessions = append(b.Sessions, feed(at))
		}
		if _, err = s.Apply(ctx, b); err == nil {
			stored(at)
		}
	}
	return err
}

func position(ctx context.Context, s Store) (at int64, c Checkpoint, err error) {
	if c, err = s.Checkpoint(ctx, "1", "log"); err != nil || c.Revision == 0 {
		return 0, c, err
	}
	at, err = strconv.ParseInt(string(c.Body), 10, 64)
	return at, c, err
}

// A process that is killed at any moment has stored whole batches and knows how many.
func TestKilled(t *testing.T) {
	if place := os.Getenv(killedPlace); place != "" {
		s, err := Open(t.Context(), place)
		if err != nil {
			t.Fatal(err)
		}
		err = readOn(t.Context(), s, 1<<40, func(at int64) { fmt.Println("stored", at) })
		t.Fatal("still alive: ", err)
	}
	place := filepath.Join(t.TempDir(), "ledger.db")
	rnd := rand.New(rand.NewPCG(9, 9))
	for range 6 {
		if !lab.KillChild(t, "TestKilled", killedPlace, place, 1+rnd.IntN(4)) {
			t.Fatal("it ended by itself")
		}
		s, err := Open(t.Context(), place)
		if err != nil {
			t.Fatal(err)
		}
		checkFed(t, s)
		s.Close()
	}
}

// checkFed compares the store with what the source has up to the stored position.
func checkFed(t *testing.T, s Store) {
	t.Helper()
	position, c, err := position(t.Context(), s)
	if err != nil || position == 0 || position != c.Revision*perBatch {
		t.Fatalf("position %d, revision %d, %v", position, c.Revision, err)
	}
	want := map[string]ledger.Session{}
	for n := range position {
		x := feed(n)
		want[x.ID] = x
	}
	got := sessions(t, s, "1")
	for _, x := range got {
		if w := want[x.ID]; x.Revision != w.Revision || x.Start != w.Start || len(x.Intervals[ledger.Connected]) != 2 {
			t.Fatalf("%+v, want %+v", x, w)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d sessions up to %d, want %d", len(got), position, len(want))
	}
}

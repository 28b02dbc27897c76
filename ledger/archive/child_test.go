package archive

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/rollcall-io/rollcall/internal/lab"
)

const childPlace = "ROLLCALL_TEST_ARCHIVE_PLACE"

// A process that is killed at any moment, files synced and all, leaves an archive that
// another one goes on with.
func TestKilledAsAProcess(t *testing.T) {
	h := random(t, 12, 400)
	place := os.Getenv(childPlace)
	child := place != ""
	if !child {
		place = filepath.Join(t.TempDir(), "archive")
	}
	archiveOn := func(committed func(last bool)) {
		w, err := NewWriter(context.Background(), h.names, 0, Config{Dir: place, Device: pseudonym, Buffer: 100})
		if err != nil {
			t.Fatal(err)
		}
		m, err := w.load()
		if err == nil {
			err = w.tidy(m)
		}
		rest := h.behind(w.Position())
		for i := 0; err == nil && i < len(rest); i++ {
			if err = w.Add(rest[i]); err != nil || i%8 != 7 && i != len(rest)-1 {
				continue
			}
			if err = w.Commit(t.Context(), rest[i].Time.UnixMilli()); err == nil {
				committed(i == len(rest)-1)
				err = mergeAll(t.Context(), w.place)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if child {
		archiveOn(func(bool) { fmt.Println("committed") })
		select {}
	}
	rnd := rand.New(rand.NewPCG(9, 9))
	for range 8 {
		lab.KillChild(t, "TestKilledAsAProcess", childPlace, place, 1+rnd.IntN(5))
	}
	finished := false
	archiveOn(func(last bool) { finished = last })
	if !finished {
		t.Error("the child had done everything before it was killed")
	}
	events, rejected := h.told()
	same(t, place, events, rejected)
	onlyWhatCounts(t, place)
}

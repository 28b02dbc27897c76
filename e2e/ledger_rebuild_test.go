package e2e_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall/e2e"
	"github.com/rollcall-io/rollcall/edge"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/archive"
	"github.com/rollcall-io/rollcall/ledger/interval"
	"github.com/rollcall-io/rollcall/ledger/live"
	"github.com/rollcall-io/rollcall/ledger/raw"
	rebuilder "github.com/rollcall-io/rollcall/ledger/rebuild"
	"github.com/rollcall-io/rollcall/ledger/store"
)

// plainly is the pseudonym of those who hide nothing.
func plainly(device string) string { return device }

// rebuildAll rebuilds the whole time of a fabric into a new store.
func rebuildAll(t *testing.T, source rebuilder.Source) (store.Store, error) {
	t.Helper()
	s, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	_, err = rebuilder.Run(t.Context(), rebuildOf(s, source))
	return s, err
}

// rebuildOf stores its place whenever it can. Virtual time stands still while it works, so
// it has a clock of its own.
func rebuildOf(s rebuilder.Store, source rebuilder.Source) rebuilder.Config {
	var ticks atomic.Int64
	begun := time.Now()
	return rebuilder.Config{
		Store: s, Source: source, Definition: onlineTime, Bounds: interval.Interval{From: 0, To: begun.Add(time.Hour).UnixMilli()},
		Every: 1, Now: func() time.Time { return begun.Add(time.Duration(ticks.Add(1))) },
	}
}

// rebuildKilled does so in processes that die before and after their transactions.
func rebuildKilled(t *testing.T, source rebuilder.Source, least int64) *books {
	t.Helper()
	s := openLedger(t)
	var transactions, deaths atomic.Int64
	die := func() error {
		if transactions.Add(1)%3 == 0 && deaths.Load() < 20 {
			deaths.Add(1)
			return errKilled
		}
		return nil
	}
	for {
		_, err := rebuilder.Run(t.Context(), rebuildOf(&e2e.Database{Store: s, Before: die, After: die}, source))
		if err == nil {
			break
		}
		if !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
	}
	if t.Logf("killed %d times", deaths.Load()); deaths.Load() < least {
		t.Errorf("killed only %d times", deaths.Load())
	}
	return stored(t, s, onlineTime.Version)
}

// rebuildStored rebuilds the whole time of a fabric into a store, and gives the books that
// the store has then.
func rebuildStored(t *testing.T, source rebuilder.Source) *books {
	t.Helper()
	s, err := rebuildAll(t, source)
	if err != nil {
		t.Fatal(err)
	}
	return stored(t, s, onlineTime.Version)
}

// archiveAll archives what the streams hold.
func archiveAll(t *testing.T, f *e2e.Fabric) *archive.Archive {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "archive")
	for shard := range f.Names.Shards() {
		w, err := archive.NewWriter(t.Context(), f.Names.Names, shard, archive.Config{Dir: dir, Device: plainly})
		if err != nil {
			t.Fatal(err)
		}
		err = raw.Follow(t.Context(), f.JS, f.Names.Names, shard, raw.Position{}, func(s raw.Step) error {
			for _, m := range s.Msgs {
				if err := w.Add(m); err != nil {
					return err
				}
			}
			if err := w.Commit(t.Context(), s.Watermark); err != nil || !s.Ended {
				return err
			}
			return raw.ErrStop
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	a, err := archive.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestLedgerRebuilt: what is rebuilt into a store is what followed the streams live, from
// the streams and from the archive, with an edge that was cut off so that some of it
// comes late, some too late, and sessions that go on at another edge.
func TestLedgerRebuilt(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		f := e2e.New(t, e2e.Options{Shards: 2})
		f.StartKeeper()
		kept := openLedger(t)
		f.StartLedger(&e2e.Database{Store: kept}, live.Config{Definition: onlineTime})
		cut, other := f.StartEdge("g1"), f.StartEdge("g2")
		var devices []*e2e.Device
		for i := range 12 {
			devices = append(devices, f.Connect(cut, fmt.Sprintf("u%02d", i), "phone"))
		}
		own := edge.Session{ID: "tab-7", Client: edge.Client{Type: "web", Version: "3", Region: "eu"}}
		if _, err := cut.ConnectSession("ada", "laptop", edge.State{Foreground: true, Active: true}, own); err != nil {
			t.Fatal(err)
		}
		f.At(20 * time.Minute)
		cut.Link.Cut()
		f.At(22 * time.Minute)
		if _, err := other.ConnectSession("ada", "laptop", edge.State{Foreground: true}, own); err != nil {
			t.Fatal(err)
		}
		for _, d := range devices[:3] {
			d.Close()
		}
		f.At(100 * time.Minute) // longer than the lateness
		cut.Link.Heal()
		f.At(130 * time.Minute)
		settle(f)
		followed := stored(t, kept, onlineTime.Version)
		if len(followed.rejected) == 0 || len(followed.rows) < 13 {
			t.Errorf("%d rows, %d refused: the scene shows too little", len(followed.rows), len(followed.rejected))
		}
		streams, archived := rebuilder.Stream(f.JS, f.Names.Names, plainly), rebuilder.Archive(archiveAll(t, f))
		rebuildStored(t, streams).mustEqual(followed)
		rebuildStored(t, archived).mustEqual(followed)

		// What was trimmed cannot be rebuilt from the streams, but from the archive.
		log, err := f.JS.Stream(t.Context(), f.Names.LogStream(0))
		if err != nil {
			t.Fatal(err)
		}
		if err := log.Purge(t.Context(), jetstream.WithPurgeSequence(log.CachedInfo().State.LastSeq/2)); err != nil {
			t.Fatal(err)
		}
		if _, err := rebuildAll(t, streams); !errors.Is(err, rebuilder.ErrGone) {
			t.Errorf("half of the log is gone: %v", err)
		}
		rebuildStored(t, archived).mustEqual(followed)
	})
}

// TestLedgerRebuiltAtRandom: whatever a host tells an edge, rebuilt is as live, killed or
// not.
func TestLedgerRebuiltAtRandom(t *testing.T) {
	seeds := uint64(2)
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			lab.Bubble(t, func(t *testing.T) {
				f := e2e.New(t, e2e.Options{Shards: 2})
				f.StartKeeper()
				kept := openLedger(t)
				f.StartLedger(&e2e.Database{Store: kept}, live.Config{Definition: onlineTime})
				h := host{f: f, e: f.StartEdge("g1"), random: rand.New(rand.NewPCG(seed, 11)), told: make(map[string][]ledger.Event)}
				for range 300 {
					f.At(f.Now() + time.Duration(h.random.IntN(25_000))*time.Millisecond)
					h.step(t)
				}
				settle(f)
				followed := stored(t, kept, onlineTime.Version)
				streams, archived := rebuilder.Stream(f.JS, f.Names.Names, plainly), rebuilder.Archive(archiveAll(t, f))
				rebuildStored(t, streams).mustEqual(followed)
				rebuildStored(t, archived).mustEqual(followed)
				rebuildKilled(t, streams, 5).mustEqual(followed)
				// Of an archive there is a place for each hour, so here are few.
				rebuildKilled(t, archived, 1).mustEqual(followed)
			})
		})
	}
}

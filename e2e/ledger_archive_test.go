package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall/e2e"
	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/archive"
	"github.com/rollcall-io/rollcall/ledger/raw"
	"github.com/rollcall-io/rollcall/subjects/identity"
)

// A witness sees everything that is stored, while it is stored.
type witness struct {
	f        *e2e.Fabric
	mu       sync.Mutex
	messages map[int][]raw.Message // by shard
}

func watch(t *testing.T, f *e2e.Fabric) *witness {
	w := &witness{f: f, messages: make(map[int][]raw.Message)}
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	for shard := range f.Names.Shards() {
		watching.Go(func() {
			err := raw.Follow(ctx, f.JS, f.Names.Names, shard, raw.Position{}, func(s raw.Step) error {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.messages[shard] = append(w.messages[shard], s.Msgs...)
				return nil
			})
			if ctx.Err() == nil {
				t.Errorf("the witness of shard %d: %v", shard, err)
			}
		})
	}
	t.Cleanup(func() { cancel(); watching.Wait() })
	return w
}

// told is what everything that was stored tells.
func (w *witness) told() (events []string, refused int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, messages := range w.messages {
		k := new(kept)
		k.decoder = raw.Keep(w.f.Names.Names, 6*time.Hour, k)
		for _, m := range messages {
			k.decoder.Add(m)
		}
		events, refused = append(events, k.events...), refused+k.refused
	}
	slices.Sort(events)
	return events, refused
}

// kept are the events of a shard as text.
type kept struct {
	decoder *raw.Decoder
	events  []string
	refused int
}

func (k *kept) Event(e ledger.Event)                    { k.events = append(k.events, line(e, k.decoder.Origin().Stored)) }
func (k *kept) Beat(c *raw.Conn, at int64, flags uint8) { k.Event(c.Beat(at, flags)) }
func (k *kept) Reject(ledger.Rejected)                  { k.refused++ }

func line(e ledger.Event, stored int64) string {
	text, _ := json.Marshal(e)
	return fmt.Sprintf("%d %s", stored, text)
}

// archivedIn is everything in an archive.
func archivedIn(t *testing.T, dir string) (events []string, refused int) {
	t.Helper()
	a, err := archive.Open(dir)
	if err == nil {
		err = a.Read(t.Context(), always, func(e archive.Event) error {
			events = append(events, line(e.Event, e.Stored))
			return nil
		})
	}
	if err == nil {
		err = a.Rejected(t.Context(), always, func(ledger.Rejected) error { refused++; return nil })
	}
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(events)
	return events, refused
}

// startArchiver runs one until stop is called, or the test ends.
func startArchiver(t *testing.T, f *e2e.Fabric, o archive.Options) (stop func()) {
	t.Helper()
	o.Every, o.Device = time.Minute, plainly
	o.Retention = func(ctx context.Context) (time.Duration, error) {
		now, err := fabric.Lookup(ctx, f.JS, f.Names.Prefix())
		return now.Archive, err
	}
	a, err := archive.New(f.JS, f.Names.Names, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("the archiver: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// archiveFor has a fabric keep what it stores until it is archived.
func archiveFor(t *testing.T, f *e2e.Fabric, on bool, retention time.Duration) {
	t.Helper()
	if _, err := fabric.Ensure(t.Context(), f.JS, fabric.Config{Archive: &on, Retention: retention}); err != nil {
		t.Fatal(err)
	}
}

// oldest is how old the first message is that each stream holds, 0 if it holds none.
func oldest(t *testing.T, f *e2e.Fabric) (ages []time.Duration) {
	t.Helper()
	for shard := range f.Names.Shards() {
		for _, name := range []string{f.Names.LogStream(shard), f.Names.BeatsStream(shard)} {
			stream, err := f.JS.Stream(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			age := time.Duration(0)
			if s := stream.CachedInfo().State; s.Msgs > 0 {
				age = time.Since(s.FirstTime)
			}
			ages = append(ages, age)
		}
	}
	return ages
}

// TestNothingExpiresBeforeItIsArchived: while somebody archives, streams hold what is
// younger than the retention, and little more; while nobody does, they hold everything,
// however old. In the end the archive has all that was ever stored, once.
func TestNothingExpiresBeforeItIsArchived(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		const retention = 20 * time.Minute
		f := e2e.New(t, e2e.Options{Shards: 2})
		archiveFor(t, f, true, retention)
		f.StartKeeper()
		w, dir := watch(t, f), filepath.Join(t.TempDir(), "archive")
		stop := startArchiver(t, f, archive.Options{Config: archive.Config{Dir: dir, Buffer: 50}})
		one, other := f.StartEdge("g1"), f.StartEdge("g2")
		for i := range 10 {
			f.Connect([]*e2e.Edge{one, other}[i%2], fmt.Sprintf("u%d", i), "phone")
		}
		f.Publish(f.Names.Log(0, "g3"), []byte("garbage"))
		for at := 45 * time.Minute; at <= 70*time.Minute; at += 5 * time.Minute {
			f.At(at)
			for _, age := range oldest(t, f) {
				if age < retention-time.Minute || age > retention+3*time.Minute {
					t.Errorf("at %v a stream goes back %v", at, age)
				}
			}
		}
		one.Link.Cut()
		stop()
		f.At(150 * time.Minute)
		for _, age := range oldest(t, f) {
			if age < 80*time.Minute {
				t.Errorf("while nobody archives a stream goes back %v only", age)
			}
		}
		one.Link.Heal() // and tells what happened meanwhile
		stop = startArchiver(t, f, archive.Options{Config: archive.Config{Dir: dir}})
		f.At(160 * time.Minute)
		for _, age := range oldest(t, f) {
			if age > retention+3*time.Minute {
				t.Errorf("when somebody archives again a stream goes back %v", age)
			}
		}
		f.Server.Stop()
		f.At(161 * time.Minute)
		f.Server.Start()
		f.At(200 * time.Minute)
		archiveFor(t, f, false, 0)
		stop()

		want, unread := w.told()
		got, refused := archivedIn(t, dir)
		if refused != unread || unread == 0 {
			t.Errorf("%d messages that cannot be read, want %d", refused, unread)
		}
		if !slices.Equal(got, want) || len(want) < 1000 {
			t.Errorf("%d events in the archive, %d in the streams", len(got), len(want))
		}
	})
}

// TestArchivedBehindALoss: a stream that is lost and made again is read from its new
// beginning, and what it told before stays in the archive.
func TestArchivedBehindALoss(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		f := e2e.New(t, e2e.Options{Shards: 1})
		f.StartKeeper()
		dir := filepath.Join(t.TempDir(), "archive")
		stop := startArchiver(t, f, archive.Options{Config: archive.Config{Dir: dir}})
		g := f.StartEdge("g1")
		f.Connect(g, "ann", "phone")
		f.At(10 * time.Minute)
		before, _ := archivedIn(t, dir)
		for _, name := range []string{f.Names.LogStream(0), f.Names.BeatsStream(0)} {
			if err := f.JS.DeleteStream(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := fabric.Ensure(t.Context(), f.JS, fabric.Config{}); err != nil {
			t.Fatal(err)
		}
		f.At(15 * time.Minute)
		f.Connect(g, "bob", "phone")
		f.At(30 * time.Minute)
		stop()
		after, _ := archivedIn(t, dir)
		for _, e := range before {
			if !slices.Contains(after, e) {
				t.Errorf("gone: %s", e)
			}
		}
		beats := make(map[string]int)
		a, err := archive.Open(dir)
		if err == nil {
			err = a.Read(t.Context(), always, func(e archive.Event) error { beats[e.User]++; return nil })
		}
		if err != nil || beats["ann"] < 50 || beats["bob"] < 25 {
			t.Errorf("%v, %v", beats, err)
		}
		if len(slices.Compact(slices.Clone(after))) != len(after) {
			t.Error("an event is there twice")
		}
	})
}

// TestForgottenWhileArchived: a user who is forgotten while the archiver has events of
// that user in memory is in no file afterwards, and nothing else is missing.
func TestForgottenWhileArchived(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		f := e2e.New(t, e2e.Options{Shards: 1})
		f.StartKeeper()
		w, dir := watch(t, f), filepath.Join(t.TempDir(), "archive")
		var forgotten atomic.Bool
		stop := startArchiver(t, f, archive.Options{Config: archive.Config{Dir: dir, Forgotten: func(_ context.Context, user string) (bool, error) {
			return forgotten.Load() && user == "ann", nil
		}}})
		g := f.StartEdge("g1")
		f.Connect(g, "ann", "phone")
		f.Connect(g, "bob", "phone")
		f.At(10*time.Minute + 30*time.Second)
		forgotten.Store(true)
		a, err := archive.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := a.Forget(t.Context(), "ann"); err != nil || n < 10 {
			t.Errorf("forgot %d events, %v", n, err)
		}
		f.At(20 * time.Minute)
		stop()
		got, _ := archivedIn(t, dir)
		var want []string
		all, _ := w.told()
		for _, e := range all {
			if !strings.Contains(e, `"User":"ann"`) {
				want = append(want, e)
			}
		}
		if !slices.Equal(got, want) || len(want) == len(all) {
			t.Errorf("%d events of %d that there were, want %d", len(got), len(all), len(want))
		}
	})
}

// TestALedgerMayArchive: with the rights of its role alone.
func TestALedgerMayArchive(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		g := newGuarded(t)
		operator := stores(t, g.connect(identity.Operator, "o").nc)
		on := true
		if _, err := fabric.Ensure(t.Context(), operator, fabric.Config{Archive: &on, Retention: time.Minute}); err != nil {
			t.Fatal(err)
		}
		ledger := g.connect(identity.Ledger, "archive")
		js := stores(t, ledger.nc)
		a, err := archive.New(js, g.names, archive.Options{
			Config: archive.Config{Dir: filepath.Join(t.TempDir(), "archive"), Device: plainly, Every: time.Minute},
			Retention: func(ctx context.Context) (time.Duration, error) {
				found, err := fabric.Lookup(ctx, js, g.names.Prefix())
				return found.Archive, err
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		g.run(ledger, a.Run)
		for range 10 {
			for shard := range g.names.Shards() {
				for _, subject := range []string{g.names.Log(shard, "g1"), g.names.Beats(shard, "g1")} {
					if _, err := operator.Publish(t.Context(), subject, []byte("garbage")); err != nil {
						t.Fatal(err)
					}
				}
			}
			time.Sleep(time.Minute)
		}
		for shard := range g.names.Shards() {
			for _, name := range []string{g.names.LogStream(shard), g.names.BeatsStream(shard)} {
				stream, err := operator.Stream(t.Context(), name)
				if err != nil || stream.CachedInfo().State.FirstSeq < 5 {
					t.Errorf("%s begins at %d, %v", name, stream.CachedInfo().State.FirstSeq, err)
				}
			}
		}
		if s := a.Stats(); s.Rejected < 40 {
			t.Errorf("%+v", s)
		}
	})
}

func stores(t *testing.T, nc *nats.Conn) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

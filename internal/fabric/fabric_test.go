package fabric_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/subjects"
)

// onServer runs f against an empty server.
func onServer(t *testing.T, f func(t *testing.T, js jetstream.JetStream)) {
	t.Helper()
	lab.Bubble(t, func(t *testing.T) {
		js, err := jetstream.New(lab.Connect(t, lab.NewServer(t).NewLink()))
		if err != nil {
			t.Fatal(err)
		}
		f(t, js)
	})
}

func ensure(t *testing.T, js jetstream.JetStream, cfg fabric.Config) fabric.Fabric {
	t.Helper()
	f, err := fabric.Ensure(t.Context(), js, cfg)
	if err != nil {
		t.Fatal(err)
	}
	found, err := fabric.Lookup(t.Context(), js, f.Prefix())
	if err != nil || found != f {
		t.Fatalf("made %+v, found %+v, %v", f, found, err)
	}
	return f
}

func streams(t *testing.T, js jetstream.JetStream) []string {
	t.Helper()
	var all []string
	names := js.StreamNames(t.Context())
	for name := range names.Name() {
		all = append(all, name)
	}
	if err := names.Err(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return all
}

func logConfig(t *testing.T, js jetstream.JetStream, f fabric.Fabric) jetstream.StreamConfig {
	t.Helper()
	stream, err := js.Stream(t.Context(), f.LogStream(0))
	if err != nil {
		t.Fatal(err)
	}
	return stream.CachedInfo().Config
}

func TestEnsureMakesEverythingOnce(t *testing.T) {
	onServer(t, func(t *testing.T, js jetstream.JetStream) {
		f := ensure(t, js, fabric.Config{Shards: 2})
		want := []string{
			"KV_presence_cohort_fanout", "KV_presence_cohort_keeper", "KV_presence_cohort_ledger", "KV_presence_cohort_workers",
			"KV_presence_interest_0", "KV_presence_interest_1", "KV_presence_leases_0", "KV_presence_leases_1",
			"KV_presence_views_0", "KV_presence_views_1", "PRESENCE_BEATS_0", "PRESENCE_BEATS_1", "PRESENCE_LOG_0", "PRESENCE_LOG_1",
		}
		if got := streams(t, js); !slices.Equal(got, want) {
			t.Errorf("made %v", got)
		}
		if _, err := js.Publish(t.Context(), f.Log(1, "edge"), []byte("kept")); err != nil {
			t.Fatal(err)
		}
		if again := ensure(t, js, fabric.Config{Shards: 2}); again != f {
			t.Errorf("%+v became %+v", f, again)
		}
		stream, err := js.Stream(t.Context(), f.LogStream(1))
		if err != nil || stream.CachedInfo().State.Msgs != 1 || !slices.Equal(streams(t, js), want) {
			t.Errorf("the second time: %v, %v", streams(t, js), err)
		}
	})
}

func TestDefaults(t *testing.T) {
	onServer(t, func(t *testing.T, js jetstream.JetStream) {
		f := ensure(t, js, fabric.Config{})
		if f.Prefix() != subjects.DefaultPrefix || f.Shards() != subjects.DefaultShards || f.Params != rollcall.Default() {
			t.Errorf("%+v", f)
		}
		if c := logConfig(t, js, f); c.MaxAge != 48*time.Hour || c.AllowDirect || c.Storage != jetstream.FileStorage {
			t.Errorf("%+v", c)
		}
	})
}

func TestShardsAreFixed(t *testing.T) {
	onServer(t, func(t *testing.T, js jetstream.JetStream) {
		ensure(t, js, fabric.Config{Shards: 2})
		before := streams(t, js)
		if _, err := fabric.Ensure(t.Context(), js, fabric.Config{Shards: 3}); !errors.Is(err, fabric.ErrShards) {
			t.Errorf("another number: %v", err)
		}
		if after := streams(t, js); !slices.Equal(before, after) {
			t.Errorf("a refused change left %v", after)
		}
		if f := ensure(t, js, fabric.Config{}); f.Shards() != 2 {
			t.Errorf("any number became %d", f.Shards())
		}
	})
}

func TestParamsRoundTripAndUpdate(t *testing.T) {
	onServer(t, func(t *testing.T, js jetstream.JetStream) {
		odd := rollcall.Mobile()
		odd.Heartbeat, odd.Jitter = 61*time.Second+250*time.Millisecond, 0.07
		for _, params := range []rollcall.Params{rollcall.Tight(), rollcall.Worker(), odd} {
			if f := ensure(t, js, fabric.Config{Shards: 1, Params: params}); f.Params != params {
				t.Errorf("%+v became %+v", params, f.Params)
			}
		}
		if f := ensure(t, js, fabric.Config{}); f.Params != odd {
			t.Errorf("not asked for, %+v became %+v", odd, f.Params)
		}
	})
}

// A process that knows nothing of them must not undo an operator's choices.
func TestWhatIsNotAskedForStays(t *testing.T) {
	onServer(t, func(t *testing.T, js jetstream.JetStream) {
		f := ensure(t, js, fabric.Config{Shards: 1, Retention: 7 * 24 * time.Hour})
		ensure(t, js, fabric.Config{})
		if c := logConfig(t, js, f); c.MaxAge != 7*24*time.Hour || c.Replicas != 1 {
			t.Errorf("retention %v, replicas %d", c.MaxAge, c.Replicas)
		}
	})
}

// Turning archiving on and off is repeatable, and keeps the retention, which is the
// archiver's in between. So does a fabric that has lost its first log stream.
func TestArchive(t *testing.T) {
	onServer(t, func(t *testing.T, js jetstream.JetStream) {
		on, off, week := true, false, 7*24*time.Hour
		check := func(cfg fabric.Config, archive, age time.Duration) {
			t.Helper()
			f := ensure(t, js, cfg)
			if f.Archive != archive {
				t.Errorf("%+v: archived for %v, want %v", cfg, f.Archive, archive)
			}
			for shard := range f.Shards() {
				for _, name := range []string{f.LogStream(shard), f.BeatsStream(shard)} {
					if stream, err := js.Stream(t.Context(), name); err != nil || stream.CachedInfo().Config.MaxAge != age {
						t.Errorf("%+v: %s expires after %v, want %v; %v", cfg, name, stream.CachedInfo().Config.MaxAge, age, err)
					}
				}
			}
		}
		check(fabric.Config{Shards: 2, Retention: week}, 0, week)
		for range 2 {
			check(fabric.Config{Archive: &on}, week, 0)
			check(fabric.Config{}, week, 0)
		}
		check(fabric.Config{Retention: time.Hour}, time.Hour, 0)
		if err := js.DeleteStream(t.Context(), "PRESENCE_LOG_0"); err != nil {
			t.Fatal(err)
		}
		check(fabric.Config{}, time.Hour, 0)
		for range 2 {
			check(fabric.Config{Archive: &off}, 0, time.Hour)
			check(fabric.Config{}, 0, time.Hour)
		}
	})
}

func TestTimingThatMustFlapIsRefused(t *testing.T) {
	onServer(t, func(t *testing.T, js jetstream.JetStream) {
		flapping := rollcall.Default()
		flapping.LeaseTTL = flapping.Renewal
		if _, err := fabric.Ensure(t.Context(), js, fabric.Config{Params: flapping}); !errors.Is(err, rollcall.ErrParams) {
			t.Errorf("refused with %v", err)
		}
		if made := streams(t, js); len(made) > 0 {
			t.Errorf("made %v all the same", made)
		}
		if f := ensure(t, js, fabric.Config{Shards: 1, Params: flapping, Unchecked: true}); f.Params != flapping {
			t.Errorf("unchecked: %+v", f.Params)
		}
	})
}

func TestLookupFindsOnlyItsOwnPrefix(t *testing.T) {
	onServer(t, func(t *testing.T, js jetstream.JetStream) {
		if _, err := fabric.Lookup(t.Context(), js, "presence"); !errors.Is(err, rollcall.ErrNoFabric) {
			t.Errorf("on an empty server: %v", err)
		}
		ensure(t, js, fabric.Config{Prefix: "other", Shards: 1})
		if _, err := fabric.Lookup(t.Context(), js, "presence"); !errors.Is(err, rollcall.ErrNoFabric) {
			t.Errorf("beside another fabric: %v", err)
		}
		for _, call := range []func() error{
			func() error { _, err := fabric.Lookup(t.Context(), js, "No.Prefix"); return err },
			func() error { _, err := fabric.Ensure(t.Context(), js, fabric.Config{Prefix: "No.Prefix"}); return err },
		} {
			if err := call(); !errors.Is(err, subjects.ErrNames) {
				t.Errorf("impossible prefix: %v", err)
			}
		}
	})
}

func TestForeignStreamIsLeftAlone(t *testing.T) {
	for name, metadata := range map[string]map[string]string{
		"no metadata": nil, "no number": {"rollcall.shards": "many"}, "no shards": {"rollcall.shards": "0"},
		"no retention": {"rollcall.shards": "1", "rollcall.params": "{}", "rollcall.archive": "long"},
		"no timing":    {"rollcall.shards": "1"}, "broken timing": {"rollcall.shards": "1", "rollcall.params": "{"},
	} {
		t.Run(name, func(t *testing.T) {
			onServer(t, func(t *testing.T, js jetstream.JetStream) { testForeign(t, js, metadata) })
		})
	}
}

func testForeign(t *testing.T, js jetstream.JetStream, metadata map[string]string) {
	foreign := jetstream.StreamConfig{Name: "PRESENCE_LOG_0", Subjects: []string{"orders"}, Metadata: metadata}
	if _, err := js.CreateStream(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	_, looked := fabric.Lookup(t.Context(), js, "presence")
	_, ensured := fabric.Ensure(t.Context(), js, fabric.Config{Shards: 1})
	for _, err := range []error{looked, ensured} {
		if err == nil || errors.Is(err, rollcall.ErrNoFabric) || !strings.Contains(err.Error(), "PRESENCE_LOG_0") {
			t.Errorf("said %v", err)
		}
	}
	stream, err := js.Stream(t.Context(), "PRESENCE_LOG_0")
	if err != nil || !slices.Equal(stream.CachedInfo().Config.Subjects, foreign.Subjects) {
		t.Errorf("the foreign stream was changed: %v", err)
	}
	if made := streams(t, js); len(made) != 1 {
		t.Errorf("made %v", made)
	}
}

// The first log stream is lost with everything in it: the fabric keeps its shards and
// its timing.
func TestALostLogStreamIsMadeAgainAsItWas(t *testing.T) {
	onServer(t, func(t *testing.T, js jetstream.JetStream) {
		for _, shards := range []int{1, 6} {
			prefix := fmt.Sprintf("fabric%d", shards)
			made := ensure(t, js, fabric.Config{Prefix: prefix, Shards: shards, Params: rollcall.Worker()})
			if err := js.DeleteStream(t.Context(), made.LogStream(0)); err != nil {
				t.Fatal(err)
			}
			if again := ensure(t, js, fabric.Config{Prefix: prefix}); again != made {
				t.Errorf("made %+v, and again %+v", made, again)
			}
			if _, err := fabric.Ensure(t.Context(), js, fabric.Config{Prefix: prefix, Shards: shards + 1}); !errors.Is(err, fabric.ErrShards) {
				t.Errorf("another number of shards: %v", err)
			}
		}
	})
}

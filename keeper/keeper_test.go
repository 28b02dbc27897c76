package keeper

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/keeper/machine"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// granted grants one shard at a generation of the test's choice.
type granted struct{ rollcall.Grant }

func (g granted) Own(ctx context.Context, run func(context.Context, rollcall.Grant) error) error {
	return run(ctx, g.Grant)
}

// world is a server with a fabric of one shard.
type world struct {
	t      *testing.T
	server *lab.Server
	nc     *nats.Conn
	js     jetstream.JetStream
	fabric fabric.Fabric
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, server: lab.NewServer(t)}
	w.nc = lab.Connect(t, w.server.NewLink())
	var err error
	if w.js, err = jetstream.New(w.nc); err != nil {
		t.Fatal(err)
	}
	if w.fabric, err = fabric.Ensure(t.Context(), w.js, fabric.Config{Shards: 1}); err != nil {
		t.Fatal(err)
	}
	return w
}

// run runs a keeper at a generation; the result is why it ended.
func (w *world) run(ctx context.Context, generation uint64) (*Keeper, <-chan error) {
	k, err := New(w.nc, Config{Ownership: granted{rollcall.Grant{Generation: generation}}})
	if err != nil {
		w.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- k.Run(ctx) }()
	return k, ended
}

func TestAnOlderGenerationIsRefused(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		w := newWorld(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		k, newer := w.run(ctx, 7)
		time.Sleep(10 * time.Second)
		if !k.Ready() {
			t.Error("the keeper is not ready after 10 s")
		}
		_, older := w.run(ctx, 6)
		if err := <-older; !errors.Is(err, rollcall.ErrNotOwner) {
			t.Errorf("generation 6 after 7: %v", err)
		}
		cancel()
		if err := <-newer; !errors.Is(err, context.Canceled) {
			t.Errorf("generation 7: %v", err)
		}
	})
}

func TestATakeoverFencesTheOlderKeeper(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		w := newWorld(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		_, first := w.run(ctx, 1)
		time.Sleep(10 * time.Second)
		k, second := w.run(ctx, 2)
		if err := <-first; !errors.Is(err, rollcall.ErrNotOwner) {
			t.Errorf("the older keeper ended with %v", err)
		}
		if !k.Ready() {
			t.Error("the newer keeper is not ready")
		}
		cancel()
		<-second
	})
}

func TestWithoutAFabric(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		nc := lab.Connect(t, lab.NewServer(t).NewLink())
		k, err := New(nc, Config{})
		if err != nil {
			t.Fatal(err)
		}
		if err := k.Run(t.Context()); !errors.Is(err, rollcall.ErrNoFabric) {
			t.Errorf("%v, want %v", err, rollcall.ErrNoFabric)
		}
	})
}

func TestABadPrefixIsRefused(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		nc := lab.Connect(t, lab.NewServer(t).NewLink())
		if _, err := New(nc, Config{Prefix: "No.Prefix"}); !errors.Is(err, subjects.ErrNames) {
			t.Errorf("%v, want %v", err, subjects.ErrNames)
		}
	})
}

func TestPulsesKeepUpWithAShortOutage(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		w := newWorld(t)
		params := rollcall.Worker()
		params.Sweep, params.Outage = 200*time.Millisecond, 500*time.Millisecond
		if _, err := fabric.Ensure(t.Context(), w.js, fabric.Config{Params: params}); err != nil {
			t.Fatal(err)
		}
		var last time.Time
		pulses, longest := 0, time.Duration(0)
		_, err := w.nc.Subscribe(w.fabric.Pulse(0), func(*nats.Msg) {
			if pulses++; !last.IsZero() {
				longest = max(longest, time.Since(last))
			}
			last = time.Now()
		})
		if err != nil {
			t.Fatal(err)
		}
		w.run(t.Context(), 1)
		time.Sleep(time.Minute)
		synctest.Wait()
		if pulses == 0 || longest >= params.Outage {
			t.Errorf("%d pulses, up to %s apart, with an outage of %s", pulses, longest, params.Outage)
		}
	})
}

func TestUnreadableMessagesAndRecordsAreSkipped(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		w := newWorld(t)
		kv, err := w.js.KeyValue(t.Context(), w.fabric.LeasesBucket(0))
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{subjects.KeyUser("ann"), subjects.KeyEdge("g1"), subjects.KeyCheckpoint, "user.=?", "else"} {
			if _, err := kv.Put(t.Context(), key, []byte{0xff}); err != nil && key != "user.=?" {
				t.Fatal(err)
			}
		}
		if _, err := w.js.Publish(t.Context(), w.fabric.Log(0, "g1"), []byte{0xff}); err != nil {
			t.Fatal(err)
		}
		k, ended := w.run(t.Context(), 1)
		time.Sleep(10 * time.Second)
		select {
		case err := <-ended:
			t.Fatalf("the keeper ended: %v", err)
		default:
		}
		if s := k.Stats(); s.Malformed != 1 || s.Users != 0 || s.Ticks == 0 {
			t.Errorf("%+v", s)
		}
	})
}

// A user who is forgotten leaves nothing behind for good: user ids come and go for ever.
func TestPurgedRecordsLeaveNoTrace(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		w := newWorld(t)
		writer := &writer{js: w.js, names: w.fabric.Names, params: w.fabric.Params, refusals: new(fabric.Refusals)}
		if err := writer.takeOver(t.Context(), rollcall.Grant{Generation: 1}, "test"); err != nil {
			t.Fatal(err)
		}
		kept := func() uint64 {
			stream, err := w.js.Stream(t.Context(), subjects.KVStream(w.fabric.LeasesBucket(0)))
			if err != nil {
				t.Fatal(err)
			}
			return stream.CachedInfo().State.Msgs
		}
		before := kept()
		for _, record := range []*wire.UserRecord{{Sequence: 1}, nil} {
			if err := writer.write(t.Context(), machine.Changes{Users: []machine.User{{ID: "ann", Record: record}}}); err != nil {
				t.Fatal(err)
			}
			if n := kept(); n != before+1 {
				t.Errorf("%d messages, want %d", n, before+1)
			}
		}
		time.Sleep(markerTTL + time.Minute)
		if n := kept(); n != before {
			t.Errorf("%d messages are left, want %d", n, before)
		}
	})
}

func TestMetricsShowEveryStatistic(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		w := newWorld(t)
		registry := prometheus.NewPedanticRegistry()
		k, err := New(w.nc, Config{Registerer: registry})
		if err != nil {
			t.Fatal(err)
		}
		k.past = machine.Stats{RejectedStale: 3}
		k.latency.WithLabelValues(rollcall.WayClose.String()).Observe(20)
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := make(map[string]float64)
		for _, f := range families {
			m := f.Metric[0]
			got[f.GetName()] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
		for name, want := range map[string]float64{
			"rollcall_keeper_rejected_stale_total": 3, "rollcall_keeper_online": 0, "rollcall_keeper_detection_latency_seconds": 1,
		} {
			if value, there := got[name]; !there || value != want {
				t.Errorf("%s = %v (%v), want %v; there are %v", name, value, there, want, got)
			}
		}
	})
}

// The records can be ahead of where the log is being read again, and are not to be
// overtaken by sequences that are given out a second time.
func TestALossInAReplayGoesOnAboveTheRecords(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		w := newWorld(t)
		for range 10 {
			if _, err := w.js.Publish(t.Context(), w.fabric.Log(0, "g1"), nil); err != nil {
				t.Fatal(err)
			}
		}
		k, err := New(w.nc, Config{})
		if err != nil {
			t.Fatal(err)
		}
		s := newShard(k, w.fabric, rollcall.Grant{Generation: 1})
		records := machine.Records{
			Checkpoint: &wire.CheckpointRecord{Sequence: 2},
			Users:      map[string]*wire.UserRecord{"ann": {Sequence: 10}},
		}
		if err := s.load(t.Context(), records); err != nil {
			t.Fatal(err)
		}
		s.rollBackLocked(6)
		if next := s.bias.grow(s.from.Start); s.from.Start != 7 || next <= 10 {
			t.Errorf("message %d is taken for %d, and the records know 10", s.from.Start, next)
		}
	})
}

func TestBiasKeepsSequencesGrowing(t *testing.T) {
	var b bias
	if b.grow(10) != 10 || b.shrink(10) != 10 {
		t.Error("no loss, no bias")
	}
	b = b.lifted(60, 100) // the log reached 100 and now ends at 60
	if got := b.grow(61); got != 101 {
		t.Errorf("the first sequence after the loss is %d, want 101", got)
	}
	if got := b.shrink(101); got != 61 {
		t.Errorf("back in the log it is %d, want 61", got)
	}
	if again := b.lifted(70, 105); again.grow(71) != 111 {
		t.Errorf("nothing was lost beyond 70, yet 71 became %d", again.grow(71))
	}
}

func FuzzRecords(f *testing.F) {
	f.Add("user.ann", []byte{8, 1})
	f.Add("checkpoint", []byte{})
	f.Add("view.=zz", []byte{0xff})
	f.Fuzz(func(t *testing.T, key string, value []byte) {
		r := machine.Records{Edges: map[string]*wire.EdgeRecord{}, Users: map[string]*wire.UserRecord{}, Views: map[string]*wire.View{}}
		if addRecord(&r, key, value) == nil {
			machine.Load(rollcall.Default(), 0, r)
		}
	})
}

// Whoever owns a shard says so, and whoever owns it no more says nothing of it.
func TestOwnedShardsShow(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		w := newWorld(t)
		registry := prometheus.NewPedanticRegistry()
		k, err := New(w.nc, Config{Ownership: granted{rollcall.Grant{Generation: 7}}, Registerer: registry})
		if err != nil {
			t.Fatal(err)
		}
		shown := func() (generation, ready []float64) {
			families, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range families {
				for _, m := range f.GetMetric() {
					switch f.GetName() {
					case "rollcall_keeper_shard_generation":
						generation = append(generation, m.GetGauge().GetValue())
					case "rollcall_keeper_shard_ready":
						ready = append(ready, m.GetGauge().GetValue())
					}
				}
			}
			return generation, ready
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- k.Run(ctx) }()
		time.Sleep(time.Second)
		if generation, ready := shown(); !slices.Equal(generation, []float64{7}) || !slices.Equal(ready, []float64{1}) || !k.Ready() {
			t.Errorf("owned: generation %v, ready %v", generation, ready)
		}
		stop()
		<-ended
		if generation, ready := shown(); len(generation)+len(ready) > 0 || k.Ready() {
			t.Errorf("not owned: generation %v, ready %v", generation, ready)
		}
	})
}

package cohort_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rollcall-io/rollcall/cohort"
	"github.com/rollcall-io/rollcall/cohort/machine"
	"github.com/rollcall-io/rollcall/internal/lab"
)

// Scenario 17 for workers: the store is down for ten minutes → nobody is declared dead when it
// returns, and nothing moves.
func TestStoreIsDownForTenMinutes(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t, 6)
		a, b, c := s.join("a"), s.join("b"), s.join("c")
		s.settled(time.Second, a, b, c)
		w, before := s.watch(), s.owners(a, b, c)
		s.server.Stop()
		time.Sleep(10 * time.Minute)
		if err := a.commit(a.has()[0], 1); err == nil || errors.Is(err, errNotOwner) {
			t.Errorf("a commit without a store: %v", err)
		}
		s.server.Start()
		time.Sleep(time.Minute)
		for _, e := range w.seen() {
			if e.State == machine.Expired || e.About == machine.AboutPartition {
				t.Error(e)
			}
		}
		if n := moved(before, s.owners(a, b, c)); n != 0 {
			t.Errorf("%d moved", n)
		}
		for _, w := range []*worker{a, b, c} {
			for _, n := range w.has() {
				if err := w.commit(n, 2); err != nil {
					t.Errorf("%s: %v", w.id, err)
				}
			}
		}
	})
}

// restorable keeps what is stored of the group. The function that it returns has the store lose whatever
// came later.
func (s *scene) restorable() (lose func()) {
	early := s.server.Snapshot("KV_presence_cohort_workers")
	return func() {
		s.server.Stop()
		s.server.Restore(early)
		s.server.Start()
	}
}

// The store loses what it acknowledged in the last seconds: plans, claims, offsets and registrations.
// Everything is owned by one member again, who can commit.
func TestStoreLosesItsLastSeconds(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t, 6)
		a, b := s.join("a"), s.join("b")
		s.settled(time.Second, a, b)
		time.Sleep(5 * time.Second)
		lose := s.restorable()
		c := s.join("c")
		s.settled(time.Second, a, b, c)
		for _, w := range []*worker{a, b, c} {
			for _, n := range w.has() {
				if err := w.commit(n, 9); err != nil {
					t.Fatal(err)
				}
			}
		}
		b.kill()
		s.settled(11*time.Second, a, c)
		lose()
		time.Sleep(30 * time.Second)
		s.settled(time.Second, a, c)
		for _, w := range []*worker{a, c} {
			for _, n := range w.has() {
				if err := w.commit(n, 10); err != nil {
					t.Errorf("%s commits in %d: %v", w.id, n, err)
				}
			}
		}
	})
}

// A coordinator is frozen, and meanwhile the store loses a member that only it has heard of, and another
// is elected. When it wakes, it finds nothing lost, since the stream has grown past all that it had read.
// The two must not answer each other's plans, which would go on without end.
func TestDeposedCoordinatorDecidesNothing(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t, 6)
		written := make(chan struct{}, 100)
		counted := func(id string) cohort.Config {
			return cohort.WithHooks(s.config(id), func(key string, stored bool) {
				if key != "orders.plan" || stored {
					return
				}
				select {
				case written <- struct{}{}:
				default:
					<-t.Context().Done() // lets time go on
				}
			}, nil)
		}
		a := s.joinAs(counted("a"))
		s.settled(time.Second, a)
		c := s.joinAs(counted("c"))
		s.settled(time.Second, a, c)
		lose := s.restorable()
		b := s.join("b")
		s.settled(time.Second, a, b, c)
		b.kill()

		a.link.Freeze()
		lose()
		time.Sleep(20 * time.Second)
		s.settled(time.Second, c)
		for len(written) > 0 {
			<-written
		}
		a.link.Thaw()
		s.settled(20*time.Second, a, c)
		time.Sleep(time.Minute)
		s.settled(time.Second, a, c)
		if n := len(written); n > 5 {
			t.Errorf("%d plans", n)
		}
	})
}

// The store loses a member while the coordinator is away for less than its lease, and has grown past all
// that the coordinator had read when it is back: it goes on with a member that only it knows. That the
// store has lost something shows in a lease that is older than it was, or when the member is to be ended.
func TestCoordinatorMissesALoss(t *testing.T) {
	for name, admitted := range map[string]bool{"with the lease and the plan": true, "of the member alone": false} {
		t.Run(name, func(t *testing.T) {
			lab.Bubble(t, func(t *testing.T) {
				s := newScene(t, 6)
				s.timing.Lease, s.timing.Timeout = 2*s.timing.Heartbeat, 4*s.timing.Heartbeat
				a := s.join("a")
				s.settled(time.Second, a)
				c := s.join("c")
				s.settled(time.Second, a, c)
				time.Sleep(s.timing.Settle / 2)
				lose := s.restorable()
				b := s.join("b")
				time.Sleep(s.timing.Settle / 2)
				if admitted {
					s.settled(time.Second, a, b, c)
				}
				b.kill()

				a.link.Cut()
				lose()
				time.Sleep(s.timing.Heartbeat) // nothing is left of what was stored first
				for offset := range uint64(100) {
					if err := c.commit(c.has()[0], offset); err != nil {
						t.Fatal(err)
					}
				}
				w := s.watch()
				a.link.Heal()
				s.settled(30*time.Second, a, c)
				time.Sleep(30 * time.Second)
				s.settled(time.Second, a, c)
				for _, e := range w.seen() {
					if e.About == machine.AboutCoordinator {
						t.Error("the coordinator was not away for less than its lease:", e)
					}
				}
			})
		})
	}
}

// Records that make no sense stop nobody: a member that writes one is gone, and a plan is written anew.
func TestRecordsThatMakeNoSense(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t, 4)
		a := s.join("a") // coordinates
		s.settled(time.Second, a)
		b := s.join("b")
		s.settled(time.Second, a, b)
		js, err := jetstream.New(lab.Connect(t, s.server.NewLink()))
		if err != nil {
			t.Fatal(err)
		}
		kv, err := js.KeyValue(t.Context(), "presence_cohort_workers")
		if err != nil {
			t.Fatal(err)
		}
		put := func(key string) {
			t.Helper()
			if _, err := kv.PutString(t.Context(), key, "{nonsense"); err != nil {
				t.Fatal(err)
			}
		}
		w := s.watch()
		b.link.Freeze()
		put("orders.member.b")
		put("orders.member.other")
		s.settled(time.Second, a)
		if got, want := states(w.seen(), "b"), []string{"expired unreadable"}; !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		if v, err := w.group.View(t.Context()); err != nil || len(v.Members) != 1 || len(v.Unreadable) != 2 {
			t.Errorf("%+v, %v", v, err)
		}
		put("orders.plan")
		put("orders.lease")
		put("orders.orders")
		c := s.join("c")
		s.settled(10*time.Second, a, c)
		for _, n := range c.has() {
			if err := c.commit(n, 1); err != nil {
				t.Error(err)
			}
		}
	})
}

// Ten processes find an empty server at the same moment.
func TestEverybodyIsFirst(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t, 30)
		workers := make([]*worker, 10)
		var joining sync.WaitGroup
		for i := range workers {
			joining.Go(func() { workers[i] = s.join(fmt.Sprint("w", i)) })
		}
		joining.Wait()
		s.settled(2*time.Second, workers...)
		s.owners(workers...)
		for _, w := range workers {
			if n := w.given(); n != 1 {
				t.Errorf("%s was given %d assignments", w.id, n)
			}
		}
	})
}

// Another process joins under the same id: the older one ends and says so.
func TestSameIDReplaces(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t, 2)
		old := s.join("a")
		s.settled(time.Second, old)
		n := old.has()[0]
		replacement := s.join("a")
		s.settled(time.Second, replacement)
		if err := old.commit(n, 1); !errors.Is(err, errNotOwner) {
			t.Errorf("the older one commits: %v", err)
		}
		<-old.member.Done()
		if err := old.member.Err(); !errors.Is(err, cohort.ErrReplaced) {
			t.Errorf("it ended with %v", err)
		}
		if err := replacement.commit(n, 1); err != nil {
			t.Error(err)
		}
	})
}

func TestJoinRefusesWhatMakesNoSense(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t, 2)
		nc := lab.Connect(t, s.server.NewLink())
		flaps := cohort.Worker()
		flaps.Timeout = time.Second
		for _, c := range []struct {
			config cohort.Config
			want   error
		}{
			{cohort.Config{ID: "a", Partitions: 2}, cohort.ErrConfig},
			{cohort.Config{Group: "g", Partitions: 2}, cohort.ErrConfig},
			{cohort.Config{Group: "g", ID: "a", Partitions: -1}, cohort.ErrConfig},
			{cohort.Config{Group: "g", ID: "a", Partitions: 4096}, cohort.ErrConfig},
			{cohort.Config{Group: "g", ID: "a", Partitions: 2, Weight: -1}, cohort.ErrConfig},
			{cohort.Config{Group: "g", ID: "a", Partitions: 2, Prefix: "No.Prefix"}, cohort.ErrConfig},
			{cohort.Config{Group: "g", ID: "a", Partitions: 2, Timing: flaps}, cohort.ErrConfig},
			{cohort.Config{Group: "g", ID: "a"}, cohort.ErrNoGroup},
		} {
			if _, err := cohort.Join(t.Context(), nc, c.config); !errors.Is(err, c.want) {
				t.Errorf("%+v: %v, want %v", c.config, err, c.want)
			}
		}
		s.join("a")
		other := cohort.Worker()
		other.Hold = time.Minute
		for _, c := range []cohort.Config{{Group: "orders", ID: "b", Partitions: 3}, {Group: "orders", ID: "b", Timing: other}} {
			if _, err := cohort.Join(t.Context(), nc, c); !errors.Is(err, cohort.ErrDiffers) {
				t.Errorf("%+v: %v", c, err)
			}
		}
		s.joinAs(cohort.Config{Group: "orders", ID: "b"}) // takes what is there
	})
}

// The reasons are kept apart in the metrics, which go with the member.
func TestMetrics(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t, 6)
		registry := prometheus.NewPedanticRegistry()
		watched := s.config("a")
		watched.Registerer = registry
		a := s.joinAs(watched)
		s.settled(time.Second, a)
		b, c := s.join("b"), s.join("c")
		s.settled(time.Second, a, b, c)
		if err := a.commit(a.has()[0], 1); err != nil {
			t.Fatal(err)
		}
		a.commit(b.has()[0], 1)
		b.kill()
		if err := c.member.Retire(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.settled(12*time.Second, a)
		time.Sleep(time.Second)
		for name, want := range map[string]float64{
			`rollcall_cohort_departures_total reason=timeout state=expired`: 1,
			`rollcall_cohort_departures_total reason=final state=left`:      1,
			`rollcall_cohort_moves_total reason=expired`:                    3, // one of them had been c's
			`rollcall_cohort_moves_total reason=left`:                       2,
			`rollcall_cohort_commits_total result=stored`:                   1,
			`rollcall_cohort_commits_total result=not_owner`:                1,
			`rollcall_cohort_members state=healthy`:                         1,
			`rollcall_cohort_partitions`:                                    6,
			`rollcall_cohort_coordinates`:                                   1,
			`rollcall_cohort_unowned_partitions`:                            0,
		} {
			if got := metric(t, registry, name); got != want {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}
		if err := a.member.Leave(context.Background()); err != nil {
			t.Error(err)
		}
		if families, _ := registry.Gather(); len(families) > 0 {
			t.Errorf("%d metrics are left", len(families))
		}
	})
}

// metric reads one by its name and the labels that are not the member's.
func metric(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.Metric {
			text := f.GetName()
			for _, l := range m.Label {
				if l.GetName() != "group" && l.GetName() != "member" {
					text += " " + l.GetName() + "=" + l.GetValue()
				}
			}
			if text == name {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	t.Errorf("no metric %s", name)
	return -1
}

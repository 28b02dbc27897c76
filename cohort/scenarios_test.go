package cohort_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall/cohort"
	"github.com/rollcall-io/rollcall/cohort/machine"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/subjects"
)

// Scenario 49: a worker's process is frozen beyond the timeout and wakes → its commit is refused,
// its partitions stay with the new owner.
func Test49_FrozenWorkerWakes(t *testing.T) {
	for name, pause := range map[string]time.Duration{"the connection still stands": 0, "the connection is long given up": time.Minute} {
		t.Run(name, func(t *testing.T) {
			lab.Bubble(t, func(t *testing.T) { frozenWorkerWakes(t, pause) })
		})
	}
}

func frozenWorkerWakes(t *testing.T, pause time.Duration) {
	s := newScene(t, 4)
	a, b := s.join("a"), s.join("b")
	s.settled(time.Second, a, b)
	mine := b.has()
	for _, n := range mine {
		if err := b.commit(n, 10); err != nil {
			t.Fatal(err)
		}
	}
	// A commit that is under way when the path dies must not come through afterwards either.
	b.link.Freeze()
	late := make(chan error, 1)
	go func() { late <- b.commit(mine[0], 11) }()
	s.settled(11*time.Second, a)
	for _, n := range mine {
		if err := a.commit(n, 20); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-late; err == nil {
		t.Error("a commit was stored over a frozen link")
	}
	time.Sleep(pause)
	b.link.Thaw()
	for !b.nc.IsConnected() {
		time.Sleep(time.Millisecond)
	}
	for _, n := range mine {
		if err := b.commit(n, 30); !errors.Is(err, errNotOwner) {
			t.Errorf("partition %d: commit of a worker that was frozen: %v", n, err)
		}
		if err := a.commit(n, 21); err != nil {
			t.Errorf("partition %d: %v", n, err)
		}
	}
	s.settled(11*time.Second, a, b) // it has registered again, and has its share
	if got, want := s.parts()[mine[0]].Offset, uint64(21); got != want {
		t.Errorf("offset %d, want %d", got, want)
	}
}

// Scenario 50: a worker says goodbye and is back within the hold → the same partitions, nothing moved.
func Test50_RestartWithinTheHold(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t, 12)
		a, b, c := s.join("a"), s.join("b"), s.join("c")
		s.settled(time.Second, a, b, c)
		before, w := s.owners(a, b, c), s.watch()
		given := a.given()
		b.leave()
		time.Sleep(9 * time.Second)
		b = s.join("b")
		s.settled(time.Second, a, b, c)
		if n := moved(before, s.owners(a, b, c)); n != 0 {
			t.Errorf("%d moved", n)
		}
		events := w.seen()
		if m := moves(events); len(m) > 0 {
			t.Errorf("moves: %v", m)
		}
		if a.given() != given {
			t.Error("another worker was disturbed")
		}
		want := []string{"left restart", "joining registered", "healthy admitted"}
		if got := states(events, "b"); !slices.Equal(got, want) {
			t.Errorf("states %v, want %v", got, want)
		}
	})
}

// The other side of scenario 50: after the hold they move, and for another reason than an expiry;
// who says goodbye for good has nothing held.
func TestGoodbyeAndExpiryAreKeptApart(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t, 12)
		a, b, c, d := s.join("a"), s.join("b"), s.join("c"), s.join("d")
		s.settled(time.Second, a, b, c, d)
		w := s.watch()

		began := time.Now()
		b.leave()
		s.settled(11*time.Second, a, c, d)
		if held := time.Since(began); held < s.timing.Hold {
			t.Errorf("held for %s only", held)
		}
		events := w.seen()
		if got, want := states(events, "b"), []string{"left restart", "left hold_over"}; !slices.Equal(got, want) {
			t.Errorf("goodbye: %v, want %v", got, want)
		}
		if m := moves(events); m[machine.WhyLeft] != 3 || len(m) != 1 {
			t.Errorf("goodbye moved %v", m)
		}

		if err := c.member.Retire(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.settled(time.Second, a, d)
		events = w.seen()
		if got, want := states(events, "c"), []string{"left final"}; !slices.Equal(got, want) {
			t.Errorf("goodbye for good: %v, want %v", got, want)
		}
		if m := moves(events); m[machine.WhyLeft] != 4 || len(m) != 1 {
			t.Errorf("goodbye for good moved %v", m)
		}

		d.kill()
		s.settled(11*time.Second, a)
		events = w.seen()
		if got, want := states(events, "d"), []string{"suspect silent", "expired timeout"}; !slices.Equal(got, want) {
			t.Errorf("crash: %v, want %v", got, want)
		}
		if m := moves(events); m[machine.WhyExpired] != 6 || len(m) != 1 {
			t.Errorf("crash moved %v", m)
		}
	})
}

// Scenario 51: a worker's first heartbeat comes only after a long set-up → registering counts as the
// first sign of life. The worker here is one in another language, by the protocol's own words.
func Test51_RegisteringIsASignOfLife(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t, 2)
		a := s.join("a")
		s.settled(time.Second, a)
		w := s.watch()
		js, err := jetstream.New(lab.Connect(t, s.server.NewLink()))
		if err != nil {
			t.Fatal(err)
		}
		kv, err := js.KeyValue(t.Context(), "presence_cohort_workers")
		if err != nil {
			t.Fatal(err)
		}
		revision, err := kv.Create(t.Context(), "orders.member.other", []byte(`{"conn":"1"}`))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(s.timing.Timeout - time.Second)
		if _, err := kv.Update(t.Context(), "orders.member.other", []byte(`{"conn":"1"}`), revision); err != nil {
			t.Errorf("the first heartbeat: %v", err)
		}
		time.Sleep(s.timing.Heartbeat)
		events := w.seen()
		want := []string{"joining registered", "healthy admitted", "suspect silent", "healthy recovered"}
		if got := states(events, "other"); !slices.Equal(got, want) {
			t.Errorf("states %v, want %v", got, want)
		}
		entry, err := kv.Get(t.Context(), "orders.plan")
		if err != nil {
			t.Fatal(err)
		}
		var plan subjects.CohortPlan
		if err := json.Unmarshal(entry.Value(), &plan); err != nil || plan.Members["other"] != "1" {
			t.Errorf("plan %s, %v", entry.Value(), err)
		}
	})
}

// Scenario 52: all workers restart together → one assignment, not one per join.
func Test52_RestartTogether(t *testing.T) {
	for _, way := range []string{"goodbye", "crash", "new ids"} {
		t.Run(way, func(t *testing.T) {
			lab.Bubble(t, func(t *testing.T) {
				s := newScene(t, 64)
				s.settled(time.Second, s.join("bystander")) // which coordinates
				var workers []*worker
				for i := range 10 {
					workers = append(workers, s.join(fmt.Sprint("w", i)))
				}
				time.Sleep(2 * time.Second)
				w := s.watch()
				for _, v := range workers {
					if way == "goodbye" {
						v.leave()
					} else {
						v.kill()
					}
				}
				if way == "new ids" {
					time.Sleep(15 * time.Second)
				}
				w.seen()
				for i := range workers {
					id := fmt.Sprint("w", i)
					if way == "new ids" {
						id = fmt.Sprint("n", i)
					}
					workers[i] = s.join(id)
					time.Sleep(20 * time.Millisecond)
				}
				time.Sleep(2 * time.Second)
				asked := map[string]int{"new ids": 1}[way] // the bystander is asked first, and then they are given
				if n := plans(w.seen()); n != 1 && n != 1+asked {
					t.Errorf("%d assignments", n)
				}
			})
		})
	}
}

// Scenario 53: 64 partitions, ten workers, one more → at most six move, and loads differ by at most one.
func Test53_OneMoreWorker(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t, 64)
		var workers []*worker
		for i := range 10 {
			workers = append(workers, s.join(fmt.Sprint("w", i)))
		}
		s.settled(2*time.Second, workers...)
		before, w := s.owners(workers...), s.watch()
		workers = append(workers, s.join("one more"))
		s.settled(time.Second, workers...)
		if n := moved(before, s.owners(workers...)); n > 6 {
			t.Errorf("%d moved", n)
		}
		if m := moves(w.seen()); m[machine.WhyBalance] > 6 || len(m) != 1 {
			t.Errorf("moves %v", m)
		}
	})
}

// Scenario 54: a worker answers heartbeats but makes no progress → it shows (load, last progress), and
// can be treated as suspect.
func Test54_NoProgress(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t, 12)
		s.timing.Stall = 20 * time.Second
		stuck := s.config("stuck")
		stuck.Load = func() float64 { return 42 }
		a, b, c := s.join("a"), s.join("b"), s.joinAs(stuck)
		s.settled(time.Second, a, b, c)
		w := s.watch()
		began := time.Now()
		time.Sleep(30 * time.Second)
		if got, want := states(w.seen(), "stuck"), []string{"suspect no_progress"}; !slices.Equal(got, want) {
			t.Errorf("states %v, want %v", got, want)
		}
		v, err := w.group.View(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		m := v.Members[slices.IndexFunc(v.Members, func(m machine.MemberView) bool { return m.ID == "stuck" })]
		if m.Load != 42 || m.State != machine.Suspect || m.Progress.Sub(began).Abs() > 2*time.Second || time.Since(m.Seen) > s.timing.Heartbeat {
			t.Errorf("it shows as %+v", m)
		}
		// It keeps what it has, and gets nothing more.
		before := c.has()
		b.kill()
		time.Sleep(11 * time.Second)
		if got := c.has(); !slices.Equal(got, before) || len(a.has()) != 8 {
			t.Errorf("the stuck worker has %v, had %v; the other %v", got, before, a.has())
		}
		// Progress makes it whole.
		if err := c.commit(before[0], 1); err != nil {
			t.Fatal(err)
		}
		s.settled(4*time.Second, a, c)
	})
}

// Scenario 55: the coordinator is killed during an assignment → the next one finishes it; no
// partition has two owners who can commit. It is killed before and after every write that it makes.
func Test55_CoordinatorKilledAtEveryStep(t *testing.T) {
	for _, change := range []string{"join", "crash", "goodbye"} {
		t.Run(change, func(t *testing.T) {
			steps := 0
			for step := 1; ; step++ {
				reached := true
				lab.Bubble(t, func(t *testing.T) { reached = killAtStep(t, change, step) })
				if !reached {
					break
				}
				if steps++; t.Failed() {
					t.Fatalf("at step %d", step)
				}
			}
			t.Logf("killed at %d steps", steps)
			if steps < 4 {
				t.Error("so few steps cannot be all")
			}
		})
	}
}

// killAtStep kills the coordinator, which is the first member, at a step after the change began;
// false if it has not so many.
func killAtStep(t *testing.T, change string, step int) (reached bool) {
	s := newScene(t, 6)
	var a *worker
	taken, die := make(chan struct{}, 1000), make(chan struct{})
	var counting atomic.Bool
	cfg := cohort.WithHooks(s.config("a"), func(key string, stored bool) {
		if _, kind, id, _ := subjects.ParseCohort(key); !counting.Load() || kind == subjects.CohortMemberKind && id == "a" {
			return // its own heartbeats are no steps
		}
		if taken <- struct{}{}; len(taken) == step {
			a.link.Cut()
			a.crash()
			close(die)
		}
	}, nil)
	a = s.joinAs(cfg)
	s.settled(time.Second, a)
	b, c := s.join("b"), s.join("c")
	s.settled(time.Second, a, b, c)
	counting.Store(true)
	alive := []*worker{b, c}
	switch change {
	case "join":
		alive = append(alive, s.join("d"))
	case "crash":
		c.kill()
		alive = alive[:1]
	case "goodbye":
		if err := c.member.Retire(t.Context()); err != nil {
			t.Fatal(err)
		}
		alive = alive[:1]
	}
	select {
	case <-die:
		reached = true
		<-a.member.Done()
		<-a.ended
	case <-time.After(11 * time.Second):
		counting.Store(false)
		a.kill()
	}
	s.settled(25*time.Second, alive...)
	s.owners(alive...)
	for _, w := range alive {
		for _, n := range w.has() {
			if err := w.commit(n, 5); err != nil {
				t.Errorf("%s commits %d: %v", w.id, n, err)
			}
		}
	}
	return reached
}

// parts are the records of the partitions.
func (s *scene) parts() map[int]subjects.CohortPart {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	g, err := cohort.Open(ctx, lab.Connect(s.t, s.server.NewLink()), "", "", "orders")
	if err != nil {
		s.t.Fatal(err)
	}
	parts, err := g.Parts(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	return parts
}

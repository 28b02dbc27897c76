package cohort_test

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rollcall-io/rollcall/cohort"
	"github.com/rollcall-io/rollcall/internal/lab"
)

func TestMembersShareAndHandOver(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t, 12)
		a := s.join("a")
		t.Log("first:", s.settled(time.Second, a))
		b, c := s.join("b"), s.join("c")
		t.Log("joins:", s.settled(time.Second, a, b, c))
		before := s.owners(a, b, c)
		d := s.join("d")
		t.Log("one more:", s.settled(time.Second, a, b, c, d))
		if n := moved(before, s.owners(a, b, c, d)); n != 3 {
			t.Errorf("%d moved, want 3", n)
		}
		for _, n := range a.has() {
			if err := a.commit(n, 7); err != nil {
				t.Error(err)
			}
			if err := b.commit(n, 8); !errors.Is(err, errNotOwner) {
				t.Errorf("b commits what a owns: %v", err)
			}
		}
		mine := a.has()
		a.kill()
		t.Log("crash of the coordinator:", s.settled(11*time.Second, b, c, d))
		for _, w := range []*worker{b, c, d} {
			w.mu.Lock()
			for _, p := range w.now.Partitions {
				if slices.Contains(mine, p.Number) != (p.Offset == 7) {
					t.Errorf("%+v", p)
				}
			}
			w.mu.Unlock()
		}
	})
}

// The coordinator retires: what it had is owned by others within a second, and somebody coordinates.
func TestCoordinatorRetires(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t, 12)
		workers := make(map[string]*worker)
		everybody := func() []*worker { return slices.Collect(maps.Values(workers)) }
		for _, id := range []string{"a", "b", "c"} {
			workers[id] = s.join(id)
		}
		s.settled(2*time.Second, everybody()...)
		w := s.watch()
		for range 3 {
			view, err := w.group.View(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			id := view.Coordinator
			began := time.Now()
			if err := workers[id].member.Retire(t.Context()); err != nil {
				t.Fatal(err)
			}
			delete(workers, id)
			s.settled(time.Second, everybody()...)
			t.Logf("%s: owned by others after %s", id, time.Since(began))
			workers[id] = s.join(id)
			s.settled(time.Second, everybody()...)
		}
	})
}

// A coordinator that says goodbye amid a renewal of its lease gives it up all the same.
func TestACoordinatorLeavesAmidARenewal(t *testing.T) {
	const way = 40 * time.Millisecond // from there to the store, so that a renewal takes 80
	for after := time.Duration(0); after < cohort.Worker().Sweep; after += way / 2 {
		t.Run(after.String(), func(t *testing.T) {
			lab.Bubble(t, func(t *testing.T) {
				s := newScene(t, 4)
				first := s.join("first")
				time.Sleep(time.Second)
				second := s.join("second")
				time.Sleep(5 * time.Second)
				first.link.Delay(way)
				time.Sleep(after)
				if err := first.member.Retire(t.Context()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				synctest.Wait()
				if got := len(second.has()); got != 4 {
					t.Errorf("a second after the coordinator has left, the other has %d partitions", got)
				}
			})
		})
	}
}

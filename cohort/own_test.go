package cohort_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/cohort/machine"
	"github.com/rollcall-io/rollcall/internal/lab"
)

// owner is a process that owns shards through the group.
type owner struct {
	*worker
	cancel  context.CancelFunc
	granted chan rollcall.Grant
	ended   chan error
}

// own lets a member own with run; the reader of assignments in worker is not used.
func (s *scene) own(id string, run func(context.Context, rollcall.Grant) error) *owner {
	s.t.Helper()
	o := &owner{worker: s.enter(s.server.NewLink(), s.config(id)), granted: make(chan rollcall.Grant, 1000), ended: make(chan error, 1)}
	close(o.worker.ended)
	var ctx context.Context
	ctx, o.cancel = context.WithCancel(context.Background())
	go func() {
		o.ended <- o.member.Own(ctx, func(ctx context.Context, g rollcall.Grant) error {
			o.granted <- g
			return run(ctx, g)
		})
	}()
	s.t.Cleanup(func() { o.kill(); o.cancel() })
	return o
}

// untilAsked holds a grant until it ends, and commits afterwards.
func untilAsked(ctx context.Context, _ rollcall.Grant) error { <-ctx.Done(); return ctx.Err() }

func (o *owner) grants(n int) map[int]uint64 {
	o.t.Helper()
	got := make(map[int]uint64)
	for range n {
		select {
		case g := <-o.granted:
			got[g.Shard] = g.Generation
		case <-time.After(30 * time.Second):
			o.t.Fatalf("%s: %d grants of %d", o.id, len(got), n)
		}
	}
	return got
}

func TestOwnHandsOverAfterTheLastCommit(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t, 4)
		var a *owner
		finish := make(chan error, 4)
		a = s.own("a", func(ctx context.Context, g rollcall.Grant) error {
			<-ctx.Done()
			time.Sleep(3 * time.Second) // what it was about to do
			finish <- a.commit(g.Shard, 9)
			return nil
		})
		first := a.grants(4)
		b := s.own("b", untilAsked)
		began := time.Now()
		for shard, generation := range b.grants(2) {
			if generation <= first[shard] {
				t.Errorf("shard %d: generation %d after %d", shard, generation, first[shard])
			}
			if offset, err := b.member.Offset(shard); offset != 9 || err != nil {
				t.Errorf("shard %d was handed over at %d, %v", shard, offset, err)
			}
		}
		if took := time.Since(began); took < 3*time.Second {
			t.Errorf("handed over after %s, before the work had ended", took)
		}
		for range 2 {
			if err := <-finish; err != nil {
				t.Error(err)
			}
		}
	})
}

// An owner that does not listen loses the partition when its time is over.
func TestReleaseIsOverdue(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t, 2)
		deaf := make(chan struct{})
		a := s.own("a", func(context.Context, rollcall.Grant) error { <-deaf; return nil })
		a.grants(2)
		w := s.watch()
		b := s.own("b", untilAsked)
		began := time.Now()
		for shard := range b.grants(1) {
			if err := b.commit(shard, 5); err != nil {
				t.Error(err)
			}
			if err := a.commit(shard, 6); !errors.Is(err, errNotOwner) {
				t.Errorf("the owner before commits: %v", err)
			}
		}
		if took := time.Since(began); took < s.timing.Release || took > s.timing.Release+s.timing.Sweep {
			t.Errorf("taken after %s", took)
		}
		if m := moves(w.seen()); m[machine.WhyOverdue] != 1 || len(m) != 1 {
			t.Errorf("moves %v", m)
		}
		close(deaf)
	})
}

func TestFailedRunIsGrantedAgainWithAHigherGeneration(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t, 1)
		a := s.own("a", func(context.Context, rollcall.Grant) error { return errors.New("broken") })
		last := uint64(0)
		for range 10 {
			g := a.grants(1)[0]
			if g <= last {
				t.Fatalf("%d after %d", g, last)
			}
			last = g
		}
	})
}

// Who stops working and then says goodbye has nothing given anew in between.
func TestOwnEndsAndLeaves(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t, 4)
		a, b := s.own("a", untilAsked), s.own("b", untilAsked)
		a.grants(2)
		time.Sleep(5 * time.Second)
		w := s.watch()
		b.cancel()
		if err := <-b.ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		time.Sleep(5 * time.Second)
		if err := b.member.Leave(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(5 * time.Second)
		for _, e := range w.seen() {
			if e.About == machine.AboutPartition {
				t.Error(e)
			}
		}
	})
}

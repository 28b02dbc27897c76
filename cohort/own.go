package cohort

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/internal/retry"
)

// Pauses before a partition whose work has failed is given again.
const (
	firstRest = 100 * time.Millisecond
	lastRest  = 5 * time.Second
)

var _ rollcall.Ownership = (*Member)(nil)

// Own implements [rollcall.Ownership] by the partitions of the group: run is called for each that
// the member owns. The context given to it ends when the partition is asked for or lost, or ctx
// has ended; when run returns, the partition is released. So run may still commit what it has done,
// with a context of its own. Call it once, and instead of [Member.Assignments].
//
// It returns when ctx has ended, or with [Member.Err] when the member takes part no more, and every run
// has returned. It does not say goodbye.
func (m *Member) Own(ctx context.Context, run func(context.Context, rollcall.Grant) error) error {
	o := owning{ctx: ctx, member: m, run: run, works: make(map[int]*work)}
	defer o.stopAll()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case a, ok := <-m.assignments:
			if !ok {
				<-m.done
				return m.err
			}
			o.follow(a)
		}
	}
}

// Offset is what was last committed in a partition that the member owns.
func (m *Member) Offset(partition int) (offset uint64, err error) {
	m.mu.Lock()
	h := m.held[partition]
	m.mu.Unlock()
	if h == nil {
		return 0, notOwner(partition)
	}
	h.writing <- struct{}{}
	defer func() { <-h.writing }()
	return h.offset, nil
}

// owning is one call of Own.
type owning struct {
	ctx    context.Context
	member *Member
	run    func(context.Context, rollcall.Grant) error
	works  map[int]*work
	all    sync.WaitGroup
}

// A work is one call of run. Those of one partition come one after the other.
type work struct {
	grant  rollcall.Grant
	stop   context.CancelFunc
	done   chan struct{}
	failed int // runs in a row, this one included; set before done is closed
}

func (o *owning) follow(a Assignment) {
	given := make(map[int]bool, len(a.Partitions))
	for _, p := range a.Partitions {
		given[p.Number] = true
		before := o.works[p.Number]
		if before != nil && before.grant.Generation == p.Generation {
			continue
		}
		if before != nil {
			before.stop()
		}
		o.start(rollcall.Grant{Shard: p.Number, Generation: p.Generation}, before)
	}
	for n, w := range o.works {
		if !given[n] {
			w.stop()
		}
	}
}

func (o *owning) start(g rollcall.Grant, before *work) {
	ctx, stop := context.WithCancel(o.ctx)
	w := &work{grant: g, stop: stop, done: make(chan struct{})}
	o.works[g.Shard] = w
	o.all.Go(func() {
		defer close(w.done)
		defer stop()
		if before != nil {
			<-before.done
			w.failed = before.failed
		}
		if ctx.Err() == nil {
			o.work(ctx, w)
		}
		// Who works no more at all has nothing to gain from being given it again.
		if o.ctx.Err() == nil || o.member.asked(g) {
			o.member.release(g.Shard, g.Generation)
		}
	})
}

// work runs once. A run that fails before its time rests before the partition is given again, the
// longer the more often it has failed.
func (o *owning) work(ctx context.Context, w *work) {
	began := time.Now()
	err := o.run(ctx, w.grant)
	if ctx.Err() != nil {
		return
	}
	if time.Since(began) > 5*lastRest {
		w.failed = 0
	}
	if !errors.Is(err, rollcall.ErrNotOwner) {
		o.member.log.Warn("partition interrupted, releasing it to be given it again", "partition", w.grant.Shard, "err", err)
	}
	retry.Pause(ctx, retry.Backoff(w.failed, firstRest, lastRest, rand.Int64N))
	w.failed++
}

func (o *owning) stopAll() {
	for _, w := range o.works {
		w.stop()
	}
	o.all.Wait()
}

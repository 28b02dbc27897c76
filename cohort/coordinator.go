package cohort

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rollcall-io/rollcall/cohort/machine"
	"github.com/rollcall-io/rollcall/internal/feed"
	"github.com/rollcall-io/rollcall/subjects"
)

// A coordinator is one term of office: it reads the records of the group and writes what package
// machine decides. It keeps nothing to itself, so that the next one can go on anywhere.
type coordinator struct {
	store   *store
	timing  Timing
	record  subjects.CohortLease
	log     *slog.Logger
	metrics *metrics

	elected  uint64             // revision of the lease when it was taken
	revision uint64             // of the lease now; the ticker's
	wish     chan time.Duration // when time must pass
	reader   atomic.Pointer[feed.Reader]
}

func newCoordinator(m *Member) *coordinator {
	return &coordinator{
		store: m.store, timing: m.timing, record: subjects.CohortLease{Holder: m.cfg.ID, Conn: newConn()},
		log: m.log, metrics: m.metrics, wish: make(chan time.Duration, 1),
	}
}

func (c *coordinator) leaseKey() string {
	return subjects.KeyCohort(c.store.group, subjects.CohortLeaseKind)
}

// stand takes the lease if it is free or has run out.
func (c *coordinator) stand(ctx context.Context, seen *leaseWatch) (elected bool, err error) {
	stored, err := c.store.get(ctx, c.leaseKey())
	if err != nil {
		return false, err
	}
	if stored.value != nil && !seen.stale(stored.revision, c.timing.Lease) {
		seen.behind(stored.revision)
		return false, nil
	}
	c.elected, err = c.store.put(ctx, c.leaseKey(), c.record, stored.revision, recordTTL(c.timing))
	if errors.Is(err, errConflict) {
		return false, nil // somebody else was elected; the feed will say so
	}
	c.revision = c.elected
	return err == nil, err
}

// errDeposed says that somebody else coordinates.
var errDeposed = errors.New("cohort: somebody else coordinates")

// run coordinates until the lease is lost or ctx ends. When the member leaves, it gives the lease up.
func (c *coordinator) run(ctx context.Context) {
	c.log.Info("coordinator: elected")
	c.metrics.coordinates.Set(1)
	defer c.metrics.resign()
	group, running := errgroup.WithContext(ctx)
	group.Go(func() error { return c.tick(running) })
	group.Go(func() error { return c.follow(running) })
	err := group.Wait()
	if errors.Is(context.Cause(ctx), ErrLeft) {
		err = errors.Join(ErrLeft, c.resign(context.WithoutCancel(ctx)))
	}
	c.log.Info("coordinator: no more", "reason", err)
}

// resign ends the lease, so that the next coordinator need not wait until it has run out.
func (c *coordinator) resign(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	for {
		_, err := c.store.end(ctx, c.leaseKey(), machine.ReasonFinal, c.revision)
		if !errors.Is(err, errConflict) {
			return err
		}
		// The renewal that was under way when the term ended.
		if err := c.catchUp(ctx); err != nil {
			return err
		}
	}
}

// follow feeds the machine, and does what it decides after every batch.
func (c *coordinator) follow(ctx context.Context) error {
	office := term{coordinator: c, pending: c.elected}
	for {
		r := c.store.follow(c.store.keys()...)
		c.reader.Store(r)
		err := r.Run(ctx, office.take)
		if !errors.As(err, new(*feed.RollbackError)) {
			return err
		}
		c.log.Warn("coordinator: the store has lost records of the group, reading it again", "err", err)
		office = term{coordinator: c, restate: true}
	}
}

// A term is a coordinator with what it has read.
type term struct {
	*coordinator
	machine machine.Machine
	loaded  bool   // all that was there before this term
	pending uint64 // nothing is decided before our own write of this revision was read
	restate bool   // the store has lost what was read before
}

func (t *term) take(ctx context.Context, b feed.Batch) error {
	for _, msg := range b.Msgs {
		entry, err := t.store.entry(msg)
		if err != nil {
			t.log.Error("coordinator: a record of the group cannot be read", "key", subjects.KVKey(t.store.bucket, msg.Subject), "err", err)
		}
		t.tell(t.machine.Apply(entry))
		if msg.Seq >= t.pending {
			t.pending = 0
		}
	}
	if !t.loaded && b.Pending == 0 {
		t.loaded = true
		if t.restate {
			t.machine.Restate()
		}
	}
	if !t.loaded || t.pending > 0 {
		return nil
	}
	if t.machine.Term() != t.record.Conn {
		return errDeposed // two who answer each other's plans would do so without end
	}
	if t.machine.Changed() {
		t.metrics.show(t.machine.View())
		t.decide(ctx)
		t.askForTick()
	}
	return nil
}

// tell logs and counts changes. What was there before this term was told by the one before.
func (t *term) tell(events []machine.Event) {
	for _, e := range events {
		if !t.loaded {
			continue
		}
		t.metrics.count(e)
		level := slog.LevelInfo
		if e.State == machine.Suspect || e.State == machine.Expired || e.Reason == machine.WhyOverdue {
			level = slog.LevelWarn
		}
		t.log.Log(context.Background(), level, "coordinator: "+e.String(), attributes(e)...)
	}
}

func attributes(e machine.Event) []any {
	switch e.About {
	case machine.AboutMember:
		return []any{"about", e.Member, "state", e.State, "reason", e.Reason}
	case machine.AboutCoordinator:
		return []any{"coordinator", e.Member}
	}
	all := []any{"partition", *e.Partition, "from", e.From, "to", e.To, "reason", e.Reason}
	if e.About == machine.AboutPartition {
		all = append(all, "generation", e.Generation)
	}
	return all
}

// removalsAtOnce bounds the removals under way.
const removalsAtOnce = 16

// decide writes what the machine decides. A write that fails, or whose acknowledgement is lost,
// is decided again when the next tick is read. A conflict says that somebody spoke up at the last
// moment, or coordinates by now, or that the store has lost what was read.
func (t *term) decide(ctx context.Context) {
	decision := t.machine.Decide(t.record.Holder)
	removed := make([]uint64, len(decision.Remove))
	var group errgroup.Group
	group.SetLimit(removalsAtOnce)
	for i, r := range decision.Remove {
		group.Go(func() (err error) {
			key := subjects.KeyCohortMember(t.store.group, r.ID)
			removed[i], err = t.store.end(ctx, key, r.Reason, r.Revision)
			return t.compare(ctx, err, key, r.Revision)
		})
	}
	err := group.Wait()
	if len(removed) > 0 {
		t.pending = slices.Max(removed)
	}
	if decision.Plan != nil {
		key := subjects.KeyCohort(t.store.group, subjects.CohortPlanKind)
		t.pending, err = t.store.put(ctx, key, decision.Plan, decision.Expects, 0)
		err = t.compare(ctx, err, key, decision.Expects)
	}
	if err != nil && ctx.Err() == nil {
		t.log.Warn("coordinator: writing a decision", "err", err)
	}
}

// compare takes the error of a write, and returns it unless it is a conflict: then it looks for a loss.
func (t *term) compare(ctx context.Context, err error, key string, known uint64) error {
	if !errors.Is(err, errConflict) {
		return err
	}
	stored, err := t.store.get(ctx, key)
	if err == nil {
		t.suspectLoss(stored, known)
	}
	return err
}

// askForTick has time pass when the next deadline is due.
func (t *term) askForTick() {
	next := t.machine.Next()
	if next.IsZero() {
		return
	}
	select {
	case <-t.wish: // an older one
	default:
	}
	t.wish <- next.Sub(t.machine.Clock())
}

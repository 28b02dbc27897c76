package cohort

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/internal/session"
	"github.com/rollcall-io/rollcall/subjects"
)

// A Member takes part in a group from [Join] until [Member.Done].
type Member struct {
	cfg     Config
	nc      *nats.Conn
	store   *store
	timing  Timing
	log     *slog.Logger
	metrics *metrics

	assignments chan Assignment
	beatNow     chan struct{} // the record is out of date
	claimNow    chan struct{} // the plan gives us something
	lease       leaseWatch
	cancel      context.CancelCauseFunc
	goodbye     chan struct{} // closed when it was said
	done        chan struct{}
	err         error // why it is over; set before done is closed

	mu       sync.Mutex
	conn     string // this connection and no other
	revision uint64 // of the own record
	plan     subjects.CohortPlan
	held     map[int]*holding
	released map[int]uint64 // what was given up of what the plan says is ours, by generation
	progress time.Time
	bye      subjects.CohortBye
	last     Assignment // that was handed over
	over     bool
}

// Join registers a member, which is its first sign of life, and takes part until [Member.Leave],
// or until ctx ends: that looks like a crash.
func Join(ctx context.Context, nc *nats.Conn, cfg Config) (*Member, error) {
	cfg, names, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	store, err := makeStore(ctx, nc, names.CohortBucket(cfg.Bucket), cfg.Group)
	if err != nil {
		return nil, err
	}
	store.hook = cfg.hooks.write
	settings, err := store.agree(ctx, cfg)
	if err != nil {
		return nil, err
	}
	m := &Member{
		cfg: cfg, nc: nc, store: store, timing: settings.Timing, log: cfg.Logger.With("group", cfg.Group, "member", cfg.ID),
		assignments: make(chan Assignment, 1), beatNow: make(chan struct{}, 1), claimNow: make(chan struct{}, 1),
		lease: newLeaseWatch(), goodbye: make(chan struct{}), done: make(chan struct{}),
		held: make(map[int]*holding), released: make(map[int]uint64), progress: time.Now(),
	}
	if m.metrics, err = newMetrics(m); err != nil {
		return nil, err
	}
	if err := m.register(ctx); err != nil {
		m.metrics.unregister()
		return nil, err
	}
	ctx, end := session.Context(ctx, nc)
	ctx, m.cancel = context.WithCancelCause(ctx)
	go func() {
		defer end()
		m.run(ctx)
	}()
	return m, nil
}

// run ends when the first part of the member does.
func (m *Member) run(ctx context.Context) {
	group, running := errgroup.WithContext(ctx)
	for _, part := range []func(context.Context) error{m.beat, m.follow, m.claim, m.campaign} {
		group.Go(func() error { return part(running) })
	}
	err := group.Wait()
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	m.mu.Lock()
	m.over, m.err = true, err
	clear(m.held)
	close(m.assignments)
	m.mu.Unlock()
	m.metrics.unregister()
	if !errors.Is(err, ErrLeft) {
		m.log.Warn("member has ended", "err", err)
	}
	m.cancel(err)
	close(m.done)
}

// agree reads what the group has agreed on, or makes it, and refuses what differs.
func (s *store) agree(ctx context.Context, cfg Config) (*subjects.CohortGroup, error) {
	found, err := s.settings(ctx)
	if errors.Is(err, ErrNoGroup) {
		if cfg.Partitions == 0 {
			return nil, fmt.Errorf("%w; the first member says how many partitions it has", err)
		}
		made := subjects.CohortGroup{Partitions: cfg.Partitions, Timing: cfg.Timing}
		if made.Timing == (Timing{}) {
			made.Timing = Worker()
		}
		err = s.create(ctx, made)
		if err == nil {
			return &made, nil
		}
		if !errors.Is(err, errConflict) {
			return nil, err
		}
		found, err = s.settings(ctx) // somebody was faster
	}
	if err != nil {
		return nil, err
	}
	if cfg.Partitions != 0 && cfg.Partitions != found.Partitions {
		return nil, fmt.Errorf("%w: %q has %d partitions, not %d", ErrDiffers, cfg.Group, found.Partitions, cfg.Partitions)
	}
	if cfg.Timing != (Timing{}) && cfg.Timing != found.Timing {
		return nil, fmt.Errorf("%w: %q has the timing %+v, not %+v", ErrDiffers, cfg.Group, found.Timing, cfg.Timing)
	}
	return found, nil
}

// create writes what a group agrees on; it fails with errConflict if it is there.
func (s *store) create(ctx context.Context, group subjects.CohortGroup) error {
	key := subjects.KeyCohort(s.group, subjects.CohortGroupKind)
	stored, err := s.get(ctx, key)
	if err != nil {
		return err
	}
	if stored.value != nil {
		return errConflict
	}
	_, err = s.put(ctx, key, group, stored.revision, 0)
	return err
}

// ID is the member's id.
func (m *Member) ID() string { return m.cfg.ID }

// Done is closed when the member takes part no more; [Member.Err] says why.
func (m *Member) Done() <-chan struct{} { return m.done }

// Err is nil before [Member.Done]. Then it is [ErrLeft], [ErrReplaced], [rollcall.ErrDisconnected],
// or why the context has ended.
func (m *Member) Err() error {
	select {
	case <-m.done:
		return m.err
	default:
		return nil
	}
}

// Progress says that the member has made some. A commit says so too.
func (m *Member) Progress() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.progress = time.Now()
}

// Leave says goodbye for a restart: the partitions wait for the member, for [Timing.Hold], and
// nobody works on them. Call it when their work has ended and is committed. When ctx ends
// before the goodbye is stored, the member ends like one that crashed.
func (m *Member) Leave(ctx context.Context) error { return m.leave(ctx, subjects.ByeRestart) }

// Retire says goodbye for good: the partitions move at once. To move them before, while they
// can still be released one by one, have the member drained.
func (m *Member) Retire(ctx context.Context) error { return m.leave(ctx, subjects.ByeFinal) }

func (m *Member) leave(ctx context.Context, bye subjects.CohortBye) error {
	m.mu.Lock()
	m.bye = bye
	clear(m.held)
	m.mu.Unlock()
	wake(m.beatNow)
	var err error
	select {
	case <-m.goodbye:
	case <-m.done:
	case <-ctx.Done():
		err = fmt.Errorf("cohort: saying goodbye: %w", context.Cause(ctx))
	}
	m.cancel(ErrLeft)
	<-m.done
	if err == nil && !errors.Is(m.err, ErrLeft) {
		return m.err
	}
	return err
}

// wake tells whoever waits on a channel of one; it may know already.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// newConn is a connection id.
func newConn() string { return rand.Text() }

// notOwner is the error of a partition that belongs to somebody else.
func notOwner(partition int) error {
	return fmt.Errorf("%w: partition %d", rollcall.ErrNotOwner, partition)
}

package live

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/internal/session"
	"github.com/rollcall-io/rollcall/internal/shards"
	"github.com/rollcall-io/rollcall/ledger/store"
	"github.com/rollcall-io/rollcall/subjects"
)

// Ledger follows a fabric. Use [New].
type Ledger struct {
	cfg     Config
	zones   []zone
	nc      *nats.Conn
	js      jetstream.JetStream
	store   store.Store
	metrics *metrics
	owner   *shards.Owner
	fatal   chan error // why no shard can be followed

	mu     sync.Mutex
	fabric fabric.Fabric
	shards map[int]*shard // followed now
}

// New checks the configuration; [Ledger.Run] starts the ledger.
func New(nc *nats.Conn, s store.Store, c Config) (*Ledger, error) {
	c, zones, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	if _, err := subjects.New(c.Prefix, 1); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("live: %w", err)
	}
	l := &Ledger{
		cfg: c, zones: zones, nc: nc, js: js, store: s, metrics: newMetrics(), fatal: make(chan error, 1), shards: make(map[int]*shard),
	}
	owning := shards.Config{
		Conn: nc, JetStream: js, Group: subjects.LedgerGroup, Member: c.Member, Holder: fabric.ThisProcess(), Logger: c.Logger, Registerer: c.Registerer,
	}
	if c.Member == "" {
		owning.Ownership = uncontested{l}
	}
	l.owner = shards.New(owning)
	if c.Registerer != nil {
		if err := l.register(c.Registerer); err != nil {
			return nil, fmt.Errorf("live: metrics: %w", err)
		}
	}
	return l, nil
}

// Run follows the shards until ctx ends, or [Ledger.Drain]; then it stores what it has read, for five
// seconds at most. It returns [rollcall.ErrDisconnected] if the connection is gone for
// good, and waits for a database or a NATS that is away.
func (l *Ledger) Run(ctx context.Context) error {
	ctx, cancel := session.Context(ctx, l.nc)
	defer cancel()
	return session.Reason(ctx, l.run(ctx))
}

func (l *Ledger) run(ctx context.Context) error {
	found, err := fabric.Await(ctx, l.js, l.cfg.Prefix, l.cfg.Logger)
	if err != nil {
		return err
	}
	if err := l.enter(found); err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer end()
		return l.owner.Own(ctx, found.Names, l.follow)
	})
	group.Go(func() error { return l.answer(ctx) })
	group.Go(func() error {
		select {
		case err := <-l.fatal:
			return err
		case <-ctx.Done():
			return nil
		}
	})
	return group.Wait()
}

// Drain is the polite leave: what was read is stored, another ledger of the group follows the shards
// from there at once, and Run returns nil. It waits for that. If ctx ends first, the ledger goes on
// leaving until Run's context ends.
func (l *Ledger) Drain(ctx context.Context) error { return l.owner.Drain(ctx) }

func (l *Ledger) enter(found fabric.Fabric) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.cfg.Shards); n > 0 && (l.cfg.Shards[0] < 0 || l.cfg.Shards[n-1] >= found.Shards()) {
		return fmt.Errorf("%w: shards %v of a fabric that has %d, from 0", ErrConfig, l.cfg.Shards, found.Shards())
	}
	l.fabric = found
	return nil
}

// follow follows one shard while it is granted.
func (l *Ledger) follow(ctx context.Context, g rollcall.Grant) error {
	s := newShard(l, g)
	l.mu.Lock()
	l.shards[g.Shard] = s
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.shards, g.Shard)
		l.metrics.storedAt.DeleteLabelValues(s.label) // it would look stuck
	}()
	err := s.run(ctx)
	if errors.Is(err, store.ErrDefinition) {
		select {
		case l.fatal <- err: // nobody can follow any shard so
		default:
		}
	}
	return err
}

// uncontested follows shards that nobody grants. Whoever else does so by mistake stands by.
type uncontested struct{ *Ledger }

// Own implements [rollcall.Ownership].
func (u uncontested) Own(ctx context.Context, run func(context.Context, rollcall.Grant) error) error {
	numbers := u.cfg.Shards
	if len(numbers) == 0 {
		for shard := range u.total() {
			numbers = append(numbers, shard)
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, number := range numbers {
		group.Go(func() error { return run(ctx, rollcall.Grant{Shard: number}) })
	}
	return group.Wait()
}

// total is how many shards the fabric has; 0 before it is found.
func (l *Ledger) total() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fabric.Shards()
}

func (l *Ledger) all() []*shard {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.SortedFunc(maps.Values(l.shards), func(a, b *shard) int { return a.number - b.number })
}

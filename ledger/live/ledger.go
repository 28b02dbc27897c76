package live

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/internal/session"
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

	mu     sync.Mutex
	fabric fabric.Fabric
	shards []*shard
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
	l := &Ledger{cfg: c, zones: zones, nc: nc, js: js, store: s, metrics: newMetrics()}
	if c.Registerer != nil {
		if err := l.register(c.Registerer); err != nil {
			return nil, fmt.Errorf("live: metrics: %w", err)
		}
	}
	return l, nil
}

// Run follows the shards until ctx ends; then it stores what it has read, for five
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
	group, ctx := errgroup.WithContext(ctx)
	for _, s := range l.shards {
		group.Go(func() error { return s.run(ctx) })
	}
	group.Go(func() error { return l.answer(ctx) })
	group.Go(func() error { return l.summarise(ctx) })
	return group.Wait()
}

func (l *Ledger) enter(found fabric.Fabric) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	numbers := l.cfg.Shards
	if len(numbers) == 0 {
		for shard := range found.Shards() {
			numbers = append(numbers, shard)
		}
	}
	if first, last := slices.Min(numbers), slices.Max(numbers); first < 0 || last >= found.Shards() {
		return fmt.Errorf("%w: shards %v of a fabric that has %d, from 0", ErrConfig, numbers, found.Shards())
	}
	l.fabric, l.shards = found, nil
	for _, number := range numbers {
		l.shards = append(l.shards, newShard(l, found, number))
	}
	return nil
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
	return l.shards
}

// summarise logs a line with the figures from time to time.
func (l *Ledger) summarise(ctx context.Context) error {
	if l.cfg.Summary < 0 {
		return nil
	}
	every := time.NewTicker(l.cfg.Summary)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
			stats, sum := l.ask(ctx)
			l.cfg.Logger.Info("summary", "online", stats.Online, "active", stats.Active, "shards", len(stats.Shards),
				"as_of", stats.AsOf.Format(time.RFC3339), "behind", sum.behind, "sessions", sum.sessions,
				"stored", l.metrics.rows.Load(), "refused", l.metrics.refusals.Load())
		}
	}
}

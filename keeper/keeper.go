package keeper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/internal/session"
	"github.com/rollcall-io/rollcall/internal/shards"
	"github.com/rollcall-io/rollcall/keeper/machine"
	"github.com/rollcall-io/rollcall/subjects"
)

// Config of a keeper. The zero value is a keeper of all shards of the default
// fabric.
type Config struct {
	Prefix string // of the fabric; default subjects.DefaultPrefix
	Holder string // names this process in ownership records; default host and pid
	// Member is the id of this keeper among those that share the shards out among
	// themselves. No two may have the same; who keeps it over a restart finds its shards
	// again. Default: this process owns all shards alone.
	Member string
	// Ownership grants shards instead of either.
	Ownership rollcall.Ownership
	// CheckpointEvery bounds what a successor reads again; default one minute.
	CheckpointEvery time.Duration
	Logger          *slog.Logger          // default: silent
	Registerer      prometheus.Registerer // default: metrics are not registered
	Tracer          trace.TracerProvider  // goes on with the traces of edges; default: there are none
}

// Keeper runs the state machines of the shards it owns.
type Keeper struct {
	cfg     Config
	nc      *nats.Conn
	js      jetstream.JetStream
	owner   *shards.Owner
	latency *prometheus.HistogramVec
	bounds  *prometheus.GaugeVec
	late    *prometheus.CounterVec
	refused atomic.Uint64 // by the store
	tallies tallies
	since   time.Time // when this process began to count

	mu     sync.Mutex
	total  int // shards of the fabric; 0 before it is found
	shards map[int]*shard
	past   machine.Stats // of shards given up
}

// New checks the configuration; [Keeper.Run] starts the keeper.
func New(nc *nats.Conn, cfg Config) (*Keeper, error) {
	if cfg.Prefix == "" {
		cfg.Prefix = subjects.DefaultPrefix
	}
	if _, err := subjects.New(cfg.Prefix, 1); err != nil {
		return nil, fmt.Errorf("keeper: %w", err)
	}
	if cfg.Holder == "" {
		cfg.Holder = fabric.ThisProcess()
	}
	if cfg.CheckpointEvery <= 0 {
		cfg.CheckpointEvery = time.Minute
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	js, err := jetstream.New(nc,
		jetstream.WithPublishAsyncMaxPending(maxInFlight), jetstream.WithPublishAsyncTimeout(ackTimeout))
	if err != nil {
		return nil, fmt.Errorf("keeper: %w", err)
	}
	k := &Keeper{
		cfg: cfg, nc: nc, js: js,
		latency: newLatency(), bounds: newBounds(), late: newLate(), since: time.Now(), shards: make(map[int]*shard),
	}
	k.owner = shards.New(shards.Config{
		Conn: nc, JetStream: js, Group: subjects.KeeperGroup, Member: cfg.Member, Holder: cfg.Holder, Ownership: cfg.Ownership,
		Logger: cfg.Logger, Registerer: cfg.Registerer,
	})
	if cfg.Registerer != nil {
		for _, c := range []prometheus.Collector{k.latency, k.bounds, k.late, collector{k}} {
			if err := cfg.Registerer.Register(c); err != nil {
				return nil, fmt.Errorf("keeper: metrics: %w", err)
			}
		}
	}
	return k, nil
}

// Run keeps the shards that are granted until ctx ends, which looks like a crash
// to everybody else and loses nothing; [Keeper.Drain] ends it with nil. It returns [rollcall.ErrNotOwner] if the
// ownership is gone for good and [rollcall.ErrDisconnected] if the connection is, and
// waits for a store that is away.
func (k *Keeper) Run(ctx context.Context) error {
	ctx, cancel := session.Context(ctx, k.nc)
	defer cancel()
	return session.Reason(ctx, k.run(ctx))
}

func (k *Keeper) run(ctx context.Context) error {
	found, err := fabric.Await(ctx, k.js, k.cfg.Prefix, k.cfg.Logger)
	if err != nil {
		return err
	}
	k.showBounds(found.Params)
	k.mu.Lock()
	k.total = found.Shards()
	k.mu.Unlock()
	stop, err := k.answer(found)
	if err != nil {
		return err
	}
	defer stop()
	return k.owner.Own(ctx, found.Names, func(ctx context.Context, g rollcall.Grant) error {
		s := newShard(k, found, g)
		k.enter(s)
		defer k.leave(s)
		err := s.run(ctx)
		if errors.Is(err, errLost) {
			k.reload()
		}
		return err
	})
}

// Drain is the polite leave: every shard is released, another keeper of the group takes it over
// at once, and Run returns nil. It waits for that. If ctx ends first, the keeper goes on leaving
// until Run's context ends.
func (k *Keeper) Drain(ctx context.Context) error { return k.owner.Drain(ctx) }

func (k *Keeper) enter(s *shard) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.shards[s.grant.Shard] = s
}

func (k *Keeper) leave(s *shard) {
	k.mu.Lock()
	defer k.mu.Unlock()
	past := s.stats()
	past.Users, past.Online, past.Leases, past.Connections = 0, 0, 0, 0
	k.past = k.past.Add(past)
	delete(k.shards, s.grant.Shard)
}

// reload counts a shard that must be loaded again.
func (k *Keeper) reload() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.past.RecordsLost++
}

// Stats sums over the shards owned now and, for counters, before.
func (k *Keeper) Stats() machine.Stats {
	k.mu.Lock()
	defer k.mu.Unlock()
	sum := k.past
	for _, s := range k.shards {
		sum = sum.Add(s.stats())
	}
	return sum
}

// Ready says whether the log of every shard that this keeper owns is read up to the present,
// and whether there is one: all shards of the fabric, unless it shares them with others.
func (k *Keeper) Ready() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	want := k.total
	if !k.owner.Alone() {
		want = len(k.shards)
	}
	return want > 0 && k.readyLocked() == want
}

func (k *Keeper) readyLocked() (ready int) {
	for _, s := range k.shards {
		if s.caughtUp.Load() {
			ready++
		}
	}
	return ready
}

package fanout

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/internal/session"
	"github.com/rollcall-io/rollcall/internal/shards"
	"github.com/rollcall-io/rollcall/subjects"
)

// Fanout serves viewers. Use [New], then [Fanout.Run].
type Fanout struct {
	nc      *nats.Conn
	js      jetstream.JetStream
	cfg     Config
	metrics *metrics
	owner   *shards.Owner
	fabric  fabric.Fabric // known once Run has begun
	asker   *asker        // nil if users' policies decide
	id      string        // among peers; another one after every start
	desks   []*desk
	seed    maphash.Seed
	// turns lets one job at a time change what a viewer has; many viewers share one.
	turns [desks]chan struct{}
	// background runs work that a request leaves behind; Run waits for it.
	background func(work func(context.Context))
	ready      chan struct{}
	running    atomic.Bool
	news       chan struct{} // there is something to tell the peers
	asks       atomic.Bool   // and to ask them
	leaving    atomic.Bool
	waiting    atomic.Int64 // requests that are not answered yet

	mu        sync.Mutex
	granted   int // shards granted now, loaded or not
	shards    map[int]*shard
	peers     map[string]*peer
	answering bool
	readied   bool
}

// New checks the configuration and starts nothing. nc must stay open while the
// fanout runs.
func New(nc *nats.Conn, cfg Config) (*Fanout, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncTimeout(storeTimeout))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	f := &Fanout{
		nc: nc, js: js, cfg: cfg, id: rand.Text(), seed: maphash.MakeSeed(),
		ready: make(chan struct{}), news: make(chan struct{}, 1), shards: make(map[int]*shard), peers: make(map[string]*peer),
	}
	f.owner = shards.New(shards.Config{
		Conn: nc, JetStream: js, Group: subjects.FanoutGroup, Member: cfg.Member, Holder: cfg.Holder, Ownership: cfg.Ownership,
		Logger: cfg.Logger, Registerer: cfg.Registerer,
	})
	if f.metrics, err = newMetrics(cfg.Registerer, f.answered); err != nil {
		return nil, fmt.Errorf("%w: metrics: %w", ErrConfig, err)
	}
	for i := range f.turns {
		f.turns[i] = make(chan struct{}, 1)
	}
	return f, nil
}

// Ready is closed when requests are answered for every shard that the fanout owns, and for one at
// least: if it shares them with nobody, for every shard there is.
func (f *Fanout) Ready() <-chan struct{} { return f.ready }

// Run serves until ctx ends, which viewers cannot tell from a crash: their
// interests stay in the store until they expire. [Fanout.Drain] ends it with nil. It fails with
// [rollcall.ErrNotOwner] when another fanout has taken over, and with
// [rollcall.ErrNoFabric] if there is no fabric, and [rollcall.ErrDisconnected] when the
// connection is closed for good; a store that is away is waited for.
// Run can be called once.
func (f *Fanout) Run(ctx context.Context) error {
	if f.running.Swap(true) {
		return ErrRunning
	}
	ctx, cancel := session.Context(ctx, f.nc)
	defer cancel()
	return session.Reason(ctx, f.run(ctx))
}

func (f *Fanout) run(ctx context.Context) error {
	found, err := fabric.Await(ctx, f.js, f.cfg.Prefix, f.cfg.Logger)
	if err != nil {
		return fmt.Errorf("fanout: %w", err)
	}
	f.fabric = found
	f.asker = f.newAsker()
	ctx, end := context.WithCancel(ctx)
	defer end()
	group, ctx := errgroup.WithContext(ctx)
	f.background = func(work func(context.Context)) { group.Go(func() error { work(ctx); return nil }) }
	silence, err := f.listen(ctx, group)
	if err != nil {
		end()
		group.Wait() // who serves peers, which ends with ctx
		return err
	}
	defer silence()
	stop, err := f.answer(ctx, group)
	if err != nil {
		end()
		group.Wait() // the desks, which end with ctx
		return err
	}
	deafen, err := f.hearChanges()
	if err != nil {
		end()
		group.Wait()
		return err
	}
	defer deafen()
	group.Go(func() error { f.followConnection(ctx); return nil })
	group.Go(func() error { f.mingle(ctx); return nil })
	group.Go(func() error {
		// Nothing is left to do when no shard can be owned any more.
		defer end()
		defer f.retire(ctx, stop)
		return f.owner.Own(ctx, f.fabric.Names, f.runShard)
	})
	return group.Wait()
}

// Drain is the polite leave: every shard is released, another fanout of the group takes it over at
// once without any client's help, and Run returns nil. It waits for that. If ctx ends first, the
// fanout goes on leaving until Run's context ends.
func (f *Fanout) Drain(ctx context.Context) error { return f.owner.Drain(ctx) }

// lastRequests is how long requests may be on their way to a fanout that leaves.
const lastRequests = 100 * time.Millisecond

// retire leaves requests to the other fanouts, and waits until those that have come here are
// answered.
func (f *Fanout) retire(ctx context.Context, stop func()) {
	defer stop()
	if ctx.Err() != nil {
		return // a crash
	}
	f.leaving.Store(true)
	f.say(f.state())
	stop()
	ctx, cancel := context.WithTimeout(ctx, storeTimeout+lastRequests)
	defer cancel()
	for pause := lastRequests; ctx.Err() == nil; pause = lastRequests / 10 {
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		if f.waiting.Load() == 0 {
			return
		}
	}
}

func (f *Fanout) runShard(ctx context.Context, g rollcall.Grant) error {
	f.mu.Lock()
	f.granted++
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.granted--
		f.mu.Unlock()
	}()
	err := newShard(f, g).run(ctx)
	if errors.Is(err, rollcall.ErrNotOwner) {
		f.cfg.Logger.Info("shard lost", "shard", g.Shard, "generation", g.Generation, "err", err)
	}
	return err
}

// admit makes a loaded shard answer.
func (f *Fanout) admit(sh *shard) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.shards[sh.grant.Shard] = sh
	f.metrics.answers(sh, true)
	signal(f.news)
	f.checkReadyLocked()
}

// answered lists the shards that are answered for here.
func (f *Fanout) answered() []*shard {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Values(f.shards))
}

// dismiss ends that, unless the shard has been granted anew.
func (f *Fanout) dismiss(sh *shard) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.shards[sh.grant.Shard] == sh {
		delete(f.shards, sh.grant.Shard)
		f.metrics.answers(sh, false)
		signal(f.news)
	}
}

func (f *Fanout) checkReadyLocked() {
	want := f.fabric.Shards()
	if !f.owner.Alone() {
		want = max(f.granted, 1)
	}
	if !f.readied && f.answering && len(f.shards) >= want {
		f.readied = true
		close(f.ready)
	}
}

// followConnection tells viewers where they stand after every reconnect.
func (f *Fanout) followConnection(ctx context.Context) {
	connected := f.nc.StatusChanged(nats.CONNECTED)
	defer f.nc.RemoveStatusListener(connected)
	for {
		select {
		case <-ctx.Done():
			return
		case <-connected:
			f.mu.Lock()
			for _, sh := range f.shards {
				sh.reconnected()
			}
			f.mu.Unlock()
			f.askPeers() // what they said meanwhile is lost
		}
	}
}

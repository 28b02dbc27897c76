package fanout

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/internal/feed"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// A shard runs one board under one grant: the views come in, messages go out.
type shard struct {
	fanout *Fanout
	grant  rollcall.Grant
	label  string
	log    *slog.Logger

	refusals fabric.Refusals // of interests

	store  *store
	bucket string // of views
	lose   context.CancelCauseFunc
	reader atomic.Pointer[feed.Reader]
	wake   chan struct{} // there may be something to publish
	asked  chan struct{} // there may be questions to the application
	loaded chan struct{} // closed when the views are complete

	mu       sync.Mutex
	board    *board
	traces   *traces
	progress chan struct{} // closed, and replaced, when more of the bucket is read
}

func newShard(f *Fanout, g rollcall.Grant) *shard {
	log := f.cfg.Logger.With("shard", g.Shard, "generation", g.Generation)
	return &shard{
		fanout: f, grant: g, label: strconv.Itoa(g.Shard),
		log:    log,
		store:  newStore(f.js, f.fabric.InterestBucket(g.Shard), f.cfg.InterestTTL),
		bucket: f.fabric.ViewsBucket(g.Shard),
		wake:   make(chan struct{}, 1), asked: make(chan struct{}, 1), loaded: make(chan struct{}), progress: make(chan struct{}),
		refusals: fabric.Refusals{Log: log, What: "interests"},
		traces:   newTraces(f.cfg.Tracer, g.Shard),
		board: newBoard(boardConfig{
			shard: g.Shard, generation: g.Generation,
			address:  func(viewer string) string { return f.fabric.ViewEvents(viewer, g.Shard) },
			defaults: f.cfg.defaults(), asks: f.asker != nil, window: f.cfg.Window,
			ttl: f.cfg.InterestTTL, sightTTL: f.cfg.SightTTL, outage: f.fabric.Params.Outage, maxPayload: int(f.nc.MaxPayload()),
		}, time.Now()),
	}
}

// run takes the shard over and serves it until ctx ends or it is lost.
func (sh *shard) run(ctx context.Context) error {
	if err := sh.store.takeOver(ctx, sh.grant, sh.fanout.cfg.Holder); err != nil {
		return err
	}
	ctx, sh.lose = context.WithCancelCause(ctx)
	defer sh.lose(nil)
	pulses, err := sh.fanout.nc.Subscribe(sh.fanout.fabric.Pulse(sh.grant.Shard), sh.pulse)
	if err != nil {
		return err
	}
	defer pulses.Unsubscribe()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return sh.follow(ctx) })
	group.Go(func() error { return sh.store.run(ctx) })
	group.Go(func() error { return sh.store.watch(ctx, sh.grant.Generation) })
	group.Go(func() error { return sh.serve(ctx) })
	group.Go(func() error { return sh.inquire(ctx) })
	err = group.Wait()
	if cause := context.Cause(ctx); errors.Is(cause, rollcall.ErrNotOwner) {
		return cause
	}
	return err
}

// serve answers and publishes once the views and then the interests are loaded:
// what a restored viewer was told is what its targets look like now.
func (sh *shard) serve(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-sh.loaded:
	}
	parts, err := sh.store.load(ctx, func(subject string, err error) {
		sh.fanout.metrics.malformed.Inc()
		sh.log.Warn("interest ignored", "subject", subject, "err", err)
	})
	if err != nil {
		return err
	}
	sh.mu.Lock()
	now := time.Now()
	for _, p := range parts {
		sh.board.restore(p.viewer, p.part, p.targets, p.written, now)
	}
	sh.board.announceAll(now)
	streams, users := len(sh.board.streams), len(sh.board.known.views)
	sh.mu.Unlock()
	sh.log.Info("shard loaded", "users", users, "viewers", streams)
	sh.fanout.admit(sh)
	defer sh.fanout.dismiss(sh)
	return sh.publishAll(ctx)
}

// follow reads the views bucket; anew from its beginning if the store has lost
// what was read.
func (sh *shard) follow(ctx context.Context) error {
	for {
		reader := feed.New(sh.fanout.js, feed.Config{Stream: subjects.KVStream(sh.bucket)})
		sh.reader.Store(reader)
		err := reader.Run(ctx, sh.handle)
		if !errors.As(err, new(*feed.RollbackError)) {
			return err
		}
		sh.fanout.metrics.lost.Inc()
		sh.log.Warn("the store has lost views, reading all again", "err", err)
		sh.mu.Lock()
		sh.board.reload()
		sh.mu.Unlock()
	}
}

// handle takes a batch of records.
func (sh *shard) handle(_ context.Context, batch feed.Batch) error {
	changes := make([]change, 0, len(batch.Msgs))
	for _, m := range batch.Msgs {
		c, ok, err := readRecord(sh.bucket, m)
		if err != nil {
			sh.fanout.metrics.malformed.Inc()
			sh.log.Warn("damaged record", "err", err)
		}
		if ok {
			c.header = m.Header
			changes = append(changes, c)
		}
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := time.Now()
	for _, c := range changes {
		sh.board.apply(c, now)
		sh.traces.apply(c, now)
	}
	if n := len(batch.Msgs); n > 0 {
		sh.board.reach(batch.Msgs[n-1].Seq, now)
		close(sh.progress)
		sh.progress = make(chan struct{})
	}
	if batch.Pending == 0 {
		first := !sh.board.ready()
		sh.board.loaded(now)
		if first {
			close(sh.loaded)
		}
	}
	sh.rouse()
	return nil
}

// patience is how long the reader may stand still although a pulse has announced
// something, before it is made to look again.
const patience = 2 * time.Second

func (sh *shard) pulse(m *nats.Msg) {
	var p wire.Pulse
	if err := subjects.Decode(m.Data, &p); err != nil || int(p.Shard) != sh.grant.Shard {
		sh.fanout.metrics.malformed.Inc()
		return
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := time.Now()
	sh.board.pulse(p.Generation, p.Revision, now)
	if sh.board.health.stuck(now) >= patience {
		sh.board.health.moved = now
		if reader := sh.reader.Load(); reader != nil {
			reader.Kick()
		}
	}
	sh.rouse()
}

// step does one step of the board and has the outcome published.
func (sh *shard) step(do func(b *board, now time.Time)) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	do(sh.board, time.Now())
	sh.rouse()
}

// look is a step that changes nothing to be published.
func (sh *shard) look(at func(b *board, now time.Time)) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	at(sh.board, time.Now())
}

// rouse makes publishAll look again.
func (sh *shard) rouse() { signal(sh.wake) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

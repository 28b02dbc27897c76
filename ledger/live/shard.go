package live

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/internal/feed"
	"github.com/rollcall-io/rollcall/internal/retry"
	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/interval"
	"github.com/rollcall-io/rollcall/ledger/raw"
	"github.com/rollcall-io/rollcall/ledger/store"
)

// Pauses before something is tried again.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 15 * time.Second
)

// A shard is followed by one goroutine that owns its books. A transaction runs beside it,
// one at a time.
type shard struct {
	*Ledger
	fabric fabric.Fabric
	number int
	// generation of the grant; 0 if nobody grants shards.
	generation uint64
	source     string // names its checkpoints
	label      string // in metrics
	log        *slog.Logger

	asks    chan chan<- figures
	keeping atomic.Bool // somebody takes what asks
	waiting atomic.Bool // another ledger follows the shard
	reset   bool        // what the checkpoint knows was lost
	forgets int64       // users who were forgotten when the books were opened
}

func newShard(l *Ledger, g rollcall.Grant) *shard {
	f := l.fabric // does not change while shards are followed
	return &shard{
		Ledger: l, fabric: f, number: g.Shard, generation: g.Generation, source: f.LogStream(g.Shard), label: strconv.Itoa(g.Shard),
		log: l.cfg.Logger.With("shard", g.Shard), asks: make(chan chan<- figures),
	}
}

// granted says whether the shard may be followed by this ledger only.
func (s *shard) granted() bool { return s.generation > 0 }

// run keeps the shard's books until ctx ends, whatever happens.
func (s *shard) run(ctx context.Context) error {
	for attempt := 0; ; attempt++ {
		begun := time.Now()
		err := s.keep(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, store.ErrDefinition), errors.Is(err, rollcall.ErrNotOwner):
			return err
		case errors.Is(err, errForgotten):
			continue
		case errors.Is(err, store.ErrOvertaken) && s.granted():
			// By an older owner that woke, or a newer one: the checkpoint will say.
			s.metrics.overtook.WithLabelValues(s.label).Inc()
			s.log.Warn("another ledger has stored this shard; looking whose it is")
			s.reset = false
		case errors.Is(err, store.ErrOvertaken):
			s.metrics.overtook.WithLabelValues(s.label).Inc()
			s.log.Warn("another ledger follows this shard; standing by until it stops", "patience", s.cfg.Patience)
			s.reset = false // the other's checkpoint is as good as any
			s.standBy(ctx)
			attempt = 0
		case errors.As(err, new(*feed.RollbackError)):
			s.rebuild("the stream has lost what was read", err)
			attempt = 0
		default:
			s.log.Warn("following the shard", "err", err)
		}
		if time.Since(begun) > lastPause {
			attempt = 0
		}
		if !retry.Pause(ctx, retry.Backoff(attempt, firstPause, lastPause, rand.Int64N)) {
			return ctx.Err()
		}
	}
}

// rebuild has the streams read from their start again.
func (s *shard) rebuild(why string, err error) {
	s.reset = true
	s.metrics.rebuilds.WithLabelValues(s.label).Inc()
	s.log.Error("reading the streams from their start again: "+why, "err", err)
}

// standBy waits until no checkpoint has come for a while.
func (s *shard) standBy(ctx context.Context) {
	s.metrics.standby.WithLabelValues(s.label).Set(1)
	defer s.metrics.standby.WithLabelValues(s.label).Set(0)
	s.waiting.Store(true)
	defer s.waiting.Store(false)
	newest, since := int64(0), time.Now()
	for time.Since(since) < s.cfg.Patience {
		if c, err := s.store.Checkpoint(ctx, s.cfg.Definition.Version, s.source); err != nil || c.Revision != newest {
			newest, since = c.Revision, time.Now() // a database that is away says nothing of the other
		}
		if !retry.Pause(ctx, s.cfg.Patience/6) {
			return
		}
	}
	s.log.Warn("the other ledger has stopped; taking the shard over")
}

// keep goes on from the checkpoint.
func (s *shard) keep(ctx context.Context) error {
	k, err := s.load(ctx)
	if err == nil && s.granted() {
		err = s.claim(ctx, k)
	}
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	steps := make(chan raw.Step)
	group.Go(func() error {
		return raw.Follow(ctx, s.js, s.fabric.Names, s.number, k.position, func(step raw.Step) error {
			select {
			case steps <- step:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	})
	group.Go(func() error {
		s.keeping.Store(true)
		defer s.keeping.Store(false)
		return newClerk(s, k).work(ctx, steps)
	})
	return group.Wait()
}

// claim stores the checkpoint once more, under this generation. From then on nothing of whoever
// followed the shard before is stored, whatever it has read.
func (s *shard) claim(ctx context.Context, k *books) error {
	if k.generation > s.generation {
		return fmt.Errorf("%w: the checkpoint is of generation %d, after %d", rollcall.ErrNotOwner, k.generation, s.generation)
	}
	k.generation = s.generation
	batch, err := k.mark(s.source)
	if err != nil {
		return err
	}
	_, err = s.store.Apply(ctx, batch)
	return err
}

// load makes the definition known and reads the checkpoint.
func (s *shard) load(ctx context.Context) (*books, error) {
	if err := s.store.Define(ctx, s.cfg.Definition); err != nil {
		return nil, err
	}
	checkpoint, err := s.store.Checkpoint(ctx, s.cfg.Definition.Version, s.source)
	if err != nil {
		return nil, err
	}
	if checkpoint.Revision > 0 && !s.reset {
		k, err := restore(s.fabric.Names, s.cfg, s.zones, checkpoint)
		if err == nil {
			s.log.Info("going on", "log", k.position.Log, "beats", k.position.Beats, "sessions", k.builder.Sessions())
			return k, s.forget(ctx, k)
		}
		s.rebuild("the checkpoint cannot be used", err)
	}
	k, err := newBooks(s.fabric.Names, s.cfg, s.zones)
	if err != nil {
		return nil, err
	}
	k.revision = checkpoint.Revision
	return k, s.forget(ctx, k)
}

// forget notes how many users were forgotten, and takes them out of the books.
func (s *shard) forget(ctx context.Context, k *books) (err error) {
	if s.forgets, err = s.store.Forgets(ctx); err != nil || s.forgets == 0 {
		return err
	}
	return k.forget(func(user string) (bool, error) { return s.store.Forgotten(ctx, user) })
}

// errForgotten ends books that may name a user who was forgotten meanwhile.
var errForgotten = errors.New("live: a user was forgotten")

// rows are the shard's stored ones that have an instant within bounds.
func (s *shard) rows(ctx context.Context) func(interval.Interval) iter.Seq2[ledger.Session, error] {
	return func(bounds interval.Interval) iter.Seq2[ledger.Session, error] {
		return func(yield func(ledger.Session, error) bool) {
			for row, err := range s.store.Sessions(ctx, store.Query{Definition: s.cfg.Definition.Version, Bounds: bounds}) {
				if (err != nil || s.fabric.Shard(row.User) == s.number) && !yield(row, err) {
					return
				}
			}
		}
	}
}

package solo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// Ownership implements [rollcall.Ownership] for one process that owns everything.
type Ownership struct {
	JetStream jetstream.JetStream
	Names     subjects.Names
	Group     string       // "keeper" or "fanout"
	Holder    string       // for people who read the record
	Logger    *slog.Logger // nil discards
}

// A claim is one call of Own. Its holder is unique, so that a write of ours that
// was not acknowledged is not taken for another process's.
type claim struct {
	*Ownership
	holder string
	log    *slog.Logger
}

var _ rollcall.Ownership = (*Ownership)(nil)

// Own implements [rollcall.Ownership]. It returns [rollcall.ErrNotOwner] when
// another process has taken a shard over: one that runs solo owns all or nothing.
func (o *Ownership) Own(ctx context.Context, run func(context.Context, rollcall.Grant) error) error {
	c := &claim{o, o.Holder + " " + rand.Text(), o.Logger}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	group, ctx := errgroup.WithContext(ctx)
	for shard := range o.Names.Shards() {
		group.Go(func() error { return c.ownShard(ctx, shard, run) })
	}
	return group.Wait()
}

// shortest and longest pause before a shard is taken over again.
const (
	shortest = 50 * time.Millisecond
	longest  = 2 * time.Second
)

func (c *claim) ownShard(ctx context.Context, shard int, run func(context.Context, rollcall.Grant) error) error {
	log := c.log.With("group", c.Group, "shard", shard)
	var held uint64
	var told string // the last reason that was logged as more than a trifle
	for pause := shortest; ctx.Err() == nil; pause = min(2*pause, longest) {
		generation, err := c.advance(ctx, shard, held)
		if errors.Is(err, rollcall.ErrNotOwner) {
			return err
		}
		if err == nil {
			held = generation
			log.Info("shard taken over", "generation", generation)
			started := time.Now()
			err = run(ctx, rollcall.Grant{Shard: shard, Generation: generation})
			if time.Since(started) > 5*longest {
				pause, told = shortest, ""
			}
		}
		if ctx.Err() != nil {
			break
		}
		level := slog.LevelWarn
		if reason := fmt.Sprint(err); reason == told {
			level = slog.LevelDebug
		} else {
			told = reason
		}
		log.Log(ctx, level, "shard interrupted, taking it over again", "err", err, "pause", pause)
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + mathrand.N(pause/2)):
		}
	}
	return ctx.Err()
}

// advance makes the next generation of a shard ours, unless somebody else has
// taken it over since we held generation held.
func (c *claim) advance(ctx context.Context, shard int, held uint64) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	generations := fabric.Generations{JetStream: c.JetStream, Names: c.Names, Group: c.Group}
	last, revision, err := generations.Last(ctx, shard, func(err error) {
		// The generation is the second since 2000, and grows all the same.
		c.log.Warn("ownership record cannot be read", "shard", shard, "err", err)
	})
	if err != nil {
		return 0, fmt.Errorf("solo: %w", err)
	}
	if held > 0 && last.Generation > held && last.Holder != c.holder {
		return 0, fmt.Errorf("%w: %s %d was taken over by %s", rollcall.ErrNotOwner, c.Group, shard, by(last))
	}
	next := rollcall.NextGeneration(max(last.Generation, held), time.Now())
	if err := generations.Put(ctx, shard, &wire.OwnerRecord{Generation: next, Holder: c.holder}, revision); err != nil {
		return 0, fmt.Errorf("solo: %w", err)
	}
	return next, nil
}

// by says who has taken a shard over.
func by(owner *wire.OwnerRecord) string {
	if owner.Member != "" {
		return fmt.Sprintf("%q, which shares the shards with others (%s)", owner.Member, owner.Holder)
	}
	return fmt.Sprintf("%q", owner.Holder)
}

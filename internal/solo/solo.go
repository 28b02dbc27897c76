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
				pause = shortest
			}
		}
		if ctx.Err() != nil {
			break
		}
		log.Warn("shard interrupted, taking it over again", "err", err, "pause", pause)
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + mathrand.N(pause/2)):
		}
	}
	return ctx.Err()
}

// bucket finds the bucket of generations or makes it. One that is there may be
// replicated, and stays so.
func (c *claim) bucket(ctx context.Context) (jetstream.KeyValue, error) {
	name := c.Names.CohortBucket(c.Group)
	kv, err := c.JetStream.KeyValue(ctx, name)
	if !errors.Is(err, jetstream.ErrBucketNotFound) {
		return kv, err
	}
	return c.JetStream.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
		Bucket: name, History: 1, LimitMarkerTTL: time.Hour, Storage: jetstream.FileStorage,
	})
}

// advance makes the next generation of a shard ours, unless somebody else has
// taken it over since we held generation held.
func (c *claim) advance(ctx context.Context, shard int, held uint64) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	kv, err := c.bucket(ctx)
	if err != nil {
		return 0, fmt.Errorf("solo: bucket of generations: %w", err)
	}
	key := subjects.KeyShard(shard)
	var last wire.OwnerRecord
	var revision uint64
	entry, err := kv.Get(ctx, key)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
	case err != nil:
		return 0, fmt.Errorf("solo: reading the generation: %w", err)
	default:
		revision = entry.Revision()
		if err := subjects.Decode(entry.Value(), &last); err != nil {
			// As good as lost: the generation is the second since 2000, and grows all the same.
			c.log.Warn("ownership record cannot be read", "key", key, "err", err)
			last.Reset()
		}
	}
	if held > 0 && last.Generation > held && last.Holder != c.holder {
		return 0, fmt.Errorf("%w: %s %d was taken over by %q", rollcall.ErrNotOwner, c.Group, shard, last.Holder)
	}
	next := rollcall.NextGeneration(max(last.Generation, held), time.Now())
	value, err := subjects.Encode(&wire.OwnerRecord{Generation: next, Holder: c.holder})
	if err != nil {
		return 0, err
	}
	if _, err := kv.Update(ctx, key, value, revision); err != nil {
		return 0, fmt.Errorf("solo: writing the generation: %w", err)
	}
	return next, nil
}

package solo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// Ownership implements [rollcall.Ownership] for one process that owns everything.
type Ownership struct {
	JetStream jetstream.JetStream
	Names     subjects.Names
	Group     string // "keeper" or "fanout"
	Holder    string // for people who read the record
	Logger    *slog.Logger
}

var _ rollcall.Ownership = (*Ownership)(nil)

// Own implements [rollcall.Ownership]. It fails only if the bucket of generations
// cannot be made before ctx ends.
func (o *Ownership) Own(ctx context.Context, run func(context.Context, rollcall.Grant) error) error {
	var group sync.WaitGroup
	for shard := range o.Names.Shards() {
		group.Go(func() { o.ownShard(ctx, shard, run) })
	}
	group.Wait()
	return ctx.Err()
}

func (o *Ownership) ownShard(ctx context.Context, shard int, run func(context.Context, rollcall.Grant) error) {
	log := o.Logger.With("group", o.Group, "shard", shard)
	for pause := 50 * time.Millisecond; ctx.Err() == nil; pause = min(2*pause, 2*time.Second) {
		generation, err := o.advance(ctx, shard)
		if err == nil {
			log.Info("shard taken over", "generation", generation)
			started := time.Now()
			err = run(ctx, rollcall.Grant{Shard: shard, Generation: generation})
			if time.Since(started) > 10*time.Second {
				pause = 50 * time.Millisecond
			}
		}
		if ctx.Err() != nil {
			return
		}
		log.Warn("shard given up, taking it over again", "err", err, "pause", pause)
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + rand.N(pause/2)):
		}
	}
}

// advance makes the next generation of a shard ours.
func (o *Ownership) advance(ctx context.Context, shard int) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	kv, err := o.JetStream.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
		Bucket: o.Names.CohortBucket(o.Group), History: 1, LimitMarkerTTL: time.Hour, Storage: jetstream.FileStorage,
	})
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
			return 0, fmt.Errorf("solo: record %s: %w", key, err)
		}
	}
	next := rollcall.NextGeneration(last.Generation, time.Now())
	value, err := subjects.Encode(&wire.OwnerRecord{Generation: next, Holder: o.Holder})
	if err != nil {
		return 0, err
	}
	if _, err := kv.Update(ctx, key, value, revision); err != nil {
		return 0, fmt.Errorf("solo: writing the generation: %w", err)
	}
	return next, nil
}

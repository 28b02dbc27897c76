package fabric

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// Generations are the records of who took each shard over last. Whoever owns all shards
// alone and whoever shares them with a group write the same ones, so that generations grow
// and the older owner is told apart whichever way comes after the other.
type Generations struct {
	JetStream jetstream.JetStream
	Names     subjects.Names
	Group     string // of a kind of part, such as "keeper"
}

// Open finds the bucket or makes it. One that is there may be replicated, and stays so.
func (g Generations) Open(ctx context.Context) (jetstream.KeyValue, error) {
	name := g.Names.CohortBucket(g.Group)
	kv, err := g.JetStream.KeyValue(ctx, name)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		if _, err = g.JetStream.CreateOrUpdateStream(ctx, bucketOf(name, defaultReplicas, nil)); err == nil {
			kv, err = g.JetStream.KeyValue(ctx, name)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("fabric: bucket of generations: %w", err)
	}
	return kv, nil
}

// Last is the record of a shard, and what [Generations.Put] must expect to follow it. A
// record that cannot be read is as good as lost, and its reason is handed to damaged.
func (g Generations) Last(ctx context.Context, shard int, damaged func(error)) (last *wire.OwnerRecord, revision uint64, err error) {
	last = new(wire.OwnerRecord)
	kv, err := g.Open(ctx)
	if err != nil {
		return nil, 0, err
	}
	value, revision, err := Last(ctx, g.JetStream, kv.Bucket(), subjects.KeyShard(shard))
	if err != nil {
		return nil, 0, fmt.Errorf("fabric: reading the generation: %w", err)
	}
	if err := subjects.Decode(value, last); err != nil {
		last.Reset()
		damaged(err)
	}
	return last, revision, nil
}

// Put writes the record of a shard, unless somebody else has since.
func (g Generations) Put(ctx context.Context, shard int, next *wire.OwnerRecord, revision uint64) error {
	value, err := subjects.Encode(next)
	if err != nil {
		return err
	}
	kv, err := g.Open(ctx)
	if err != nil {
		return err
	}
	if _, err := kv.Update(ctx, subjects.KeyShard(shard), value, revision); err != nil {
		return fmt.Errorf("fabric: writing the generation: %w", err)
	}
	return nil
}

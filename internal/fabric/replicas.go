package fabric

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall/internal/retry"
	"github.com/rollcall-io/rollcall/subjects"
)

// ErrIncomplete says that some replica does not hold everything yet.
var ErrIncomplete = errors.New("fabric: replicas are not complete")

// Streams are the names of all streams of a fabric, those of its buckets among them.
func Streams(names subjects.Names) (all []string) {
	for _, bucket := range GroupBuckets(names) {
		all = append(all, subjects.KVStream(bucket))
	}
	for shard := range names.Shards() {
		all = append(all, subjects.KVStream(names.LeasesBucket(shard)), subjects.KVStream(names.ViewsBucket(shard)),
			subjects.KVStream(names.InterestBucket(shard)), names.BeatsStream(shard), names.LogStream(shard))
	}
	return all
}

// GroupBuckets are the buckets in which a fabric's worker groups agree.
func GroupBuckets(names subjects.Names) (all []string) {
	for _, group := range groups {
		all = append(all, names.CohortBucket(group))
	}
	return all
}

// Settled waits until every stream has as many replicas as it is configured for and all of them hold
// everything: the server answers a change of their number before it has copied anything. It fails
// with [ErrIncomplete] when ctx ends.
func Settled(ctx context.Context, js jetstream.JetStream, names subjects.Names) error {
	const often = 100 * time.Millisecond
	for _, name := range Streams(names) {
		for {
			info, err := info(ctx, js, name)
			if err == nil && complete(info) {
				break
			}
			if ctx.Err() != nil || !retry.Pause(ctx, often) {
				return fmt.Errorf("%w: %s", ErrIncomplete, name)
			}
		}
	}
	return nil
}

func info(ctx context.Context, js jetstream.JetStream, name string) (*jetstream.StreamInfo, error) {
	stream, err := js.Stream(ctx, name)
	if err != nil {
		return nil, err
	}
	return stream.CachedInfo(), nil
}

func complete(s *jetstream.StreamInfo) bool {
	if s.Cluster == nil {
		return true // there is one server
	}
	for _, r := range s.Cluster.Replicas {
		if r.Offline || !r.Current {
			return false
		}
	}
	return s.Cluster.Leader != "" && len(s.Cluster.Replicas) == s.Config.Replicas-1
}

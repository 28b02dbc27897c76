//go:build cluster

package cluster

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall/internal/feed"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// owners reads every write to the buckets of keepers and fanouts, and finds what no one owner after the
// other would write: an owner's record of a generation that is not newer, a user's record or a checkpoint
// that goes back in the log.
type owners struct {
	t       *testing.T
	reading sync.WaitGroup

	mu     sync.Mutex
	highs  map[string]uint64 // by bucket and key
	takes  int
	writes int
}

func watchOwners(ctx context.Context, t *testing.T, js jetstream.JetStream, names subjects.Names) *owners {
	o := &owners{t: t, highs: make(map[string]uint64)}
	for shard := range names.Shards() {
		for _, bucket := range []string{names.LeasesBucket(shard), names.ViewsBucket(shard), names.InterestBucket(shard)} {
			o.reading.Go(func() {
				err := feed.New(js, feed.Config{Stream: subjects.KVStream(bucket), Start: 1}).Run(ctx, func(_ context.Context, b feed.Batch) error {
					for _, m := range b.Msgs {
						o.check(bucket, m)
					}
					return nil
				})
				if !errors.Is(err, context.Canceled) {
					t.Errorf("%s: %v", bucket, err)
				}
			})
		}
	}
	return o
}

func (o *owners) check(bucket string, m feed.Msg) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.writes++
	key := subjects.KVKey(bucket, m.Subject)
	at := bucket + " " + key
	if subjects.KVGone(m.Header) {
		delete(o.highs, at)
		return
	}
	kind, _, _ := subjects.ParseKey(key)
	switch {
	case key == subjects.KeyOwner:
		var r wire.OwnerRecord
		o.decoded(at, subjects.Decode(m.Data, &r))
		o.takes++
		if r.Generation <= o.highs[at] {
			o.t.Errorf("%s: generation %d of %s after %d", at, r.Generation, r.Holder, o.highs[at])
		}
		o.highs[at] = r.Generation
	case key == subjects.KeyCheckpoint:
		var r wire.CheckpointRecord
		o.decoded(at, subjects.Decode(m.Data, &r))
		o.forward(at, r.Sequence)
	case kind == subjects.KindUser:
		var r wire.UserRecord
		o.decoded(at, subjects.Decode(m.Data, &r))
		o.forward(at, r.Sequence)
	}
}

func (o *owners) forward(at string, sequence uint64) {
	if sequence < o.highs[at] {
		o.t.Errorf("%s goes back from %d in the log to %d", at, o.highs[at], sequence)
	}
	o.highs[at] = sequence
}

func (o *owners) decoded(at string, err error) {
	if err != nil {
		o.t.Errorf("%s: %v", at, err)
	}
}

// counts are the takeovers and writes that were seen.
func (o *owners) counts() (takes, writes int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.takes, o.writes
}

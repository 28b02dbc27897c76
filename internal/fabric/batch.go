package fabric

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"github.com/rollcall-io/rollcall/subjects"
)

// MaxBatch is how many messages nats-server takes in one batch unless configured otherwise.
const MaxBatch = 1000

// batchBytes bounds what one batch keeps servers and their routes busy with.
const batchBytes = 4 << 20

// BatchOf is how many of these messages, from the first on, make one batch.
func BatchOf(msgs []*nats.Msg) (n int) {
	for size := 0; n < min(len(msgs), MaxBatch); n++ {
		if size += msgs[n].Size(); size > batchBytes && n > 0 {
			break
		}
	}
	return n
}

// Batched says whether a bucket wants what is written under one fence as [Batch] does. A
// replicated one refuses a write while another under the same fence is under way.
func Batched(ctx context.Context, js jetstream.JetStream, bucket string) (bool, error) {
	stream, err := js.Stream(ctx, subjects.KVStream(bucket))
	if err != nil {
		return false, fmt.Errorf("fabric: looking at %s: %w", bucket, err)
	}
	return stream.CachedInfo().Config.AllowAtomicPublish, nil
}

// Batch writes up to [MaxBatch] messages to a bucket, all or none, and returns the last
// revision. One batch under a fence must be answered before the next one begins. The messages
// are left as they are.
func Batch(ctx context.Context, js jetstream.JetStream, bucket string, fence uint64, msgs []*nats.Msg) (last uint64, err error) {
	copies := make([]*nats.Msg, len(msgs))
	for i, m := range msgs {
		copies[i] = &nats.Msg{Subject: m.Subject, Data: m.Data, Header: make(nats.Header, len(m.Header)+4)}
		for key, values := range m.Header {
			copies[i].Header[key] = values
		}
	}
	if len(copies) == 1 {
		ack, err := js.PublishMsg(ctx, copies[0], Fence(bucket, fence), jetstream.WithRetryAttempts(0))
		if err != nil {
			return 0, err
		}
		return ack.Sequence, nil
	}
	// The batch is stored as a whole: one fence holds all of it.
	fenceHeader(copies[0].Header, bucket, fence)
	ack, err := jetstreamext.PublishMsgBatch(ctx, js, copies)
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

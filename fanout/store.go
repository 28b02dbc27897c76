package fanout

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/internal/feed"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// A store keeps the interests of one shard in its bucket. Every write expects the
// owner's record unchanged, so that a fanout that has lost the shard cannot add
// an interest that its successor would not know.
type store struct {
	js     jetstream.JetStream
	bucket string
	ttl    time.Duration
	fence  uint64      // revision of the owner's record
	batch  atomic.Bool // what is written under the fence must be one batch after the other
	queue  chan storeWrite
}

// A storeWrite is what one request wants written, and who waits for it.
type storeWrite struct {
	msgs []*nats.Msg
	done chan error // has room for the outcome
}

// storeQueue is how many requests may wait for a batch.
const storeQueue = 4096

func newStore(js jetstream.JetStream, bucket string, ttl time.Duration) *store {
	return &store{js: js, bucket: bucket, ttl: ttl, queue: make(chan storeWrite, storeQueue)}
}

// takeOver makes the grant's holder the only one who may write.
func (st *store) takeOver(ctx context.Context, g rollcall.Grant, holder string) error {
	fence, err := fabric.TakeOver(ctx, st.js, st.bucket, g, holder)
	if err != nil {
		return fmt.Errorf("fanout: %w", err)
	}
	st.fence = fence
	if err := st.look(ctx); err != nil {
		return fmt.Errorf("fanout: %w", err)
	}
	return nil
}

// look sees how the bucket wants to be written, which changes when it is replicated.
func (st *store) look(ctx context.Context) error {
	batch, err := fabric.Batched(ctx, st.js, st.bucket)
	if err == nil {
		st.batch.Store(batch)
	}
	return err
}

// watch returns [rollcall.ErrNotOwner] when somebody else takes over.
func (st *store) watch(ctx context.Context, generation uint64) error {
	owner := subjects.KVSubject(st.bucket, subjects.KeyOwner)
	reader := feed.New(st.js, feed.Config{Stream: subjects.KVStream(st.bucket), Subjects: []string{owner}})
	return reader.Run(ctx, func(_ context.Context, b feed.Batch) error {
		for _, m := range b.Msgs {
			var record wire.OwnerRecord
			if subjects.Decode(m.Data, &record) == nil && record.Generation > generation {
				return fmt.Errorf("%w: %q owns generation %d", rollcall.ErrNotOwner, record.Holder, record.Generation)
			}
		}
		return nil
	})
}

// A storedPart is one record as it is found.
type storedPart struct {
	viewer  string
	part    int
	targets []string
	written time.Time
}

// load reads every interest. What cannot be read is handed to bad and left out.
func (st *store) load(ctx context.Context, bad func(subject string, err error)) ([]storedPart, error) {
	var parts []storedPart
	err := feed.All(ctx, st.js, subjects.KVStream(st.bucket), st.fence, func(m feed.Msg) error {
		key := subjects.KVKey(st.bucket, m.Subject)
		if key == subjects.KeyOwner || subjects.KVGone(m.Header) {
			return nil
		}
		p, err := readPart(key, m.Data)
		if err != nil {
			bad(m.Subject, err)
			return nil
		}
		p.written = m.Time
		parts = append(parts, p)
		return nil
	})
	return parts, err
}

// maxParts is how many parts an interest can have at most: each but one is full,
// or the viewer has unsubscribed from most of it.
const maxParts = subjects.MaxTargets

func readPart(key string, data []byte) (storedPart, error) {
	viewer, n, err := subjects.ParseInterest(key)
	if err != nil {
		return storedPart{}, err
	}
	if n < 0 || n >= maxParts {
		return storedPart{}, fmt.Errorf("%w: part %d", subjects.ErrMalformed, n)
	}
	var record wire.Interest
	if err := subjects.Decode(data, &record); err != nil {
		return storedPart{}, err
	}
	if len(record.Targets) > maxPart {
		return storedPart{}, fmt.Errorf("%w: %d targets", subjects.ErrMalformed, len(record.Targets))
	}
	for _, t := range record.Targets {
		if err := rollcall.CheckID(t); err != nil {
			return storedPart{}, err
		}
	}
	return storedPart{viewer: viewer, part: n, targets: record.Targets}, nil
}

// begin sends records to the store and returns how to wait for it. The order of
// calls is the order of writes. A record without targets is left to expire at once.
func (st *store) begin(viewer string, writes []partWrite) (wait func(context.Context) error) {
	msgs := make([]*nats.Msg, len(writes))
	for i, w := range writes {
		var err error
		if msgs[i], err = st.message(viewer, w); err != nil {
			return func(context.Context) error { return err }
		}
	}
	if st.batch.Load() {
		return st.enqueue(msgs)
	}
	return st.send(msgs)
}

func (st *store) message(viewer string, w partWrite) (*nats.Msg, error) {
	data, err := subjects.Encode(&wire.Interest{Targets: w.targets})
	if err != nil {
		return nil, err
	}
	ttl := st.ttl
	if len(w.targets) == 0 {
		ttl = time.Second
	}
	return &nats.Msg{
		Subject: subjects.KVSubject(st.bucket, subjects.KeyInterest(viewer, w.part)), Data: data,
		Header: nats.Header{jetstream.MsgTTLHeader: {ttl.String()}},
	}, nil
}

// send publishes each record by itself.
func (st *store) send(msgs []*nats.Msg) (wait func(context.Context) error) {
	var futures []jetstream.PubAckFuture
	var failed error
	for _, m := range msgs {
		future, err := st.js.PublishMsgAsync(m, fabric.Fence(st.bucket, st.fence))
		if err != nil {
			failed = err
			break
		}
		futures = append(futures, future)
	}
	return func(ctx context.Context) error {
		for _, f := range futures {
			select {
			case <-f.Ok():
			case err := <-f.Err():
				failed = errors.Join(failed, asLoss(err))
				if fabric.Busy(err) { // it has been replicated since the takeover
					failed = errors.Join(failed, st.look(ctx))
				}
			case <-ctx.Done():
				return errors.Join(failed, ctx.Err())
			}
		}
		return failed
	}
}

// enqueue leaves the records to run.
func (st *store) enqueue(msgs []*nats.Msg) (wait func(context.Context) error) {
	w := storeWrite{msgs, make(chan error, 1)}
	if len(msgs) == 0 {
		w.done <- nil
	} else {
		select {
		case st.queue <- w:
		default:
			w.done <- errors.New("fanout: too many interests wait to be stored")
		}
	}
	return func(ctx context.Context) error {
		select {
		case err := <-w.done:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// run writes what waits, as much at once as a batch can hold, until ctx ends.
func (st *store) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case first := <-st.queue:
			st.commit(ctx, st.gather(first))
		}
	}
}

func (st *store) gather(first storeWrite) []storeWrite {
	all, size := []storeWrite{first}, len(first.msgs)
	for size < fabric.MaxBatch {
		select {
		case w := <-st.queue:
			all, size = append(all, w), size+len(w.msgs)
		default:
			return all
		}
	}
	return all
}

// commit answers everybody with what became of the batch.
func (st *store) commit(ctx context.Context, all []storeWrite) {
	var msgs []*nats.Msg
	for _, w := range all {
		msgs = append(msgs, w.msgs...)
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	var err error
	for len(msgs) > 0 && err == nil {
		n := fabric.BatchOf(msgs)
		_, err = fabric.Batch(ctx, st.js, st.bucket, st.fence, msgs[:n])
		msgs = msgs[n:]
	}
	err = asLoss(err)
	for _, w := range all {
		w.done <- err
	}
}

// asLoss tells a write that was refused because of the fence.
func asLoss(err error) error {
	if fabric.Fenced(err) {
		return fmt.Errorf("%w: %w", rollcall.ErrNotOwner, err)
	}
	return err
}

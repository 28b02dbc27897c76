package keeper

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/internal/retry"
	"github.com/rollcall-io/rollcall/keeper/machine"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

const (
	maxInFlight = 4096            // writes waiting for their acknowledgement
	ackTimeout  = 5 * time.Second // then a write is tried again
	slack       = 30 * time.Second
	markerTTL   = time.Hour // how long a record that was purged leaves a trace
)

// A writer writes the records of one shard. Every write expects the revision of
// its bucket's owner record: the moment another keeper changes that, this one can
// write no more.
type writer struct {
	js     jetstream.JetStream
	names  subjects.Names
	shard  int
	params rollcall.Params

	header func(user string) nats.Header // of views that are in a trace; nil for none

	leases, views bucket
	viewsRevision uint64           // of the last view written
	verified      uint64           // the connection's reconnects when the buckets were last found whole
	refusals      *fabric.Refusals // for want of room; others are part of an election
}

// A bucket with the fence that was taken there.
type bucket struct {
	name  string
	fence uint64 // revision of the owner record
	last  uint64 // the last revision that was acknowledged
	batch bool   // what is written together must be one batch
}

// takeOver changes the owner records of both buckets.
func (w *writer) takeOver(ctx context.Context, g rollcall.Grant, holder string) error {
	ctx, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	for _, target := range []struct {
		bucket *bucket
		name   string
	}{{&w.leases, w.names.LeasesBucket(w.shard)}, {&w.views, w.names.ViewsBucket(w.shard)}} {
		fence, err := fabric.TakeOver(ctx, w.js, target.name, g, holder)
		if err != nil {
			return fmt.Errorf("keeper: %w", err)
		}
		batch, err := fabric.Batched(ctx, w.js, target.name)
		if err != nil {
			return fmt.Errorf("keeper: %w", err)
		}
		*target.bucket = bucket{target.name, fence, fence, batch}
	}
	w.viewsRevision = w.views.fence
	w.verified = w.session()
	return nil
}

// errLost says that a bucket no longer has what it acknowledged. The records in it
// and the machine that wrote them disagree: the shard must be loaded again.
var errLost = errors.New("keeper: the store has lost records")

// session counts the connections to the store that there have been.
func (w *writer) session() uint64 { return w.js.Conn().Stats().Reconnects }

// verify finds out, once after every reconnect, whether the buckets still have what
// they acknowledged. Do so before writing: an edge's record says that every user's
// record is there, which must not be written behind a loss. A store that is away is
// as it was. A loss without a reconnect shows by the sequences of the next
// acknowledgements.
func (w *writer) verify(ctx context.Context) error {
	session := w.session()
	if session == w.verified {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	for _, b := range []bucket{w.leases, w.views} {
		stream, err := w.js.Stream(ctx, subjects.KVStream(b.name))
		if err != nil {
			return nil
		}
		if last := stream.CachedInfo().State.LastSeq; last < b.last {
			return fmt.Errorf("%w: %s ends at %d and had %d", errLost, b.name, last, b.last)
		}
		if b.name != w.views.name {
			continue
		}
		// Policies are written there too, and may have taken the place of what was
		// lost. The last view written stays until the same user changes again.
		m, err := fabric.RecordAt(ctx, w.js, b.name, b.last)
		switch {
		case errors.Is(err, nats.ErrMsgNotFound), err == nil && !w.ownViews(m.Subject):
			return fmt.Errorf("%w: %s no longer has %d", errLost, b.name, b.last)
		case err != nil:
			return nil
		}
	}
	w.verified = session
	return nil
}

// ownViews says that only keepers write a record of the views bucket.
func (w *writer) ownViews(subject string) bool {
	key := subjects.KVKey(w.views.name, subject)
	kind, _, err := subjects.ParseKey(key)
	return err == nil && (kind == subjects.KindView || key == subjects.KeyOwner)
}

// write writes what has changed, views before users before edges, each group
// acknowledged before the next begins. It returns when everything is written; it
// fails only when ctx ends, with [rollcall.ErrNotOwner] when the shard is lost, with
// errLost when earlier records are, or for a record that cannot be encoded.
func (w *writer) write(ctx context.Context, c machine.Changes) error {
	views := make([]*nats.Msg, 0, len(c.Views))
	users := make([]*nats.Msg, 0, len(c.Users))
	edges := make([]*nats.Msg, 0, len(c.Edges))
	var failed error
	add := func(group []*nats.Msg, b bucket, key string, record proto.Message, gone bool) []*nats.Msg {
		msg, err := recordMsg(b, key, record, gone)
		if err != nil {
			failed = err
			return group
		}
		return append(group, msg)
	}
	for _, v := range c.Views {
		views = add(views, w.views, subjects.KeyView(v.User), v.Record, false)
	}
	for i, v := range c.Views {
		if failed == nil && w.header != nil {
			views[i].Header = w.header(v.User)
		}
	}
	for _, u := range c.Users {
		users = add(users, w.leases, subjects.KeyUser(u.ID), u.Record, u.Record == nil)
	}
	for _, e := range c.Edges {
		edges = add(edges, w.leases, subjects.KeyEdge(e.ID), e.Record, e.Record == nil)
	}
	for i, e := range c.Edges {
		if failed == nil && e.Record != nil {
			edges[i].Header = nats.Header{jetstream.MsgTTLHeader: {w.leaseTTL().String()}}
		}
	}
	if failed != nil {
		return failed
	}
	revision, err := w.publish(ctx, &w.views, views)
	if err != nil {
		return err
	}
	w.viewsRevision = max(w.viewsRevision, revision)
	if _, err := w.publish(ctx, &w.leases, users); err != nil {
		return err
	}
	_, err = w.publish(ctx, &w.leases, edges)
	return err
}

// leaseTTL is the store's own backstop behind an edge's lease: later than the
// lease, so that the log decides, and whole seconds, as the store wants it.
func (w *writer) leaseTTL() time.Duration {
	return (w.params.LeaseTTL + w.params.Sweep + slack).Truncate(time.Second)
}

func (w *writer) writeCheckpoint(ctx context.Context, c *wire.CheckpointRecord) error {
	msg, err := recordMsg(w.leases, subjects.KeyCheckpoint, c, false)
	if err != nil {
		return err
	}
	_, err = w.publish(ctx, &w.leases, []*nats.Msg{msg})
	return err
}

func recordMsg(b bucket, key string, record proto.Message, gone bool) (*nats.Msg, error) {
	msg := &nats.Msg{Subject: subjects.KVSubject(b.name, key)}
	if gone {
		msg.Header = subjects.KVPurge()
		msg.Header.Set(jetstream.MsgTTLHeader, markerTTL.String())
		return msg, nil
	}
	var err error
	msg.Data, err = subjects.Encode(record)
	return msg, err
}

// publish writes msgs under the bucket's fence and returns the last revision. What
// is not acknowledged is written again until it is.
func (w *writer) publish(ctx context.Context, b *bucket, msgs []*nats.Msg) (last uint64, err error) {
	for pause := 50 * time.Millisecond; len(msgs) > 0; pause = min(2*pause, time.Second) {
		var revision uint64
		if err = w.verify(ctx); err != nil {
			return last, err
		}
		if b.batch {
			revision, msgs, err = w.attemptBatches(ctx, b, msgs)
		} else {
			revision, msgs, err = w.attempt(ctx, b, msgs)
		}
		last = max(last, revision)
		if err != nil {
			return last, err
		}
		if len(msgs) > 0 && !retry.Pause(ctx, pause) {
			return last, ctx.Err()
		}
	}
	return last, nil
}

// attempt publishes all and returns those that were not acknowledged.
func (w *writer) attempt(ctx context.Context, b *bucket, msgs []*nats.Msg) (last uint64, again []*nats.Msg, err error) {
	futures, known, busy := make([]jetstream.PubAckFuture, len(msgs)), b.last, false
	for i, msg := range msgs {
		// The publisher adds headers to the message it is given.
		copied := &nats.Msg{Subject: msg.Subject, Data: msg.Data, Header: cloneHeader(msg.Header)}
		if futures[i], err = w.js.PublishMsgAsync(copied, fabric.Fence(b.name, b.fence), jetstream.WithStallWait(ackTimeout)); err != nil {
			futures[i] = nil
		}
	}
	for i, future := range futures {
		if future == nil {
			again = append(again, msgs[i])
			continue
		}
		select {
		case ack := <-future.Ok():
			if err := b.acknowledge(known, ack.Sequence, 1); err != nil {
				return last, nil, err
			}
			w.note(nil)
			last = max(last, ack.Sequence)
		case err := <-future.Err():
			if fabric.Fenced(err) {
				return last, nil, lost(msgs[i], err)
			}
			busy = busy || fabric.Busy(err)
			w.note(err)
			again = append(again, msgs[i])
		case <-ctx.Done():
			return last, nil, ctx.Err()
		}
	}
	if busy { // it has been replicated since the takeover
		if batch, err := fabric.Batched(ctx, w.js, b.name); err == nil {
			b.batch = batch
		}
	}
	return last, again, nil
}

// attemptBatches does the same with a bucket that takes one batch after the other.
func (w *writer) attemptBatches(ctx context.Context, b *bucket, msgs []*nats.Msg) (last uint64, again []*nats.Msg, err error) {
	for len(msgs) > 0 {
		n := fabric.BatchOf(msgs)
		writing, cancel := context.WithTimeout(ctx, ackTimeout)
		revision, err := fabric.Batch(writing, w.js, b.name, b.fence, msgs[:n])
		cancel()
		w.note(err)
		switch {
		case fabric.Fenced(err):
			return last, nil, lost(msgs[0], err)
		case ctx.Err() != nil:
			return last, nil, ctx.Err()
		case err != nil:
			return last, msgs, nil
		}
		if err := b.acknowledge(b.last, revision, n); err != nil {
			return last, nil, err
		}
		last, msgs = revision, msgs[n:]
	}
	return last, nil, nil
}

// note follows whether the store has room.
func (w *writer) note(err error) {
	if err == nil || fabric.Full(err) {
		w.refusals.Note(err)
	}
}

func lost(msg *nats.Msg, err error) error {
	return fmt.Errorf("keeper: writing %s: %w: %w", msg.Subject, rollcall.ErrNotOwner, err)
}

// acknowledge takes note that n messages are stored, the last of them under this revision,
// behind all that was known to be.
func (b *bucket) acknowledge(known, revision uint64, n int) error {
	if first := revision + 1 - uint64(n); first <= known {
		return fmt.Errorf("%w: %s goes on at %d and had %d", errLost, b.name, first, known)
	}
	b.last = max(b.last, revision)
	return nil
}

func cloneHeader(h nats.Header) nats.Header {
	clone := make(nats.Header, len(h)+2)
	for k, v := range h {
		clone[k] = v
	}
	return clone
}

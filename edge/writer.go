package edge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/rollcall-io/rollcall/internal/tracing"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// writer appends the frames of a pipeline to the log, one at a time, each exactly
// once: it names the sequence of the frame before, and sends the same bytes until
// the store has them.
type writer struct {
	*pipeline
	link   *link
	js     jetstream.JetStream
	reader nats.JetStreamContext
	log    *slog.Logger
	tracer trace.Tracer // nil for no traces
	edge   string
	random *rand.Rand

	stream, subject string
	incarnation     uint64
	sequence        uint64 // of the last message on the own subject
	number          uint64 // of the frame in flight, or the last
	acked           uint64 // number of the last frame that the store has confirmed
}

// run writes until ctx ends, another process takes over, or all is said at the
// end of a drain.
func (w *writer) run(ctx context.Context) error {
	defer close(w.finished)
	for {
		// What waits for the connection stays in the backlog, where it can be
		// merged; what is filled into a frame cannot.
		if _, err := w.link.up(ctx); err != nil {
			return err
		}
		entries := w.fill(w.link.maxPayload())
		switch {
		case len(entries) > 0:
			if err := w.append(ctx, entries); err != nil {
				return err
			}
		case w.done():
			return nil
		default:
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-w.wake:
			}
		}
	}
}

// done says that a drain is complete here.
func (p *pipeline) done() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.draining && p.silentLocked() && !p.registered
}

func (w *writer) append(ctx context.Context, entries []*wire.Entry) error {
	w.number++
	data, err := subjects.EncodeFrame(&wire.Frame{
		Version: subjects.WireVersion, Incarnation: w.incarnation, Number: w.number, Entries: entries,
	})
	if err != nil {
		return fmt.Errorf("edge: frame %d of shard %d: %w", w.number, w.shard, err)
	}
	header, end := w.trace(entries)
	defer end()
	err = w.link.persist(ctx, w.random, w.subject, func(ctx context.Context) error { return w.try(ctx, data, header) })
	if err != nil {
		return err
	}
	w.acked = w.number
	w.stats.frames.Add(1)
	w.stats.frameBytes.Add(uint64(len(data)))
	return nil
}

// trace begins the span of a frame; header is nil if it is not traced.
func (w *writer) trace(entries []*wire.Entry) (header nats.Header, end func()) {
	if w.tracer == nil || !slices.ContainsFunc(entries, tracing.Traced) {
		return nil, func() {}
	}
	span := tracing.Begin(w.tracer, trace.SpanContext{}, tracing.EdgeFrame, trace.WithAttributes(
		attribute.String("rollcall.edge", w.edge), attribute.Int("rollcall.shard", w.shard), attribute.Int("rollcall.entries", len(entries))))
	return tracing.Header(span), func() { span.End() }
}

func (w *writer) try(ctx context.Context, data []byte, header nats.Header) error {
	// The publisher adds to the header that it is given.
	ack, err := w.js.PublishMsg(ctx, &nats.Msg{Subject: w.subject, Data: data, Header: maps.Clone(header)},
		jetstream.WithExpectLastSequencePerSubject(w.sequence), jetstream.WithRetryAttempts(0))
	if wrongSequence(err) {
		return w.reconcile(ctx)
	}
	if err != nil {
		return err
	}
	w.sequence = ack.Sequence
	return nil
}

// wrongSequence recognises a failed comparison; a cluster has a second code for
// one that races a write in flight.
func wrongSequence(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && (api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
		api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

// errAgain has a frame sent again with what was learned.
var errAgain = errors.New("edge: log moved")

// reconcile finds out why the last sequence was not the expected one. It returns
// nil if the frame in flight is stored.
func (w *writer) reconcile(ctx context.Context) error {
	t, err := readTip(ctx, w.reader, w.stream, w.subject)
	switch {
	case err != nil:
		return err
	case t.incarnation == w.incarnation && t.number == w.number:
		w.sequence = t.sequence // an acknowledgement was lost
		return nil
	case t.newer || t.incarnation > w.incarnation:
		return fmt.Errorf("%w: shard %d", ErrReplaced, w.shard)
	case t.sequence == w.sequence:
		return errAgain // a write in flight was in the way
	}
	w.sequence = t.sequence
	if w.acked > 0 {
		w.repair(t)
	}
	return errAgain
}

// repair follows a store that no longer has what it acknowledged: after power
// loss, a restored backup, or simply because the messages were too old. Sequences
// may be lower now than before. The frame in flight comes first, as its order
// demands, then the edge says again all that it holds.
func (w *writer) repair(t tip) {
	w.log.Warn("edge: log lost acknowledged frames, registering again", "shard", w.shard, "acknowledged", w.acked, "found", t.number)
	w.acked = 0
	w.stats.storeLost.Add(1)
	w.unregister()
}

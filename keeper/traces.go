package keeper

import (
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/internal/tracing"
	"github.com/rollcall-io/rollcall/keeper/machine"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// traces go on with those of edges in one shard. Nil is none.
type traces struct {
	tracer  trace.Tracer
	shard   attribute.KeyValue
	waiting tracing.Waiting
	headers map[string]nats.Header // of the views that are being written, by user
}

func newTraces(p trace.TracerProvider, params rollcall.Params, shard int) *traces {
	tracer := tracing.Tracer(p)
	if tracer == nil {
		return nil
	}
	// Who leaves is shown offline after the debounce, with a tick.
	lifetime := params.Debounce + params.Outage + params.Sweep
	return &traces{tracer: tracer, shard: attribute.Int("rollcall.shard", shard), waiting: tracing.Waiting{Lifetime: lifetime}}
}

// apply begins the span of a frame that is applied, and has what is shown of its users follow from it.
func (t *traces) apply(h nats.Header, frame *wire.Frame) (end func()) {
	if t == nil {
		return func() {}
	}
	from, ok := tracing.From(h)
	if !ok {
		return func() {}
	}
	span := tracing.Begin(t.tracer, from, tracing.KeeperApply, trace.WithAttributes(t.shard, attribute.Int("rollcall.entries", len(frame.Entries))))
	for _, e := range frame.Entries {
		if tracing.Traced(e) {
			t.waiting.Note(e.User, span.SpanContext(), 1, time.Now())
		}
	}
	return func() { span.End() }
}

// write begins the spans of views that are written.
func (t *traces) write(views []machine.View) (end func()) {
	if t == nil {
		return func() {}
	}
	now := time.Now()
	var spans []trace.Span
	t.headers = make(map[string]nats.Header)
	for _, v := range views {
		waits, ok := t.waiting.Take(v.User, now)
		if !ok {
			continue
		}
		span := tracing.Begin(t.tracer, waits.Span, tracing.KeeperWrite, trace.WithTimestamp(now), trace.WithAttributes(t.shard,
			attribute.Float64("rollcall.waited_seconds", now.Sub(waits.Since).Seconds())))
		t.headers[v.User] = tracing.Header(span)
		spans = append(spans, span)
	}
	return func() {
		for _, span := range spans {
			span.End()
		}
	}
}

// header is what the view of a user is written with.
func (t *traces) header(user string) nats.Header {
	if t == nil {
		return nil
	}
	return t.headers[user]
}

package fanout

import (
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/rollcall-io/rollcall/internal/tracing"
)

// traces go on with those of the keeper in one shard. Nil is none. The shard's lock guards it.
type traces struct {
	tracer  trace.Tracer
	shard   attribute.KeyValue
	waiting tracing.Waiting
}

const (
	// tracedEvents is how many viewers' messages are in a trace: the first show how long it took.
	tracedEvents = 16
	// traceFor is for how long what is told of a user follows from its last change.
	traceFor = 30 * time.Second
)

func newTraces(p trace.TracerProvider, shard int) *traces {
	tracer := tracing.Tracer(p)
	if tracer == nil {
		return nil
	}
	return &traces{tracer: tracer, shard: attribute.Int("rollcall.shard", shard), waiting: tracing.Waiting{Lifetime: traceFor}}
}

// apply notes the span of a view that was read; what is told of the user follows from it.
func (t *traces) apply(c change, begun time.Time) {
	if t == nil || c.view == nil {
		return
	}
	if from, ok := tracing.From(c.header); ok {
		span := tracing.Begin(t.tracer, from, tracing.FanoutApply, trace.WithTimestamp(begun), trace.WithAttributes(t.shard))
		t.waiting.Note(c.user, span.SpanContext(), tracedEvents, begun)
		span.End()
	}
}

// events finds the messages that tell of a user who changed in a trace, and begins their spans; those
// end when the messages are published.
func (t *traces) events(b *board, messages []message, now time.Time) {
	if t == nil || len(messages) == 0 {
		return
	}
	changed := make(map[*text]string)
	for _, user := range t.waiting.Users(now) {
		if target := b.targets[user]; target != nil {
			for _, text := range target.texts {
				if text != nil {
					changed[text] = user
				}
			}
		}
	}
	if len(changed) == 0 {
		return
	}
	for i := range messages {
		d := messages[i].draft
		if d == nil {
			continue
		}
		for _, l := range d.lines {
			user, traced := changed[l.text]
			if !traced {
				continue
			}
			if waits, ok := t.waiting.Take(user, now); ok {
				messages[i].spans = append(messages[i].spans, tracing.Begin(t.tracer, waits.Span, tracing.FanoutEvent,
					trace.WithTimestamp(waits.Since), trace.WithAttributes(t.shard, attribute.Int("rollcall.changes", messages[i].told))))
			}
		}
	}
}

func end(spans []trace.Span) {
	for _, span := range spans {
		span.End()
	}
}

package tracing

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/rollcall-io/rollcall/subjects/wire"
)

// Names of the spans, in the order of the way.
const (
	EdgeFrame   = "edge frame"
	KeeperApply = "keeper apply"
	KeeperWrite = "keeper write"
	FanoutApply = "fanout apply"
	FanoutEvent = "fanout event"
)

// Tracer makes the spans of a part; nil without a provider.
func Tracer(p trace.TracerProvider) trace.Tracer {
	if p == nil {
		return nil
	}
	return p.Tracer("github.com/rollcall-io/rollcall")
}

// Header is what a message carries of a span; nil if the span is not sampled.
func Header(span trace.Span) nats.Header {
	c := span.SpanContext()
	if !c.IsSampled() {
		return nil
	}
	h := make(nats.Header)
	propagation.TraceContext{}.Inject(trace.ContextWithSpanContext(context.Background(), c), carrier(h))
	return h
}

// From is the span whose header a message has; it is false for a message of no sampled trace.
func From(h nats.Header) (trace.SpanContext, bool) {
	if len(h) == 0 {
		return trace.SpanContext{}, false
	}
	c := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier(h)))
	return c, c.IsSampled()
}

// Begin begins a span that follows from another one.
func Begin(t trace.Tracer, after trace.SpanContext, name string, opts ...trace.SpanStartOption) trace.Span {
	_, span := t.Start(trace.ContextWithRemoteSpanContext(context.Background(), after), name, opts...)
	return span
}

// Traced says that an entry of a frame is one of a user who comes, leaves or changes. Renewals and
// rosters repeat what is known.
func Traced(e *wire.Entry) bool {
	switch e.Kind {
	case wire.Kind_KIND_OPEN, wire.Kind_KIND_STATE, wire.Kind_KIND_CLOSE:
		return true
	}
	return false
}

type carrier nats.Header

func (c carrier) Get(key string) string { return nats.Header(c).Get(key) }
func (c carrier) Set(key, value string) { nats.Header(c).Set(key, value) }
func (c carrier) Keys() (keys []string) {
	for key := range c {
		keys = append(keys, key)
	}
	return keys
}

// Waiting are spans that users' next changes follow from, a bounded number for a bounded time. It is
// not safe for concurrent use. The zero value has none.
type Waiting struct {
	Lifetime time.Duration
	spans    map[string]Wait
}

// A Wait is a span since it was noted.
type Wait struct {
	Span  trace.SpanContext
	Since time.Time
	// Left is how many more spans may follow from it.
	Left int
}

// most is how many spans wait; more are not traced further. All are walked through now and then.
const most = 256

// Note has the user's next changes follow from a span, and from no earlier one.
func (w *Waiting) Note(user string, span trace.SpanContext, left int, now time.Time) {
	if w.spans == nil {
		w.spans = make(map[string]Wait)
	}
	if _, known := w.spans[user]; !known && len(w.spans) >= most {
		if w.sweep(now); len(w.spans) >= most {
			return
		}
	}
	w.spans[user] = Wait{span, now, left}
}

// Take is what a change of the user follows from, if anything.
func (w *Waiting) Take(user string, now time.Time) (Wait, bool) {
	waits, ok := w.spans[user]
	if !ok {
		return waits, false
	}
	if waits.Left--; waits.Left == 0 || now.Sub(waits.Since) > w.Lifetime {
		delete(w.spans, user)
	} else {
		w.spans[user] = waits
	}
	return waits, now.Sub(waits.Since) <= w.Lifetime
}

// Users are those who wait. Who has waited for too long does not any more.
func (w *Waiting) Users(now time.Time) []string {
	w.sweep(now)
	return slices.Collect(maps.Keys(w.spans))
}

func (w *Waiting) sweep(now time.Time) {
	maps.DeleteFunc(w.spans, func(_ string, waits Wait) bool { return now.Sub(waits.Since) > w.Lifetime })
}

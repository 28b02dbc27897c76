package tracing_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/rollcall-io/rollcall/internal/tracing"
)

func TestHeaders(t *testing.T) {
	span := tracing.Begin(tracing.Tracer(sdk.NewTracerProvider()), trace.SpanContext{}, tracing.EdgeFrame)
	header := tracing.Header(span)
	if len(header) != 1 || header.Get("traceparent") == "" {
		t.Errorf("header %v", header)
	}
	if from, ok := tracing.From(header); !ok || from.SpanID() != span.SpanContext().SpanID() || from.TraceID() != span.SpanContext().TraceID() {
		t.Errorf("from %v, %v", from, ok)
	}
	never := tracing.Begin(tracing.Tracer(sdk.NewTracerProvider(sdk.WithSampler(sdk.NeverSample()))), trace.SpanContext{}, tracing.EdgeFrame)
	if header := tracing.Header(never); header != nil {
		t.Errorf("not sampled, and the header is %v", header)
	}
	for _, h := range []nats.Header{nil, {}, {"traceparent": {"nonsense"}}, {"traceparent": {"00-00000000000000000000000000000000-0000000000000000-01"}}} {
		if from, ok := tracing.From(h); ok {
			t.Errorf("%v is from %v", h, from)
		}
	}
	if tracing.Tracer(nil) != nil {
		t.Error("a tracer of nothing")
	}
}

// What waits is bounded, in number and in time, and the newest change counts.
func TestWaiting(t *testing.T) {
	now := time.Now()
	w := tracing.Waiting{Lifetime: time.Minute}
	span := func(i byte) trace.SpanContext {
		return trace.NewSpanContext(trace.SpanContextConfig{SpanID: trace.SpanID{i}})
	}
	w.Note("ann", span(1), 2, now)
	w.Note("ann", span(2), 2, now)
	for left := 2; left >= 0; left-- {
		if waits, ok := w.Take("ann", now.Add(time.Minute)); ok != (left > 0) || ok && waits.Span.SpanID() != span(2).SpanID() {
			t.Errorf("%d left: %v, %v", left, waits, ok)
		}
	}
	w.Note("bob", span(3), 2, now)
	if _, ok := w.Take("bob", now.Add(time.Minute+1)); ok {
		t.Error("bob waits for more than a minute")
	}
	for i := range 5000 {
		w.Note(fmt.Sprint(i), span(4), 1, now)
	}
	if n := len(w.Users(now)); n != 256 {
		t.Errorf("%d wait", n)
	}
	w.Note("late", span(5), 1, now.Add(2*time.Minute))
	if n := len(w.Users(now.Add(2 * time.Minute))); n != 1 {
		t.Errorf("%d wait after their time", n)
	}
}

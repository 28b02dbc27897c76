package e2e_test

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/rollcall-io/rollcall/e2e"
	"github.com/rollcall-io/rollcall/fanout"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/internal/tracing"
	"github.com/rollcall-io/rollcall/subjects"
)

// TestTrace: a goodbye is one trace, from the edge's frame over the debounce to what viewers are
// told. Nothing of it is in what viewers receive, and no span names anybody.
func TestTracing(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		spans := tracetest.NewInMemoryExporter()
		f := e2e.New(t, e2e.Options{Shards: 1, Tracer: sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))})
		f.StartKeeper()
		f.StartFanoutWith(fanout.Config{InterestTTL: time.Hour})
		vera, walt := f.Overhear("vera"), f.Overhear("walt")
		for _, r := range []*e2e.Raw{vera, walt} {
			r.AskFor(subjects.OpSubscribe, []byte(`{"targets":["ann","bob"]}`))
		}
		g := f.StartEdge("g1")
		phone := f.Connect(g, "ann", "phone")
		f.Connect(g, "bob", "phone")
		f.At(100 * second)
		spans.Reset()

		f.At(200 * second)
		if idle := spans.GetSpans(); len(idle) > 0 {
			t.Errorf("renewals are traced: %v", idle.Snapshots()[0].Name())
		}
		phone.Close()
		f.At(300 * second)
		got := spans.GetSpans()
		slices.SortStableFunc(got, func(a, b tracetest.SpanStub) int { return a.StartTime.Compare(b.StartTime) })
		var names []string
		byID := make(map[string]tracetest.SpanStub)
		for _, s := range got {
			names = append(names, s.Name)
			byID[s.SpanContext.SpanID().String()] = s
			if s.SpanContext.TraceID() != got[0].SpanContext.TraceID() {
				t.Errorf("%s is in another trace", s.Name)
			}
		}
		slices.Sort(names)
		want := []string{tracing.EdgeFrame, tracing.FanoutApply, tracing.FanoutEvent, tracing.FanoutEvent, tracing.KeeperApply, tracing.KeeperWrite}
		if !slices.Equal(names, want) {
			t.Fatalf("spans %q, want %q", names, want)
		}
		parent := map[string]string{
			tracing.KeeperApply: tracing.EdgeFrame, tracing.KeeperWrite: tracing.KeeperApply, tracing.FanoutApply: tracing.KeeperWrite, tracing.FanoutEvent: tracing.FanoutApply,
		}
		for _, s := range got {
			if p := byID[s.Parent.SpanID().String()].Name; p != parent[s.Name] {
				t.Errorf("%s follows from %q, want %q", s.Name, p, parent[s.Name])
			}
			for _, a := range s.Attributes {
				if a.Value.Type() == attribute.STRING && strings.Contains("ann bob vera walt phone", a.Value.AsString()) {
					t.Errorf("%s says %s", s.Name, a.Value.AsString())
				}
			}
		}
		if waited := byName(got, tracing.KeeperWrite).StartTime.Sub(byName(got, tracing.KeeperApply).StartTime); waited != 20*second {
			t.Errorf("from the goodbye to what is shown it took %s, want the debounce", waited)
		}
		for _, r := range []*e2e.Raw{vera, walt} {
			if len(r.News()) == 0 {
				t.Error("a viewer was told nothing")
			}
			for _, m := range r.News() {
				if len(m.Raw.Header) > 0 {
					t.Errorf("a viewer receives %v", m.Raw.Header)
				}
			}
		}
	})
}

// TestNoTracing: without a tracer, or outside of the sample, no message of log and views says
// anything of traces; nor do those of an edge whose keeper is not traced end anywhere.
func TestNoTracing(t *testing.T) {
	for name, tracer := range map[string]*sdktrace.TracerProvider{
		"off": nil, "never sampled": sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.NeverSample()))),
	} {
		t.Run(name, func(t *testing.T) {
			lab.Bubble(t, func(t *testing.T) {
				o := e2e.Options{Shards: 1}
				if tracer != nil {
					o.Tracer = tracer
				}
				f := whole(t, o)
				var seen, traced atomic.Int64
				nc := lab.Connect(t, f.Server.NewLink())
				for _, subject := range []string{f.Names.LogSubjects(0), subjects.KVSubject(f.Names.ViewsBucket(0), ">")} {
					if _, err := nc.Subscribe(subject, func(m *nats.Msg) {
						seen.Add(1)
						for key := range m.Header {
							if strings.HasPrefix(strings.ToLower(key), "trace") {
								traced.Add(1)
							}
						}
					}); err != nil {
						t.Fatal(err)
					}
				}
				f.Wait()
				d := f.Connect(f.StartEdge("g1"), "ann", "phone")
				f.At(10 * second)
				d.Close()
				f.At(60 * second)
				if seen.Load() < 4 || traced.Load() != 0 {
					t.Errorf("%d messages, %d of them traced", seen.Load(), traced.Load())
				}
			})
		})
	}
}

func byName(spans tracetest.SpanStubs, name string) tracetest.SpanStub {
	return spans[slices.IndexFunc(spans, func(s tracetest.SpanStub) bool { return s.Name == name })]
}

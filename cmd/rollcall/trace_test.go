package main

import (
	"compress/gzip"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/rollcall-io/rollcall/internal/tracing"
)

func TestTracesAreSent(t *testing.T) {
	sent := make(chan string, 10)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body := r.Body
		if r.Header.Get("Content-Encoding") == "gzip" {
			body, _ = gzip.NewReader(r.Body)
		}
		b, err := io.ReadAll(body)
		if err != nil {
			t.Error(err)
		}
		sent <- r.URL.Path + " " + string(b)
	}))
	defer collector.Close()
	log := slog.New(slog.DiscardHandler)
	for _, c := range []struct {
		flags traced
		want  bool
	}{{traced{collector.URL, 1}, true}, {traced{collector.URL, 0}, false}, {traced{"", 1}, false}} {
		provider, stop, err := c.flags.provider(t.Context(), "keeper", log)
		if err != nil {
			t.Fatal(err)
		}
		if tracer := tracing.Tracer(provider); tracer != nil {
			tracing.Begin(tracer, trace.SpanContext{}, tracing.EdgeFrame).End()
		}
		stop()
		select {
		case got := <-sent:
			if !c.want || !strings.HasPrefix(got, "/v1/traces ") || !strings.Contains(got, "edge frame") || !strings.Contains(got, "rollcall-keeper") {
				t.Errorf("%+v: sent %q", c.flags, got)
			}
		default:
			if c.want {
				t.Errorf("%+v: nothing was sent", c.flags)
			}
		}
	}
	for _, wrong := range []traced{{collector.URL, 2}, {collector.URL, -1}, {"127.0.0.1:4318", 1}, {"localhost", 1}} {
		if _, _, err := wrong.provider(t.Context(), "keeper", log); !errors.Is(err, errUsage) {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
}

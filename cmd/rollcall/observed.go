package main

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"github.com/rollcall-io/rollcall/internal/health"
	"github.com/rollcall-io/rollcall/internal/natsd"
)

// observed is how people and machines look after a command that runs a part.
type observed struct {
	Metrics     string        `placeholder:"HOST:PORT" help:"Where /metrics, /healthz and /readyz are served; loopback only (default: nowhere)."`
	MetricsOpen bool          `help:"Let other machines reach --metrics: nobody is asked for a credential there. For networks of which only monitoring is a part."`
	Summary     time.Duration `default:"1m" help:"How often a line with the figures is logged; 0 for never."`
	logging
}

// A watch is what is looked at of one process.
type watch struct {
	registry *prometheus.Registry
	tracer   trace.TracerProvider // nil for no traces
	parts    health.Parts
	listener net.Listener // nil for nobody
	scheme   string
}

// watch opens the listener; with TLS it is served by TLS.
func (o observed) watch(secure *natsd.TLS) (*watch, error) {
	listener, err := listenMetrics(o.Metrics, o.MetricsOpen, secure)
	w := &watch{registry: newRegistry(), listener: listener, scheme: "http"}
	if secure != nil {
		w.scheme = "https"
	}
	return w, err
}

func (w *watch) close() error {
	if w.listener == nil {
		return nil
	}
	if err := w.listener.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// serve serves the pages until ctx ends, if anybody is to see them.
func (w *watch) serve(ctx context.Context, group *errgroup.Group) {
	if w.listener != nil {
		group.Go(func() error { return servePages(ctx, w) })
	}
}

// url is where the metrics are; empty if nowhere.
func (w *watch) url() string {
	if w.listener == nil {
		return ""
	}
	return w.scheme + "://" + w.listener.Addr().String() + "/metrics"
}

// connected is a part of which only the connection is known.
type connected struct{ *nats.Conn }

func (connected) Live() error { return nil }

func (c connected) Readiness() error {
	if !c.IsConnected() {
		return errors.New("is not connected to NATS")
	}
	return nil
}

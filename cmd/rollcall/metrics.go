package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/rollcall-io/rollcall/internal/natsd"
)

// newRegistry holds the metrics of the parts, and those of the process.
func newRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}

// listenMetrics opens the address of the pages; nil if there is none. Nobody is asked for a
// credential there, so that it is on loopback, also with TLS, unless it is open.
func listenMetrics(address string, open bool, secure *natsd.TLS) (net.Listener, error) {
	if address == "" {
		return nil, nil
	}
	if _, _, err := natsd.Loopback(address); err != nil && !open {
		return nil, fmt.Errorf("--metrics: %w; --metrics-open lets others in", err)
	}
	return listen("metrics", address, secure)
}

// servePages serves /metrics, /healthz and /readyz until ctx ends.
func servePages(ctx context.Context, w *watch) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(w.registry, promhttp.HandlerOpts{}))
	w.parts.Register(mux)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(w.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("metrics: %w", err)
	}
	return nil
}

package main

import (
	"context"
	"crypto/tls"
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

// listenMetrics opens the address of the metrics page; nil if there is none. Nobody is
// asked for a credential there, so that it is on loopback also with TLS.
func listenMetrics(address string, secure *natsd.TLS) (net.Listener, error) {
	if address == "" {
		return nil, nil
	}
	if _, _, err := natsd.Loopback(address); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w; --metrics names another address", err)
	}
	if secure == nil {
		return listener, nil
	}
	config, err := secure.Config()
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return tls.NewListener(listener, config), nil
}

// serveMetrics serves /metrics until ctx ends.
func serveMetrics(ctx context.Context, listener net.Listener, registry *prometheus.Registry) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("metrics: %w", err)
	}
	return nil
}

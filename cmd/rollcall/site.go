package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"

	"github.com/rollcall-io/rollcall/edge/gateway"
	"github.com/rollcall-io/rollcall/internal/health"
	"github.com/rollcall-io/rollcall/internal/natsd"
)

// newSite is what the HTTP listener serves: the gateway below its root, and for balancers how the
// parts of the process are.
func newSite(g *gateway.Gateway, parts *health.Parts) *http.ServeMux {
	site := http.NewServeMux()
	site.Handle(gateway.Root, g)
	parts.Register(site)
	return site
}

// until ends requests with ctx, which streams to a page would outlive.
func until(ctx context.Context, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		working, end := context.WithCancel(r.Context())
		defer end()
		defer context.AfterFunc(ctx, end)()
		h.ServeHTTP(w, r.WithContext(working))
	})
}

// servedTLS is how a site proves itself to whoever comes.
type servedTLS struct {
	Cert string `name:"serve-cert" type:"existingfile" placeholder:"FILE" help:"Certificate of the listener, with its chain, in PEM."`
	Key  string `name:"serve-key" type:"existingfile" placeholder:"FILE" help:"Its key."`
}

// tls is nil without either.
func (s servedTLS) tls() *natsd.TLS {
	if s.Cert == "" && s.Key == "" {
		return nil
	}
	return &natsd.TLS{Cert: s.Cert, Key: s.Key}
}

// listenSite opens the HTTP listener, which other machines reach with TLS only.
func listenSite(flag, address string, secure *natsd.TLS) (net.Listener, error) {
	if secure == nil {
		if _, _, err := natsd.Loopback(address); err != nil {
			return nil, fmt.Errorf("--%s: %w", flag, err)
		}
	}
	return listen(flag, address, secure)
}

// listen opens the address of a flag, with TLS if it is secure.
func listen(flag, address string, secure *natsd.TLS) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%w; --%s names another address", err, flag)
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

// serveSite serves until ctx ends; then requests that run may end.
func serveSite(ctx context.Context, listener net.Listener, site http.Handler, log *slog.Logger) error {
	server := gateway.NewServer(site)
	server.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug) // handshakes that failed, and the like
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
		defer cancel()
		server.Shutdown(within)
		server.Close()
	})
	err := server.Serve(listener)
	if !stop() {
		<-ended
	}
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("HTTP: %w", err)
	}
	return nil
}

// siteURL is where the listener is.
func siteURL(listener net.Listener, secure *natsd.TLS) string {
	scheme := "http"
	if secure != nil {
		scheme = "https"
	}
	return scheme + "://" + listener.Addr().String()
}

// siteOrigins are those of its pages, as browsers name them.
func siteOrigins(listener net.Listener, secure *natsd.TLS) []string {
	origins := []string{siteURL(listener, secure)}
	if address, ok := listener.Addr().(*net.TCPAddr); ok && address.IP.IsLoopback() {
		scheme, _, _ := strings.Cut(origins[0], ":")
		origins = append(origins, fmt.Sprintf("%s://localhost:%d", scheme, address.Port))
	}
	return origins
}

package gateway

import (
	"net/http"
	"time"
)

// NewServer returns a server whose clients cannot hold a connection by being slow: each
// has a few seconds for a request and for taking its answer, and half a minute more than
// the longest heartbeat between two.
func NewServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 20 * time.Second,
		IdleTimeout: 90 * time.Second, MaxHeaderBytes: 16 << 10,
	}
}

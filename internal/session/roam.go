package session

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A server that is cut off from its cluster keeps its clients, and can do nothing for them. A
// Roamer moves the connection to another server when the store has not answered for long. Where only
// one server is known, it does nothing.
type Roamer struct {
	Conn *nats.Conn
	Log  *slog.Logger

	mu     sync.Mutex
	since  time.Time // of the first request in a row without an answer
	enough time.Duration
}

// A stream elects another leader within roamAfter. While no server does better, the next ones are tried less and
// less often.
const (
	roamAfter = 10 * time.Second
	roamMost  = 2 * time.Minute
)

// Note hears how a request to the store has ended.
func (r *Roamer) Note(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case errors.Is(err, context.Canceled):
		return
	case answered(err):
		r.since, r.enough = time.Time{}, roamAfter
		return
	case r.since.IsZero():
		r.since = time.Now()
	}
	r.enough = max(r.enough, roamAfter)
	if time.Since(r.since) < r.enough || !r.Conn.IsConnected() || len(r.Conn.Servers()) < 2 {
		return
	}
	r.since, r.enough = time.Time{}, min(2*r.enough, roamMost)
	r.Log.Warn("the store does not answer over this server, trying another", "server", r.Conn.ConnectedUrlRedacted(), "err", err)
	if err := r.Conn.ForceReconnect(); err != nil {
		r.Log.Warn("trying another server", "err", err)
	}
}

// answered says whether the store has answered, be it with a refusal. With 503 a server says that it cannot
// reach the store either.
func answered(err error) bool {
	const unavailable = 503
	var api *jetstream.APIError
	return err == nil || errors.As(err, &api) && api.Code != unavailable
}

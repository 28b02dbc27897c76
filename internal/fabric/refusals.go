package fabric

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Codes by which a server says that there is no room left: on its disk, for the account or in a
// stream. See nats-server, server/errors.json.
const (
	codeAccountResources jetstream.ErrorCode = 10002
	codeNoResources      jetstream.ErrorCode = 10023
	codeStorage          jetstream.ErrorCode = 10047
	codeStoreFailed      jetstream.ErrorCode = 10077
)

// Full says whether the store refused something because there is no room left for it.
func Full(err error) bool {
	var api *jetstream.APIError
	if !errors.As(err, &api) {
		return false
	}
	switch api.ErrorCode {
	case codeAccountResources, codeNoResources, codeStorage, codeStoreFailed:
		return true
	}
	return false
}

// Refusals follow whether the store takes what is written again and again. They are logged when
// they begin and when they end, not one by one, and counted.
type Refusals struct {
	Log   *slog.Logger
	What  string         // is refused
	Total *atomic.Uint64 // nil if nobody counts

	mu    sync.Mutex
	since time.Time // of the first in a row; zero if the last was taken
}

// Note hears how a write has ended: nil if the store has taken it. What was cancelled counts as
// neither.
func (r *Refusals) Note(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	began := r.since
	switch {
	case errors.Is(err, context.Canceled):
	case err == nil && !began.IsZero():
		r.since = time.Time{}
		r.Log.Info("the store takes writes again", "what", r.What, "after", time.Since(began).Round(time.Millisecond))
	case err != nil:
		if r.Total != nil {
			r.Total.Add(1)
		}
		if !began.IsZero() {
			return
		}
		r.since = time.Now()
		text := "the store does not take writes, trying on"
		if Full(err) {
			text = "the store is full and refuses writes, trying on; 'rollcall doctor' says where"
		}
		r.Log.Warn(text, "what", r.What, "err", err)
	}
}

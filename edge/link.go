package edge

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/internal/retry"
	"github.com/rollcall-io/rollcall/internal/session"
)

// link knows whether the NATS connection is up. What is asked of the store is
// asked within a session, which ends when the connection breaks: so nothing is
// sent into the void to pile up, and everything is sent again at once afterwards.
//
// Others ask the link, never the connection: nats.go holds the connection's mutex for
// as long as a handshake takes, over a path that drops every packet until its timeout.
type link struct {
	nc  *nats.Conn
	log *slog.Logger

	refused atomic.Uint64 // attempts to reach the store that failed
	roamer  session.Roamer

	mu      sync.Mutex
	session context.Context // nil while the connection is down
	limit   int64           // the largest message of the server of the last session
	end     context.CancelFunc
	changed chan struct{} // closed when a session begins
}

func newLink(nc *nats.Conn, log *slog.Logger) *link {
	return &link{nc: nc, log: log, changed: make(chan struct{}), roamer: session.Roamer{Conn: nc, Log: log}}
}

// run follows the connection until ctx ends.
func (l *link) run(ctx context.Context) error {
	events := l.nc.StatusChanged()
	defer l.nc.RemoveStatusListener(events)
	if l.nc.IsConnected() {
		l.begin(ctx)
	}
	if l.nc.IsClosed() {
		return ErrDisconnected
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case status, open := <-events:
			l.drop()
			switch {
			case !open, status == nats.CLOSED:
				return ErrDisconnected
			case status == nats.CONNECTED:
				l.begin(ctx)
			}
		}
	}
}

func (l *link) begin(ctx context.Context) {
	limit := l.nc.MaxPayload()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limit = limit
	if l.session != nil {
		l.end()
	}
	l.session, l.end = context.WithCancel(ctx)
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *link) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.session != nil {
		l.end()
		l.session = nil
	}
}

// online says whether a session is under way.
func (l *link) online() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session != nil
}

// maxPayload is the largest message that the server takes; 0 before the first session.
func (l *link) maxPayload() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.limit
}

// up waits for the connection. The session ends with it, or with Run.
func (l *link) up(ctx context.Context) (context.Context, error) {
	for {
		l.mu.Lock()
		session, changed := l.session, l.changed
		l.mu.Unlock()
		if session != nil {
			return session, ctx.Err()
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-changed:
		}
	}
}

const (
	// patience is how long one request to the store may take. A leader election
	// takes longer; what is asked again meanwhile does no harm.
	patience = 5 * time.Second
	// Retries start soon, because most trouble is short, and slow down to a rate
	// that a thousand edges may have together.
	firstPause = 50 * time.Millisecond
	lastPause  = 5 * time.Second
)

// persist tries until it succeeds, however long the store is away: with jittered,
// growing pauses, and at once when the connection is back. Only the end of ctx
// and ErrReplaced stop it.
func (l *link) persist(ctx context.Context, random *rand.Rand, what string, try func(context.Context) error) error {
	refusals := fabric.Refusals{Log: l.log, What: what, Total: &l.refused}
	for attempt := 0; ; attempt++ {
		session, err := l.up(ctx)
		if err != nil {
			return err
		}
		switch err = limited(session, try); {
		case err == nil:
			refusals.Note(nil)
			l.roamer.Note(nil)
			return nil
		case errors.Is(err, ErrReplaced):
			return err
		case !errors.Is(err, errAgain):
			refusals.Note(err)
			l.roamer.Note(err)
		}
		if session.Err() == nil {
			retry.Pause(session, retry.Backoff(attempt, firstPause, lastPause, random.Int64N))
		}
	}
}

func limited(session context.Context, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(session, patience)
	defer cancel()
	return try(ctx)
}

package viewer

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
)

// Errors of this package. A refusal by the fanout is a [subjects.Error].
var (
	// ErrConfig is returned, wrapped with the reason, by New.
	ErrConfig = errors.New("viewer: configuration refused")
	// ErrRunning says that Run was called twice.
	ErrRunning = errors.New("viewer: already running")
	// ErrEnded says that Run has ended, so that there is nothing to wait for.
	ErrEnded = errors.New("viewer: Run has ended")
)

// requestTimeout is how long a request may take unless configured.
const requestTimeout = 5 * time.Second

// Config of a client.
type Config struct {
	// Viewer is the id of the user who looks. Several clients may share it.
	Viewer string
	// Prefix of the fabric; default [subjects.DefaultPrefix].
	Prefix string
	// Refresh is how often the interest is renewed and the streams are compared
	// with the fanout's; default 30 s, a quarter of the fanout's interest TTL.
	Refresh time.Duration
	// Timeout of one request; default 5 s.
	Timeout time.Duration
	// Outage is how long the server or the fanout may be away before everything
	// shows as unknown; default that of [rollcall.Default].
	Outage time.Duration
	// Spread is over how long clients spread their resyncs; default 1 s. Shorter
	// repairs sooner and lets the clients of a failed fanout come all at once.
	Spread time.Duration
	// Logger hears of what went wrong; default: nobody.
	Logger *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	if c.Prefix == "" {
		c.Prefix = subjects.DefaultPrefix
	}
	if c.Refresh == 0 {
		c.Refresh = 30 * time.Second
	}
	if c.Timeout == 0 {
		c.Timeout = requestTimeout
	}
	if c.Outage == 0 {
		c.Outage = rollcall.Default().Outage
	}
	if c.Spread == 0 {
		c.Spread = time.Second
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if err := rollcall.CheckID(c.Viewer); err != nil {
		return c, fmt.Errorf("%w: viewer: %w", ErrConfig, err)
	}
	for name, d := range map[string]time.Duration{"refresh": c.Refresh, "timeout": c.Timeout, "outage": c.Outage, "spread": c.Spread} {
		if d < 0 {
			return c, fmt.Errorf("%w: %s %s is below zero", ErrConfig, name, d)
		}
	}
	return c, nil
}

package fanout

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/subjects"
)

// Config of a fanout. The zero value serves the default fabric alone.
type Config struct {
	// Prefix of the fabric; default [subjects.DefaultPrefix].
	Prefix string
	// Policy decides who may know what; default [Everyone].
	Policy Policy
	// Ownership grants shards; default: this process takes over all of them.
	Ownership rollcall.Ownership
	// Window is the shortest time between two messages of changes to one viewer
	// in one shard; default 250 ms. Longer merges more and delays more.
	Window time.Duration
	// InterestTTL is how long a viewer's interest holds without a refresh;
	// default 120 s, in whole seconds, at least 4 s. Longer tells more to viewers
	// who are gone; shorter makes clients refresh more often.
	InterestTTL time.Duration
	// Holder names this process in ownership records; default host and pid.
	Holder string
	// Logger hears of what went wrong; default: nobody.
	Logger *slog.Logger
	// Registerer takes the metrics; default: nobody sees them.
	Registerer prometheus.Registerer
}

// Defaults of [Config].
const (
	DefaultWindow      = 250 * time.Millisecond
	DefaultInterestTTL = 120 * time.Second
)

func (c Config) withDefaults() (Config, error) {
	if c.Prefix == "" {
		c.Prefix = subjects.DefaultPrefix
	}
	if c.Policy == nil {
		c.Policy = Everyone{}
	}
	if c.Window == 0 {
		c.Window = DefaultWindow
	}
	if c.InterestTTL == 0 {
		c.InterestTTL = DefaultInterestTTL
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Holder == "" {
		c.Holder = fabric.ThisProcess()
	}
	switch {
	case c.Window < 0 || c.Window > time.Minute:
		return c, fmt.Errorf("%w: window %s is not in [0, 1m]", ErrConfig, c.Window)
	case c.InterestTTL < 4*time.Second || c.InterestTTL%time.Second != 0:
		// The store counts whole seconds, and a client refreshes four times.
		return c, fmt.Errorf("%w: interest TTL %s must be whole seconds, at least 4s", ErrConfig, c.InterestTTL)
	}
	if _, err := subjects.New(c.Prefix, 1); err != nil {
		return c, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return c, nil
}

package fanout

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/subjects"
)

// Config of a fanout. The zero value serves the default fabric alone.
type Config struct {
	// Prefix of the fabric; default [subjects.DefaultPrefix].
	Prefix string
	// Relations is how much may be known, by relation, of users whose policy leaves
	// it open; what it leaves open itself is exact.
	Relations subjects.Relations
	// Sights is an application that decides itself who may know what; default:
	// users' policies decide.
	Sights Sights
	// AskSights has the application asked over NATS, on [subjects.Names.Sight].
	AskSights bool
	// SightTimeout is how long the application may take before viewers see unknown;
	// default 1 s. SightTTL is after how long it is asked again; default 5 min.
	SightTimeout, SightTTL time.Duration
	// RequestRate is how many requests a second one viewer, or one user's policy, may
	// make in the long run, RequestBurst how many at once; default 20 and 100.
	RequestRate, RequestBurst int
	// Member is the id of this fanout among those that share the shards out among
	// themselves. No two may have the same; who keeps it over a restart finds its shards
	// again. Default: this process takes over all shards alone.
	Member string
	// Ownership grants shards instead of either.
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
	// Tracer goes on with the traces of keepers; default: there are none.
	Tracer trace.TracerProvider
}

// Defaults of [Config].
const (
	DefaultWindow      = 250 * time.Millisecond
	DefaultInterestTTL = 120 * time.Second

	DefaultSightTimeout = time.Second
	DefaultSightTTL     = 5 * time.Minute
	DefaultRequestRate  = 20
	DefaultRequestBurst = 100
)

func (c Config) withDefaults() (Config, error) {
	if c.Prefix == "" {
		c.Prefix = subjects.DefaultPrefix
	}
	c.Window = cmp.Or(c.Window, DefaultWindow)
	c.InterestTTL = cmp.Or(c.InterestTTL, DefaultInterestTTL)
	c.SightTimeout = cmp.Or(c.SightTimeout, DefaultSightTimeout)
	c.SightTTL = cmp.Or(c.SightTTL, DefaultSightTTL)
	c.RequestRate = cmp.Or(c.RequestRate, DefaultRequestRate)
	c.RequestBurst = cmp.Or(c.RequestBurst, DefaultRequestBurst)
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
	case c.SightTimeout < 0 || c.SightTTL < time.Second || c.SightTTL <= c.SightTimeout:
		return c, fmt.Errorf("%w: sight TTL %s must be at least 1s and above the timeout %s", ErrConfig, c.SightTTL, c.SightTimeout)
	case c.RequestRate < 0 || c.RequestBurst < 1:
		return c, fmt.Errorf("%w: %d requests a second, %d at once", ErrConfig, c.RequestRate, c.RequestBurst)
	case c.Sights != nil && c.AskSights:
		return c, fmt.Errorf("%w: Sights and AskSights exclude each other", ErrConfig)
	}
	if _, err := subjects.New(c.Prefix, 1); err != nil {
		return c, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return c, nil
}

// defaults are the relations with what is left open.
func (c Config) defaults() Defaults {
	d := Open
	for _, r := range []struct {
		from *rollcall.Granularity
		to   *rollcall.Granularity
	}{{c.Relations.Contact, &d.Contact}, {c.Relations.Member, &d.Member}, {c.Relations.Everyone, &d.Everyone}} {
		if r.from != nil {
			*r.to = *r.from
		}
	}
	return d
}

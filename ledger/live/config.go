package live

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/definition"
	"github.com/rollcall-io/rollcall/ledger/interval"
	"github.com/rollcall-io/rollcall/subjects"
)

// Config is how a ledger follows a fabric. The zero value follows all of it.
type Config struct {
	Prefix string // default subjects.DefaultPrefix
	// Member is the id of this ledger among those that share the shards out among themselves,
	// on one database. No two may have the same. Default: this ledger follows Shards.
	Member string
	// Shards to follow, each of them by one ledger; default all. Not with Member.
	Shards []int
	// Definition of the figures; default definition.Default.
	Definition ledger.Definition
	// Zones whose days are counted; default UTC.
	Zones []string
	// Device replaces device ids in what is stored; default: they stay.
	Device func(id string) string
	// Interval is the longest time between two transactions, while they are quick: what a
	// reader of the database is behind. Default 5 s.
	Interval time.Duration
	// Changes is how many final rows and refusals wait for a transaction at most: a bound
	// on memory while the database is away. Default 20000.
	Changes int
	// Patience is how long a shard that another ledger follows must have had no checkpoint
	// before this one takes it over. Default 1 min.
	Patience time.Duration

	Registerer prometheus.Registerer // default: no metrics
	Logger     *slog.Logger          // default: nobody listens
}

// ErrConfig is a configuration that makes no sense; the wrapping says why.
var ErrConfig = errors.New("live: invalid configuration")

// withDefaults copies, fills and checks.
func (c Config) withDefaults() (Config, []zone, error) {
	c.Prefix = cmp.Or(c.Prefix, subjects.DefaultPrefix)
	c.Interval, c.Patience = cmp.Or(c.Interval, 5*time.Second), cmp.Or(c.Patience, time.Minute)
	c.Changes = cmp.Or(c.Changes, 20_000)
	if c.Definition.Version == "" {
		c.Definition = definition.Default()
	}
	if c.Device == nil {
		c.Device = func(id string) string { return id }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Shards = slices.Compact(slices.Sorted(slices.Values(c.Shards)))
	if c.Interval < 0 || c.Changes < 0 || c.Patience < 0 {
		return c, nil, fmt.Errorf("%w: interval %s, changes %d, patience %s", ErrConfig, c.Interval, c.Changes, c.Patience)
	}
	if c.Member != "" && len(c.Shards) > 0 {
		return c, nil, fmt.Errorf("%w: a member of a group is given its shards, and cannot choose %v", ErrConfig, c.Shards)
	}
	if err := definition.Validate(c.Definition); err != nil {
		return c, nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if len(c.Zones) == 0 {
		c.Zones = []string{"UTC"}
	}
	var zones []zone
	for i, name := range c.Zones {
		if slices.Contains(c.Zones[:i], name) {
			continue
		}
		z, err := interval.LoadZone(name)
		if err != nil {
			return c, nil, fmt.Errorf("%w: %w", ErrConfig, err)
		}
		zones = append(zones, zone{name, z})
	}
	return c, zones, nil
}

// A zone has the name under which its totals are stored.
type zone struct {
	name string
	*interval.Zone
}

package bench

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
)

// Config says what to measure and how large. The zero value is the default run,
// which takes about a minute and a half on two cores.
type Config struct {
	// Duration is how long the load lasts where nothing else ends it, over all
	// rounds; default 10 s.
	Duration time.Duration
	// Opens is how many users connect in a round; default 50,000. Many, because the
	// last of them wait for the fanout's window, which is part of the time.
	Opens int
	// Viewers is how many watch while states change; default 5,000. With fewer the
	// fanout's window, and not the machine, limits what is delivered.
	Viewers int
	// Targets is how many users each of them watches; default 50.
	Targets int
	// Connections of the edge whose renewals are counted; default 10,000.
	// Heartbeats are measured over [BeatFactor] times as many.
	Connections int
	// StormUsers are connected to the edge that crashes; default 5,000.
	StormUsers int
	// StormViewers watch them; default 1,000.
	StormViewers int
	// StormTargets is how many of the users each of these viewers watches; default
	// 200.
	StormTargets int
	// GrowFrom and GrowTo are with how many connections growth begins and ends; default 1,000 and
	// 1,000,000.
	GrowFrom, GrowTo int
	// Only names the measures to take; default all but growth, see [Names].
	Only []string

	// stormRounds are fewer in tests: each takes seconds, however small.
	stormRounds int
	// growthParams renew sooner in tests.
	growthParams rollcall.Params

	// Renewals is the timing of the fabric whose renewals are counted; default
	// [rollcall.Worker], which renews every 3 s.
	Renewals rollcall.Params
	// Progress hears in a few words what is being done; default nobody.
	Progress func(string)
	// Logger hears the parts' warnings; default nobody.
	Logger *slog.Logger
}

// BeatFactor is how many times [Config.Connections] beat in the measure of
// heartbeats.
const BeatFactor = 20

// ErrConfig is returned, wrapped with the reason, for what cannot be measured.
var ErrConfig = errors.New("bench: invalid configuration")

func (c Config) withDefaults() (Config, error) {
	if c.Duration == 0 {
		c.Duration = 10 * time.Second
	}
	for _, size := range []struct {
		n        *int
		name     string
		fallback int
	}{
		{&c.Opens, "opens", 50_000}, {&c.Viewers, "viewers", 5_000},
		{&c.Targets, "targets", 50}, {&c.Connections, "connections", 10_000},
		{&c.StormUsers, "storm users", 5_000}, {&c.StormViewers, "storm viewers", 1_000}, {&c.StormTargets, "storm targets", 200},
		{&c.GrowFrom, "connections to grow from", 1000}, {&c.GrowTo, "connections to grow to", 1_000_000},
	} {
		if *size.n == 0 {
			*size.n = size.fallback
		}
		if *size.n < 0 {
			return c, fmt.Errorf("%w: %d %s", ErrConfig, *size.n, size.name)
		}
	}
	if c.stormRounds == 0 {
		c.stormRounds = rounds
	}
	if c.growthParams == (rollcall.Params{}) {
		c.growthParams = growthParams()
	}
	if c.Renewals == (rollcall.Params{}) {
		c.Renewals = rollcall.Worker()
	}
	if c.Progress == nil {
		c.Progress = func(string) {}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, c.check()
}

func (c Config) check() error {
	if c.Duration < 0 {
		return fmt.Errorf("%w: duration %s", ErrConfig, c.Duration)
	}
	if c.Targets > subjects.MaxTargets {
		return fmt.Errorf("%w: %d targets, a viewer watches at most %d", ErrConfig, c.Targets, subjects.MaxTargets)
	}
	if c.GrowFrom > c.GrowTo {
		return fmt.Errorf("%w: from %d connections to %d is not to grow", ErrConfig, c.GrowFrom, c.GrowTo)
	}
	if c.StormTargets > c.StormUsers {
		return fmt.Errorf("%w: %d targets of a viewer among %d users in the storm", ErrConfig, c.StormTargets, c.StormUsers)
	}
	for _, name := range c.Only {
		if !slices.Contains(Names(), name) {
			return fmt.Errorf("%w: no measure %q (there are: %v)", ErrConfig, name, Names())
		}
	}
	return nil
}

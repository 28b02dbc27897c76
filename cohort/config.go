package cohort

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/subjects"
)

// Timing of a group; all of its members use the same.
type Timing = subjects.CohortTiming

// Worker is the timing of [rollcall.Worker]: a dead member is noticed within ten seconds, at a
// third of a small message a second and member.
func Worker() Timing {
	p := rollcall.Worker()
	return Timing{
		Heartbeat: p.Renewal, Timeout: p.LeaseTTL, Sweep: p.Sweep, Lease: p.Outage,
		Hold: 10 * time.Second, Settle: 200 * time.Millisecond, Release: 10 * time.Second,
	}
}

// Config says who joins which group.
type Config struct {
	// Group is its name, any UTF-8 up to 128 bytes.
	Group string
	// ID of this member. It is stable over restarts: who comes back under its id within
	// [Timing.Hold] finds its partitions again.
	ID string
	// Partitions of the group. The first member fixes them for good; 0 takes what is there.
	Partitions int
	// Timing of the group. The first member fixes it; zero takes what is there, or [Worker].
	Timing Timing
	// Weight is the member's share beside the others' (default 1).
	Weight int
	// Load tells how much work waits, in whatever unit the group uses; nil says nothing.
	Load func() float64
	// Prefix of the fabric (default [subjects.DefaultPrefix]), and the bucket of groups in it
	// (default [subjects.WorkersBucket]).
	Prefix, Bucket string
	// Registerer takes the metrics, Logger what happens; nil for nobody.
	Registerer prometheus.Registerer
	Logger     *slog.Logger
	// Info is for people who look at the group (default: host and process).
	Info string

	hooks hooks
}

func (c Config) withDefaults() (Config, subjects.Names, error) {
	c.Prefix = cmp.Or(c.Prefix, subjects.DefaultPrefix)
	c.Bucket = cmp.Or(c.Bucket, subjects.WorkersBucket)
	c.Weight = cmp.Or(c.Weight, 1)
	c.Info = cmp.Or(c.Info, fabric.ThisProcess())
	if c.Load == nil {
		c.Load = func() float64 { return 0 }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	names, err := subjects.New(c.Prefix, 1)
	if err != nil {
		return c, names, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	for what, id := range map[string]string{"group": c.Group, "id": c.ID, "bucket": c.Bucket} {
		if err := rollcall.CheckID(id); err != nil {
			return c, names, fmt.Errorf("%w: %s: %w", ErrConfig, what, err)
		}
	}
	if c.Weight < 0 || c.Weight > subjects.MaxWeight {
		return c, names, fmt.Errorf("%w: weight %d, must be 1 to %d", ErrConfig, c.Weight, subjects.MaxWeight)
	}
	if c.Partitions < 0 || c.Partitions > subjects.MaxPartitions {
		return c, names, fmt.Errorf("%w: %d partitions, must be 1 to %d", ErrConfig, c.Partitions, subjects.MaxPartitions)
	}
	if c.Timing != (Timing{}) {
		if err := c.Timing.Validate(); err != nil {
			return c, names, fmt.Errorf("%w: %w", ErrConfig, err)
		}
	}
	return c, names, nil
}

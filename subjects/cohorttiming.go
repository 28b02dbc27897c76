package subjects

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/rollcall-io/rollcall"
)

// CohortTiming is the timing of a group; all of its members use the same. In JSON every field
// is a number of milliseconds.
type CohortTiming struct {
	// Heartbeat is the longest time between two heartbeats of a healthy member.
	Heartbeat time.Duration
	// Timeout is how long a member may be silent before it counts as dead.
	Timeout time.Duration
	// Sweep is how late that may be noticed, and how often the coordinator renews its lease.
	Sweep time.Duration
	// Lease is the coordinator's silence after which another member takes over. A group that
	// nobody could write to for so long declares nobody dead before a further timeout.
	Lease time.Duration
	// Hold is how long the partitions of a member that said goodbye wait for its return.
	Hold time.Duration
	// Settle is how long a joining member waits for others to join with it. Each one that
	// comes prolongs it, up to five times its length.
	Settle time.Duration
	// Release is how long an owner may take to release a partition that it is asked for; then
	// it is taken.
	Release time.Duration
	// Stall is for how long a member with load may make no progress before it counts as
	// suspect; zero means for ever.
	Stall time.Duration
}

// timingFields are the fields in the order of the struct, under their names in JSON.
var timingFields = [...]struct {
	name  string
	of    func(*CohortTiming) *time.Duration
	least time.Duration
}{
	{"heartbeat_ms", func(t *CohortTiming) *time.Duration { return &t.Heartbeat }, 50 * time.Millisecond},
	{"timeout_ms", func(t *CohortTiming) *time.Duration { return &t.Timeout }, 50 * time.Millisecond},
	{"sweep_ms", func(t *CohortTiming) *time.Duration { return &t.Sweep }, 50 * time.Millisecond},
	{"lease_ms", func(t *CohortTiming) *time.Duration { return &t.Lease }, 50 * time.Millisecond},
	{"hold_ms", func(t *CohortTiming) *time.Duration { return &t.Hold }, 0},
	{"settle_ms", func(t *CohortTiming) *time.Duration { return &t.Settle }, 0},
	{"release_ms", func(t *CohortTiming) *time.Duration { return &t.Release }, 0},
	{"stall_ms", func(t *CohortTiming) *time.Duration { return &t.Stall }, 0},
}

// Validate refuses timing that must flap.
func (t CohortTiming) Validate() error {
	const longest = 24 * time.Hour
	for _, f := range timingFields {
		d := *f.of(&t)
		if d < f.least || d > longest || d%time.Millisecond != 0 {
			return fmt.Errorf("%w: %s is %s, must be whole milliseconds from %s to %s", rollcall.ErrParams, f.name, d, f.least, longest)
		}
	}
	switch {
	case t.Timeout <= 2*t.Heartbeat:
		return fmt.Errorf("%w: timeout %s is not above twice the heartbeat %s: one lost heartbeat would end a member", rollcall.ErrParams, t.Timeout, t.Heartbeat)
	case t.Lease <= 2*t.Sweep:
		return fmt.Errorf("%w: lease %s is not above twice the sweep %s: one late renewal would end it", rollcall.ErrParams, t.Lease, t.Sweep)
	case t.Timeout < t.Heartbeat+t.Lease+t.Sweep:
		return fmt.Errorf("%w: timeout %s is below heartbeat + lease + sweep (%s): a member that dies with the coordinator would be noticed late",
			rollcall.ErrParams, t.Timeout, t.Heartbeat+t.Lease+t.Sweep)
	}
	return nil
}

// MarshalJSON implements [json.Marshaler].
func (t CohortTiming) MarshalJSON() ([]byte, error) {
	fields := make(map[string]int64, len(timingFields))
	for _, f := range timingFields {
		fields[f.name] = f.of(&t).Milliseconds()
	}
	return json.Marshal(fields)
}

// UnmarshalJSON implements [json.Unmarshaler]. Names that it does not know are of a later
// release.
func (t *CohortTiming) UnmarshalJSON(data []byte) error {
	var fields map[string]json.Number
	if err := json.Unmarshal(data, &fields); err != nil {
		return err
	}
	for _, f := range timingFields {
		if fields[f.name] == "" {
			continue
		}
		ms, err := fields[f.name].Int64()
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		if ms < 0 || ms > math.MaxInt64/int64(time.Millisecond) {
			return errors.New(f.name + " is out of range")
		}
		*f.of(t) = time.Duration(ms) * time.Millisecond
	}
	return nil
}

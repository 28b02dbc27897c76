package door

import (
	"errors"
	"fmt"
	"time"

	"github.com/rollcall-io/rollcall/edge"
)

// ErrConfig is returned, wrapped with the reason, for a configuration that cannot work.
var ErrConfig = errors.New("door: invalid configuration")

// Config describes a front door. Only Edge.ID is required.
type Config struct {
	// Edge is how the node works; OnDead and OnSuperseded are the door's.
	Edge edge.Config
	// IdleThreshold is how long a device should wait without input until it says that
	// it is not active any more; default 5 minutes. Devices are told and decide.
	IdleThreshold time.Duration
	// MaxSessions held at a time; default 100,000. Who comes then is told to come back
	// later, or elsewhere.
	MaxSessions int
	// MaxDevices is how many sessions one user may have here; default 32.
	MaxDevices int
	// Rate is how many operations one user may do in a second, on average; default 20,
	// with bursts of Burst, default 100. A device needs one in half a minute.
	Rate, Burst int
}

func (c Config) withDefaults() (Config, error) {
	if c.Edge.OnDead != nil || c.Edge.OnSuperseded != nil {
		return c, fmt.Errorf("%w: callbacks of the edge are the door's", ErrConfig)
	}
	if c.IdleThreshold == 0 {
		c.IdleThreshold = 5 * time.Minute
	}
	for _, n := range []struct {
		name  string
		value *int
		usual int
	}{{"sessions", &c.MaxSessions, 100_000}, {"devices", &c.MaxDevices, 32}, {"rate", &c.Rate, 20}, {"burst", &c.Burst, 100}} {
		if *n.value < 0 {
			return c, fmt.Errorf("%w: %s %d", ErrConfig, n.name, *n.value)
		}
		if *n.value == 0 {
			*n.value = n.usual
		}
	}
	if c.IdleThreshold < 0 {
		return c, fmt.Errorf("%w: idle threshold %s", ErrConfig, c.IdleThreshold)
	}
	return c, nil
}

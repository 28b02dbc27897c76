package rollcall

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Params is the timing of a fabric. Edges, keepers and fanouts of one fabric use
// the same; the fabric's streams carry it. Start from a preset.
type Params struct {
	// Heartbeat is the longest time between two heartbeats of a healthy device.
	// Shorter finds silence sooner and costs battery and traffic.
	Heartbeat time.Duration
	// Jitter spreads heartbeats over [Heartbeat × (1−Jitter), Heartbeat] and
	// renewals over Renewal × (1±Jitter), so that they do not come in step.
	Jitter float64
	// IdleTimeout is how long a connection may be silent before it counts as
	// dead. Above 2 × Heartbeat one lost heartbeat does no harm.
	IdleTimeout time.Duration
	// CheckInterval is how late the end of the idle timeout may be noticed.
	CheckInterval time.Duration
	// Renewal is how often an edge renews its leases, on average. One renewal
	// covers every connection of the edge in a shard.
	Renewal time.Duration
	// LeaseTTL is how long a lease holds without renewal. Above 2 × Renewal one
	// lost renewal does no harm.
	LeaseTTL time.Duration
	// Sweep is how late the end of a lease may be noticed. Ticks are at most
	// this far apart.
	Sweep time.Duration
	// Debounce is how long a user without live connections is still shown as
	// before. It hides reconnects and delays every offline.
	Debounce time.Duration
	// Outage is the silence of a log from which the keeper concludes that the
	// store was away, and the silence of the keeper after which views turn
	// unknown. It must exceed two sweeps, and a lease must outlast it.
	Outage time.Duration
	// Buffer is how far back in time an edge's event may lie when it reaches the
	// log; older stamps are clamped. It is also how long the keeper remembers
	// the last epoch of an endpoint that is gone.
	Buffer time.Duration
}

// Default suits phones and desktops on ordinary networks.
func Default() Params {
	return Params{
		Heartbeat: 30 * time.Second, Jitter: 0.1,
		IdleTimeout: 75 * time.Second, CheckInterval: 5 * time.Second,
		Renewal: 60 * time.Second, LeaseTTL: 150 * time.Second, Sweep: 5 * time.Second,
		Debounce: 20 * time.Second, Outage: 15 * time.Second, Buffer: 24 * time.Hour,
	}
}

// Tight is [Default] with checks every second: four seconds sooner, five times
// the idle ticks.
func Tight() Params {
	p := Default()
	p.CheckInterval, p.Sweep = time.Second, time.Second
	return p
}

// Mobile is for weak networks and systems that stop timers in the background:
// fewer heartbeats, two may be lost, and a longer debounce for the ride through
// a tunnel.
func Mobile() Params {
	p := Default()
	p.Heartbeat, p.IdleTimeout, p.Debounce = 60*time.Second, 200*time.Second, 45*time.Second
	return p
}

// Worker is for processes on a good network that others wait for: detection
// within ten seconds, no debounce, twenty times the traffic per member.
func Worker() Params {
	p := Default()
	p.Heartbeat, p.IdleTimeout, p.CheckInterval = 3*time.Second, 9*time.Second, time.Second
	p.Renewal, p.LeaseTTL, p.Sweep = 3*time.Second, 9*time.Second, time.Second
	p.Debounce, p.Outage = 0, 4*time.Second
	return p
}

// PresetNames lists what [Preset] knows.
var PresetNames = [...]string{"default", "tight", "mobile", "worker"}

// Preset returns the named preset.
func Preset(name string) (Params, error) {
	switch name {
	case "default", "":
		return Default(), nil
	case "tight":
		return Tight(), nil
	case "mobile":
		return Mobile(), nil
	case "worker":
		return Worker(), nil
	}
	return Params{}, fmt.Errorf("rollcall: unknown preset %q (known: default, tight, mobile, worker)", name)
}

// LongestRenewal is the longest time between two renewals of a healthy edge.
func (p Params) LongestRenewal() time.Duration {
	return p.Renewal + time.Duration(float64(p.Renewal)*p.Jitter)
}

// ErrParams is returned, wrapped with the reason, for timing that cannot work;
// ErrFlaps besides it if it can be run, but healthy connections would be cut off.
var (
	ErrParams = errors.New("rollcall: parameters refused")
	ErrFlaps  = errors.New("healthy connections would be cut off")
)

// Validate refuses timing that must flap, and warns of timing in which a single
// lost message can.
func (p Params) Validate() (warnings []string, err error) {
	if err := p.checkRanges(); err != nil {
		return nil, err
	}
	switch {
	case p.LeaseTTL <= p.LongestRenewal():
		return nil, fmt.Errorf("%w: lease_ttl %s is not above the longest renewal %s: %w", ErrParams, p.LeaseTTL, p.LongestRenewal(), ErrFlaps)
	case p.IdleTimeout <= p.Heartbeat:
		return nil, fmt.Errorf("%w: idle_timeout %s is not above the longest heartbeat %s: %w", ErrParams, p.IdleTimeout, p.Heartbeat, ErrFlaps)
	case p.Outage <= 2*p.Sweep:
		return nil, fmt.Errorf("%w: outage %s is not above twice the sweep %s: one late tick would count as an outage",
			ErrParams, p.Outage, p.Sweep)
	}
	if p.LeaseTTL <= 2*p.Renewal {
		warnings = append(warnings, fmt.Sprintf("lease_ttl %s is not above twice the renewal %s: one lost renewal can end a lease", p.LeaseTTL, p.Renewal))
	}
	if p.IdleTimeout <= 2*p.Heartbeat {
		warnings = append(warnings, fmt.Sprintf("idle_timeout %s is not above twice the heartbeat %s: one lost heartbeat can end a connection", p.IdleTimeout, p.Heartbeat))
	}
	if p.Outage >= p.LeaseTTL-p.LongestRenewal() {
		warnings = append(warnings, fmt.Sprintf("outage %s is not below lease_ttl − longest renewal (%s): an outage too short to be noticed can end a lease",
			p.Outage, p.LeaseTTL-p.LongestRenewal()))
	}
	return warnings, nil
}

func (p Params) checkRanges() error {
	for _, f := range fields {
		if f.duration == nil {
			continue
		}
		d := *f.duration(&p)
		if d < 0 || (d == 0 && f.name != "debounce") {
			return fmt.Errorf("%w: %s must be above zero, not %s", ErrParams, f.name, d)
		}
		if d > maxDuration {
			return fmt.Errorf("%w: %s must be at most %s, not %s", ErrParams, f.name, maxDuration, d)
		}
	}
	if math.IsNaN(p.Jitter) || p.Jitter < 0 || p.Jitter >= 1 {
		return fmt.Errorf("%w: jitter must be in [0, 1), not %v", ErrParams, p.Jitter)
	}
	return nil
}

// maxDuration keeps sums of parameters far from overflow.
const maxDuration = 366 * 24 * time.Hour

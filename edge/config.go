package edge

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/edge/phi"
	"github.com/rollcall-io/rollcall/subjects"
)

// Config describes an edge. Only ID is required.
type Config struct {
	// ID names the edge. It is stable over restarts: a new process under the same
	// id ends the connections of the one before at once, a new id lets them wait
	// for the lease to run out.
	ID string
	// Prefix of the fabric; default [subjects.DefaultPrefix].
	Prefix string
	// Params overrides the fabric's timing. Keepers do not hear of it: it is meant
	// for experiments.
	Params *rollcall.Params

	// Detector finds silence sooner than the idle timeout where the history of a
	// connection allows it, and never later; default: none. docs/detectors.md says
	// what it is good for.
	Detector *phi.Config

	// OnDead is called when a connection's idle timeout has run out, or the detector
	// gave it up. The host must close the socket.
	OnDead func(*Conn)
	// OnSuperseded is called when a newer connection of the same endpoint is
	// current, here or on another edge. The host should close the socket.
	//
	// Callbacks run one after the other on one goroutine of the node, and never
	// under a lock, so they may call back into the node. A connection is gone when
	// it is handed over, and is handed over at most once; so what waits for a slow
	// callback is bounded by the connections that have ended. Run waits for
	// a running callback; what still waits when Run ends is not called.
	OnSuperseded func(*Conn)

	// Seed makes the jitter of renewals and retries repeatable; 0 means random.
	Seed uint64
	// ClockResolution is how exactly heartbeats are stamped, and how often the
	// node wakes while it has connections. The default, a twentieth of the check
	// interval but at least 50 ms, costs four wake-ups a second. At most a fifth
	// of the check interval is used, or silence would be noticed too late.
	ClockResolution time.Duration
	// Logger hears of lost and found stores; default: nobody.
	Logger *slog.Logger
	// Registerer takes the metrics while Run runs; default: nobody.
	Registerer prometheus.Registerer
	// Tracer makes a span of every frame in which somebody comes, leaves or changes, and a trace that
	// keepers and fanouts go on with. Default: no traces, and nothing of them on the wire.
	Tracer trace.TracerProvider
}

// maxIdle keeps every silence far below what a heartbeat's stamp can tell.
const maxIdle = 48 * time.Hour

func (c Config) withDefaults() (Config, error) {
	if err := rollcall.CheckID(c.ID); err != nil {
		return c, fmt.Errorf("%w: id: %w", ErrConfig, err)
	}
	if c.Prefix == "" {
		c.Prefix = subjects.DefaultPrefix
	}
	if _, err := subjects.New(c.Prefix, 1); err != nil {
		return c, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if c.ClockResolution < 0 {
		return c, fmt.Errorf("%w: clock resolution %s", ErrConfig, c.ClockResolution)
	}
	if c.Seed == 0 {
		c.Seed = rand.Uint64()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Logger = c.Logger.With("edge", c.ID)
	if c.Detector != nil {
		detector := *c.Detector
		c.Detector = &detector
		if err := detector.Check(); err != nil {
			return c, fmt.Errorf("%w: %w", ErrConfig, err)
		}
	}
	if c.Params == nil {
		return c, nil
	}
	p := *c.Params
	c.Params = &p
	return c, checkParams(p)
}

// checkParams takes timing that must flap: whoever made the fabric was warned, and
// an edge that refused it could not be experimented with.
func checkParams(p rollcall.Params) error {
	if _, err := p.Validate(); err != nil && !errors.Is(err, rollcall.ErrFlaps) {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if p.IdleTimeout > maxIdle {
		return fmt.Errorf("%w: idle timeout %s, an edge can tell at most %s", ErrConfig, p.IdleTimeout, maxIdle)
	}
	return nil
}

// resolution of the coarse clock under the given timing.
func (c Config) resolution(p rollcall.Params) time.Duration {
	const least = 50 * time.Millisecond
	r := c.ClockResolution
	if r == 0 {
		r = max(p.CheckInterval/20, least)
	}
	return max(min(r, p.CheckInterval/5), time.Millisecond)
}

// Streams of random numbers, apart so that one part's use leaves the others alone.
const (
	randRenewals = iota
	randStart
	randShards // plus the shard
)

func (c Config) rand(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(c.Seed, stream)) }

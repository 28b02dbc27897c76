package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/rollcall-io/rollcall/edge"
	"github.com/rollcall-io/rollcall/edge/door"
	"github.com/rollcall-io/rollcall/edge/natsgate"
	"github.com/rollcall-io/rollcall/edge/phi"
	"github.com/rollcall-io/rollcall/subjects/identity"
)

type natsgateCmd struct {
	ID          string  `name:"id" placeholder:"NAME" help:"The edge id, better another one at every start (default: the name in --creds, else one that no other process has or had)."`
	MaxSessions int     `default:"100000" placeholder:"N" help:"Sessions at a time (default ${default})."`
	Phi         float64 `placeholder:"THRESHOLD" help:"Find silence sooner where a device's history allows it, at this φ, such as 8 (default: by the fixed timeout only)."`
	traced
	observed
	remote
}

func (c *natsgateCmd) Help() string {
	return `Takes heartbeats of devices that speak NATS, on any NATS system that 'rollcall init' has prepared. Each device has a credential of its
own: 'rollcall token device' mints it.

Run as many as you like; devices know nothing of them. One that is stopped (Ctrl-C, SIGTERM) has its devices open sessions
elsewhere, which takes as long as a heartbeat: give it 35 s under a supervisor. One that is killed is covered by its lease until
they have found out. If it comes back at once under the same --id, some may be shown offline for seconds.`
}

// ofGates is how a gate begins and ends: its devices come at their next heartbeat.
var ofGates = manners{
	runs:   "takes devices that speak NATS; Ctrl-C has them move elsewhere",
	leaves: "devices move at their next heartbeat", patience: 90 * time.Second, named: true,
}

func (c *natsgateCmd) Run(ctx context.Context, std console) error {
	if err := (phi.Config{Threshold: c.Phi}).Check(); err != nil {
		return fmt.Errorf("%w: --phi: %w", errUsage, err)
	}
	r := running{c.ID, c.observed, c.remote}
	if r.ID == "" && nameIn(c.Creds, identity.Natsgate) == "" {
		r.ID = thisStart(identity.Natsgate)
	}
	tracer, stop, err := c.provider(ctx, "natsgate", c.logger(std, slog.LevelInfo))
	if err != nil {
		return err
	}
	defer stop()
	return r.run(ctx, std, identity.Natsgate, ofGates, func(p process) (sharer, error) {
		return natsgate.New(p.nc, c.config(p.member, p.registry, tracer, p.log))
	})
}

func (c *natsgateCmd) config(id string, r prometheus.Registerer, tracer trace.TracerProvider, log *slog.Logger) door.Config {
	config := door.Config{Edge: edge.Config{ID: id, Prefix: c.Prefix, Registerer: r, Tracer: tracer, Logger: log}, MaxSessions: c.MaxSessions}
	if c.Phi != 0 {
		config.Edge.Detector = &phi.Config{Threshold: c.Phi}
	}
	return config
}

// thisStart names a process as no other is or was: in containers host and process id come
// back.
func thisStart(role identity.Role) string { return thisProcess(role) + "-" + rand.Text()[:6] }

// natsgate serves devices that speak NATS. It does not drain: when it stops, so does the
// server, and devices come back to the next one.
func (c *upCmd) natsgate(ctx context.Context, nc *nats.Conn, id string, watch *watch, log *slog.Logger) error {
	g, err := natsgate.New(nc, door.Config{
		Edge:          edge.Config{ID: id, Prefix: c.Prefix, Registerer: watch.registry, Tracer: watch.tracer, Logger: log},
		IdleThreshold: c.IdleThreshold, MaxSessions: c.MaxSessions,
	})
	if err != nil {
		return err
	}
	watch.parts.Add("natsgate", g)
	return g.Run(ctx)
}

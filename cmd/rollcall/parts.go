package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/rollcall-io/rollcall/fanout"
	"github.com/rollcall-io/rollcall/keeper"
	"github.com/rollcall-io/rollcall/subjects/identity"
)

// running is what every command needs that runs one part of a fabric on a NATS system.
type running struct {
	ID      string `name:"id" placeholder:"NAME" help:"Names this process (default: the name in --creds, else the host's)."`
	Metrics string `placeholder:"HOST:PORT" help:"Where Prometheus finds /metrics; loopback only (default: nowhere)."`
	Verbose bool   `short:"v" help:"Log what the part does."`
	remote
}

// run connects with the part's role and runs it beside its metrics until interrupted.
func (r running) run(ctx context.Context, std console, role identity.Role, start func(*nats.Conn, prometheus.Registerer, *slog.Logger) (func(context.Context) error, error)) error {
	level := slog.LevelWarn
	if r.Verbose {
		level = slog.LevelInfo
	}
	log := std.logger(level)
	host, _ := os.Hostname()
	id := cmp.Or(r.ID, nameIn(r.Creds, role), host, string(role))
	nc, err := r.connectAs(std, string(role), party{role: role, ids: []string{id}, anyName: true, does: "run a " + string(role)})
	if err != nil {
		return err
	}
	defer nc.Close()
	registry := newRegistry()
	run, err := start(nc, registry, log)
	if err != nil {
		return err
	}
	metrics, err := listenMetrics(r.Metrics, nil)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return part(string(role), severed(nc, run(ctx))) })
	if metrics != nil {
		defer metrics.Close()
		group.Go(func() error { return serveMetrics(ctx, metrics, registry) })
	}
	fmt.Fprintf(std.out, "%s %s runs on %s; Ctrl-C stops it\n", role, id, nc.ConnectedUrlRedacted())
	return group.Wait()
}

type keeperCmd struct{ running }

func (c *keeperCmd) Help() string {
	return `Runs a keeper on any NATS system that 'rollcall init' has prepared. Run one: it takes over all shards,
and a keeper that ran before ends with exit code 1 at its next write. There is no standby yet, so do not let a supervisor start two again and
again: they would take over from each other for ever.`
}

func (c *keeperCmd) Run(ctx context.Context, std console) error {
	return c.run(ctx, std, identity.Keeper, func(nc *nats.Conn, r prometheus.Registerer, log *slog.Logger) (func(context.Context) error, error) {
		k, err := keeper.New(nc, keeper.Config{Prefix: c.Prefix, Registerer: r, Logger: log})
		if err != nil {
			return nil, err
		}
		return k.Run, nil
	})
}

type fanoutCmd struct {
	sight
	running
}

func (c *fanoutCmd) Help() string {
	return `Runs a fanout on any NATS system that 'rollcall init' has prepared. Run one: it takes over all shards,
and a fanout that ran before ends with exit code 1 at its next write. There is no standby yet, so do not let a supervisor start two again and
again: they would take over from each other for ever.`
}

func (c *fanoutCmd) Run(ctx context.Context, std console) error {
	return c.run(ctx, std, identity.Fanout, func(nc *nats.Conn, r prometheus.Registerer, log *slog.Logger) (func(context.Context) error, error) {
		f, err := fanout.New(nc, fanout.Config{Prefix: c.Prefix, Relations: c.relations(), AskSights: c.AskSights, Registerer: r, Logger: log})
		if err != nil {
			return nil, err
		}
		return f.Run, nil
	})
}

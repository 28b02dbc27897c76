package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/rollcall-io/rollcall/internal/bench"
)

type benchCmd struct {
	Duration     time.Duration `default:"10s" help:"How long the load lasts where nothing else ends it (default ${default})."`
	Opens        int           `default:"50000" placeholder:"N" help:"New users a round (default ${default})."`
	Viewers      int           `default:"5000" placeholder:"N" help:"Viewers while states change (default ${default})."`
	Targets      int           `default:"50" placeholder:"N" help:"Targets of each viewer (default ${default})."`
	Connections  int           `default:"10000" placeholder:"N" help:"Connections whose renewals are counted; twenty times as many beat (default ${default})."`
	StormUsers   int           `default:"5000" placeholder:"N" help:"Users of the edge that crashes (default ${default})."`
	StormViewers int           `default:"1000" placeholder:"N" help:"Viewers of them (default ${default})."`
	StormTargets int           `default:"200" placeholder:"N" help:"How many of them each of these watches (default ${default})."`
	GrowFrom     int           `default:"1000" placeholder:"N" help:"With how many connections growth begins, ten times as many each time (default ${default})."`
	GrowTo       int           `default:"1000000" placeholder:"N" help:"With how many connections growth ends (default ${default})."`
	Only         []string      `placeholder:"NAME" help:"Take only these measures: opens, changes, storm, latency, renewals, heartbeats, growth."`
	JSON         bool          `help:"Print one JSON document."`
}

func (c *benchCmd) Help() string {
	return `Starts a server on a temporary directory, and on it a keeper, a fanout and edges, each with its own connection over
loopback TCP; nothing that runs already is touched. Measures them, and raw JetStream and core NATS between the rounds.

  opens       new users until a viewer sees them, beside JetStream writes
  changes     changes delivered to many viewers, beside core messages
  storm       an edge with all its users crashes: messages, time to the last change and memory, beside core messages
  latency     one open until its viewer's event, beside acknowledgement and request
  renewals    KV writes and bytes of history for connections that only beat
  heartbeats  heartbeats that one core takes
  growth      only if named: opens with 1, 2 and 4 keepers and fanouts; what a renewed connection costs, from --grow-from connections to --grow-to

Server, load and viewers share this machine's cores with the fabric. What does not arrive is an error.`
}

func (c *benchCmd) Run(ctx context.Context, std console) error {
	begin := time.Now()
	report, err := bench.Run(ctx, bench.Config{
		Duration: c.Duration, Opens: c.Opens, Viewers: c.Viewers, Targets: c.Targets, Connections: c.Connections,
		StormUsers: c.StormUsers, StormViewers: c.StormViewers, StormTargets: c.StormTargets, GrowFrom: c.GrowFrom, GrowTo: c.GrowTo, Only: c.Only,
		Progress: func(what string) { fmt.Fprintf(std.err, "%5.1fs  %s\n", time.Since(begin).Seconds(), what) },
		Logger:   slog.New(slog.NewTextHandler(std.err, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if errors.Is(err, bench.ErrConfig) {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return fmt.Errorf("%w: nothing was measured to its end", errInterrupted)
	}
	if err != nil {
		return err
	}
	if !c.JSON {
		fmt.Fprintln(std.err)
		return report.WriteTable(std.out)
	}
	out := json.NewEncoder(std.out)
	out.SetIndent("", "  ")
	return out.Encode(report)
}

package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/rollcall-io/rollcall/fanout"
	"github.com/rollcall-io/rollcall/internal/health"
	"github.com/rollcall-io/rollcall/keeper"
	"github.com/rollcall-io/rollcall/subjects/identity"
)

// running is what every command needs that runs one part of a fabric on a NATS system.
type running struct {
	ID string `name:"id" placeholder:"NAME" help:"Names this process among its like; who comes back under it finds its shards again (default: the name in --creds, else one that no other process has)."`
	observed
	remote
}

// A sharer is a part of a fabric that shares its shards with others.
type sharer interface {
	health.Part
	Run(context.Context) error
	Drain(context.Context) error
}

// A process is what a sharer is started with.
type process struct {
	nc       *nats.Conn
	member   string
	registry prometheus.Registerer
	log      *slog.Logger
}

// manners are how a part begins and ends, in words.
type manners struct {
	runs, leaves string
	patience     time.Duration // with its leaving
	named        bool          // a credential is for one id
}

// patience is how long a part may take to leave, or shards to be handed over.
const patience = 10 * time.Second

// ofSharers are those of parts that share the shards out.
var ofSharers = manners{
	runs:   "shares the shards with others; Ctrl-C hands its own over",
	leaves: "handing the shards over", patience: patience,
}

// run connects with the part's role and runs it beside its metrics until interrupted. Then the part leaves
// politely.
func (r running) run(ctx context.Context, std console, role identity.Role, how manners, start func(process) (sharer, error)) error {
	log := r.logger(std, slog.LevelInfo)
	r.log = log
	id := cmp.Or(r.ID, nameIn(r.Creds, role), thisProcess(role))
	nc, err := r.connectAs(std, string(role), party{role: role, ids: []string{id}, anyName: !how.named, does: "run a " + string(role)})
	if err != nil {
		return err
	}
	defer nc.Close()
	watch, err := r.watch(nil)
	if err != nil {
		return err
	}
	defer watch.close()
	w, err := start(process{nc, id, watch.registry, log})
	if err != nil {
		return err
	}
	watch.parts.Add(string(role), w)
	watch.connection(string(role), nc)
	working, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	group, working := errgroup.WithContext(working)
	group.Go(func() error {
		defer end()
		return part(string(role), severed(nc, w.Run(working)))
	})
	watch.serve(working, group)
	group.Go(func() error { summarise(working, log, r.Summary, watch.registry, digests[string(role)]); return nil })
	group.Go(func() error {
		select {
		case <-working.Done():
			return nil
		case <-ctx.Done():
		}
		defer end()
		return how.leave(working, std, w)
	})
	fmt.Fprintf(std.out, "%s %s runs on %s and %s\n", role, id, nc.ConnectedUrlRedacted(), how.runs)
	return group.Wait()
}

func (m manners) leave(ctx context.Context, std console, w sharer) error {
	fmt.Fprintf(std.err, "rollcall: %s; a second Ctrl-C ends it at once\n", m.leaves)
	ctx, cancel := context.WithTimeout(ctx, m.patience)
	defer cancel()
	return w.Drain(ctx)
}

// thisProcess names a process that nobody has named: two on one machine are two.
func thisProcess(role identity.Role) string {
	host, _ := os.Hostname()
	return fmt.Sprintf("%s-%d", cmp.Or(host, string(role)), os.Getpid())
}

// sharing is what the help of every part says about more than one.
const sharing = `
Run as many as you like, up to the number of shards: they share the shards out evenly, and move as few as they can when one
comes or goes. One that is stopped (Ctrl-C, SIGTERM) hands its shards over and nothing is missed; one that is killed, or cut off, is
missed within ten seconds, and cannot write any more once another has taken over. Each needs an --id of its own; under a
supervisor give it one that stays. 'rollcall up' owns all shards alone: of the two ways, whoever starts last takes over, and the
others end with exit code 1.`

type keeperCmd struct {
	traced
	running
}

func (c *keeperCmd) Help() string {
	return `Runs a keeper on any NATS system that 'rollcall init' has prepared.
` + sharing
}

func (c *keeperCmd) Run(ctx context.Context, std console) error {
	tracer, stop, err := c.provider(ctx, "keeper", c.logger(std, slog.LevelInfo))
	if err != nil {
		return err
	}
	defer stop()
	return c.run(ctx, std, identity.Keeper, ofSharers, func(p process) (sharer, error) {
		return keeper.New(p.nc, keeper.Config{Prefix: c.Prefix, Member: p.member, Registerer: p.registry, Tracer: tracer, Logger: p.log})
	})
}

type fanoutCmd struct {
	sight
	traced
	running
}

func (c *fanoutCmd) Help() string {
	return `Runs a fanout on any NATS system that 'rollcall init' has prepared.
` + sharing
}

func (c *fanoutCmd) Run(ctx context.Context, std console) error {
	tracer, stop, err := c.provider(ctx, "fanout", c.logger(std, slog.LevelInfo))
	if err != nil {
		return err
	}
	defer stop()
	return c.run(ctx, std, identity.Fanout, ofSharers, func(p process) (sharer, error) {
		return fanout.New(p.nc, fanout.Config{
			Prefix: c.Prefix, Member: p.member, Relations: c.relations(), AskSights: c.AskSights, Registerer: p.registry, Tracer: tracer, Logger: p.log,
		})
	})
}

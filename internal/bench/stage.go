package bench

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/edge"
	"github.com/rollcall-io/rollcall/fanout"
	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/keeper"
)

// A stage is a fabric with its parts, for one measure. Its context ends when one of
// them fails, with the reason.
type stage struct {
	*scene
	fabric.Fabric
	ctx     context.Context
	keeper  *keeper.Keeper // the last that was started
	keepers []*keeper.Keeper
	edges   []*edge.Node
	js      jetstream.JetStream // of the measure itself

	end     context.CancelCauseFunc
	running sync.WaitGroup
	conns   []*nats.Conn
}

// cast says which parts a stage has.
type cast struct {
	params rollcall.Params
	silent bool // no keeper and no fanout: the edges' frames stay in the log
	edges  int
	window time.Duration // of the fanout; 0 for its default
	owners int           // keepers and fanouts that share the shards; 0 for one of each that has all
}

// patientParams is the timing where heartbeats are not what is measured: connections
// need none.
func patientParams() rollcall.Params {
	p := rollcall.Default()
	p.IdleTimeout = time.Hour
	return p
}

// raise makes a fabric and waits until its parts work; strike ends it.
func (s *scene) raise(ctx context.Context, prefix string, c cast) (*stage, error) {
	st := &stage{scene: s}
	st.ctx, st.end = context.WithCancelCause(ctx)
	if err := st.build(prefix, c); err != nil {
		st.strike()
		return nil, err
	}
	return st, nil
}

func (st *stage) build(prefix string, c cast) error {
	nc, err := st.open("measure")
	if err != nil {
		return err
	}
	if st.js, err = jetstream.New(nc); err != nil {
		return err
	}
	st.Fabric, err = fabric.Ensure(st.ctx, st.js, fabric.Config{Prefix: prefix, Params: c.params})
	if err != nil {
		return err
	}
	if err := st.startParts(c); err != nil {
		return err
	}
	for i := range c.edges {
		if err := st.startEdge(fmt.Sprintf("edge-%d", i)); err != nil {
			return err
		}
	}
	return nil
}

// open makes a connection that ends with the stage.
func (st *stage) open(name string) (*nats.Conn, error) {
	nc, err := st.connect(name)
	if err == nil {
		st.conns = append(st.conns, nc)
	}
	return nc, err
}

// start runs a part; the stage ends if it fails.
func (st *stage) start(name string, run func(context.Context) error) {
	st.running.Go(func() {
		if err := run(st.ctx); err != nil && st.ctx.Err() == nil {
			st.end(fmt.Errorf("%s: %w", name, err))
		}
	})
}

// logOf is nobody's for members: they end as a crash would, and say so.
func (st *stage) logOf(part, member string) *slog.Logger {
	if member != "" {
		return slog.New(slog.DiscardHandler)
	}
	return st.log.With("part", part)
}

// startParts starts what serves edges and viewers.
func (st *stage) startParts(c cast) error {
	switch {
	case c.silent:
		return nil
	case c.owners > 0:
		return st.startOwners(c.owners)
	}
	if err := st.startKeeperAs(""); err != nil {
		return err
	}
	return st.startFanoutAs("", c.window)
}

// startKeeperAs starts a keeper of a share of the shards, as a member of this id, or of all if it has
// none.
func (st *stage) startKeeperAs(member string) error {
	nc, err := st.open("keeper")
	if err != nil {
		return err
	}
	st.keeper, err = keeper.New(nc, keeper.Config{Prefix: st.Prefix(), Member: member, Logger: st.logOf("keeper", member)})
	if err != nil {
		return err
	}
	st.keepers = append(st.keepers, st.keeper)
	st.start("keeper", st.keeper.Run)
	if member != "" {
		return nil // it may have nothing to be ready for
	}
	return await(st.ctx, "the keeper", st.keeper.Ready)
}

func (st *stage) startFanoutAs(member string, window time.Duration) error {
	nc, err := st.open("fanout")
	if err != nil {
		return err
	}
	f, err := fanout.New(nc, fanout.Config{
		Prefix: st.Prefix(), Member: member, Window: window, Logger: st.logOf("fanout", member),
		InterestTTL: time.Hour, // raw subscribers do not refresh
	})
	if err != nil {
		return err
	}
	st.start("fanout", f.Run)
	if member != "" {
		return nil
	}
	return st.ready(f.Ready())
}

func (st *stage) startEdge(id string) error {
	node, err := st.startEdgeUntil(st.ctx, id)
	if err == nil {
		st.edges = append(st.edges, node)
	}
	return err
}

// startEdgeUntil starts an edge that crashes when ctx ends.
func (st *stage) startEdgeUntil(ctx context.Context, id string) (*edge.Node, error) {
	nc, err := st.open(id)
	if err != nil {
		return nil, err
	}
	node, err := edge.New(nc, edge.Config{ID: id, Prefix: st.Prefix(), Logger: st.log})
	if err != nil {
		return nil, err
	}
	st.start(id, func(context.Context) error {
		if err := node.Run(ctx); ctx.Err() == nil {
			return err
		}
		return nil
	})
	return node, st.ready(node.Ready())
}

func (st *stage) ready(ready <-chan struct{}) error {
	select {
	case <-st.ctx.Done():
		return context.Cause(st.ctx)
	case <-ready:
		return nil
	}
}

// strike ends the parts as a crash would, which is quick.
func (st *stage) strike() {
	st.end(nil)
	st.running.Wait()
	for _, nc := range st.conns {
		nc.Close()
	}
}

package natsgate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/rollcall-io/rollcall/edge/door"
	"github.com/rollcall-io/rollcall/subjects"
)

// queue is the group that all gates of a fabric share.
const queue = "natsgate"

// Gate is one gate. Use [New], then [Gate.Run].
type Gate struct {
	nc      *nats.Conn
	door    *door.Door
	names   subjects.Names
	id      string // of the edge
	own     string // the same as a token
	metrics *metrics
	relays  chan struct{} // one for each request that is passed on
	serving chan struct{} // closed when devices can reach the gate
	leaving chan struct{} // closed when Drain is called
	leave   func()        // closes it once
}

// New copies and checks the configuration; that of the door is the gate's. It starts nothing.
func New(nc *nats.Conn, config door.Config) (*Gate, error) {
	d, err := door.New(nc, config)
	if err != nil {
		return nil, err
	}
	prefix := config.Edge.Prefix
	if prefix == "" {
		prefix = subjects.DefaultPrefix
	}
	names, err := subjects.New(prefix, 1) // devices' subjects have no shards
	if err != nil {
		return nil, fmt.Errorf("natsgate: %w", err)
	}
	leaving := make(chan struct{})
	return &Gate{
		nc: nc, door: d, names: names, id: config.Edge.ID, own: subjects.Token(config.Edge.ID), metrics: newMetrics(d, config.Edge.Registerer),
		relays: make(chan struct{}, maxRelays), serving: make(chan struct{}),
		leaving: leaving, leave: sync.OnceFunc(func() { close(leaving) }),
	}, nil
}

// Door is what the gate puts on the wire.
func (g *Gate) Door() *door.Door { return g.door }

// Ready is closed when the server knows that devices can reach the gate.
func (g *Gate) Ready() <-chan struct{} { return g.serving }

// Live is nil: it has no loop that could stand still on its own.
func (g *Gate) Live() error { return g.door.Live() }

// Readiness is nil while devices can open sessions here.
func (g *Gate) Readiness() error {
	if !closed(g.serving) || closed(g.leaving) {
		return errors.New("hears no devices")
	}
	return g.door.Readiness()
}

// errDrained ends the goroutines of a gate that has left politely.
var errDrained = errors.New("natsgate: drained")

// Run serves devices until ctx ends, which looks like a crash, or the gate is drained. It
// returns what the edge returns.
func (g *Gate) Run(ctx context.Context) error {
	unregister, err := g.metrics.register()
	if err != nil {
		return err
	}
	defer unregister()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := g.door.Run(ctx); err != nil {
			return err
		}
		return errDrained
	})
	group.Go(func() error { return g.serve(ctx) })
	if err := group.Wait(); !errors.Is(err, errDrained) {
		return err
	}
	return nil
}

// serve begins when there is a fabric, and ends with ctx.
func (g *Gate) serve(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-g.door.Ready():
	}
	devices, err := g.nc.QueueSubscribe(g.names.Devices(), queue, g.onDevice)
	if err != nil {
		return fmt.Errorf("natsgate: %w", err)
	}
	defer devices.Unsubscribe()
	relayed, err := g.nc.Subscribe(g.names.GateRequests(g.id), g.onRelayed)
	if err != nil {
		return fmt.Errorf("natsgate: %w", err)
	}
	defer relayed.Unsubscribe()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return g.listen(ctx) })
	group.Go(func() error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-g.leaving:
			return devices.Drain() // the others of the queue group go on
		}
	})
	return group.Wait()
}

// listen makes sure, again and again, that the gate can hear its devices. Until it can, nobody
// counts as dead: a link that is cut without a word is noticed two check intervals later, which
// is sooner than anybody's silence.
func (g *Gate) listen(ctx context.Context) error {
	p := g.door.Node().Params()
	every := time.NewTicker(p.CheckInterval)
	defer every.Stop()
	for {
		asking, cancel := context.WithTimeout(ctx, p.CheckInterval)
		err := g.nc.FlushWithContext(asking)
		cancel()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			g.metrics.deaf.Inc()
			g.door.Node().Deaf()
		case !closed(g.serving):
			close(g.serving)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-every.C:
		}
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Drain is the polite leave: the devices are told at their next heartbeat that they should
// open a session elsewhere, for which there is a heartbeat interval; who has not come by then
// is gone. It returns when the store knows and Run has returned. If ctx ends first, the sessions
// that are left end at once.
func (g *Gate) Drain(ctx context.Context) error {
	g.leave()
	moving, cancel := context.WithTimeout(ctx, g.door.Node().Params().Heartbeat+time.Second)
	defer cancel()
	g.awaitEmpty(moving)
	return g.door.Drain(ctx, 0)
}

// awaitEmpty waits until the last session has moved, or ctx ends.
func (g *Gate) awaitEmpty(ctx context.Context) {
	const often = 100 * time.Millisecond
	for g.door.Sessions() > 0 {
		select {
		case <-ctx.Done():
			return
		case <-time.After(often):
		}
	}
}

package edge

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/rollcall-io/rollcall/edge/phi"
	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/internal/storeclock"
	"github.com/rollcall-io/rollcall/internal/tracing"
)

// store is how the node reaches JetStream.
type store struct {
	js     jetstream.JetStream
	reader nats.JetStreamContext // see readTip
}

func newStore(nc *nats.Conn) (store, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return store{}, fmt.Errorf("edge: JetStream: %w", err)
	}
	reader, err := nc.JetStream()
	if err != nil {
		return store{}, fmt.Errorf("edge: JetStream: %w", err)
	}
	return store{js, reader}, nil
}

// work is the node's life after the connection is watched.
func (n *Node) work(ctx context.Context) error {
	s, err := newStore(n.link.nc)
	if err != nil {
		return err
	}
	if err := n.find(ctx, s); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return n.loop(ctx) })
	group.Go(func() error { return n.speak(ctx, s) })
	group.Go(func() error { return n.keepTime(ctx, s) })
	return group.Wait()
}

// find looks the fabric up until it is there, or the node is to leave.
func (n *Node) find(ctx context.Context, s store) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-n.leaving:
			cancel(errDrained)
		case <-ctx.Done():
		}
	}()
	var found fabric.Fabric
	err := n.link.persist(ctx, n.config.rand(randStart), "looking for the fabric", func(ctx context.Context) (err error) {
		found, err = fabric.Lookup(ctx, s.js, n.config.Prefix)
		return err
	})
	if err != nil {
		return context.Cause(ctx)
	}
	return n.open(found)
}

// open makes a pipeline for every shard.
func (n *Node) open(f fabric.Fabric) error {
	n.params = f.Params
	if n.config.Params != nil {
		n.params = *n.config.Params
	}
	if err := checkParams(n.params); err != nil {
		return err
	}
	n.timing = timingOf(n.params, n.config.resolution(n.params))
	if n.config.Detector != nil {
		var err error
		if n.detector, err = phi.New(*n.config.Detector, n.params); err != nil {
			return fmt.Errorf("%w: %w", ErrConfig, err)
		}
	}
	for shard := range f.Shards() {
		n.pipelines = append(n.pipelines, n.newPipeline(f, shard))
	}
	n.clock.refresh()
	close(n.ready)
	if n.isDraining() {
		for _, p := range n.pipelines {
			p.drain()
		}
	}
	return nil
}

func (n *Node) newPipeline(f fabric.Fabric, shard int) *pipeline {
	return &pipeline{
		shard: shard, names: f.Names, clock: n.clock, stats: &n.stats, calls: n.calls, timing: n.timing,
		wake: make(chan struct{}, 1), collect: make(chan struct{}, 1), finished: make(chan struct{}),
		endpoints: newEndpoints(), wheel: newWheel(n.timing.resolution, n.timing.interval),
		accrual: n.newAccrual(),
	}
}

// speak learns where the logs stand and then writes to them.
func (n *Node) speak(ctx context.Context, s store) error {
	tips, err := n.learn(ctx, s)
	if err != nil {
		return err
	}
	control, err := n.link.nc.Subscribe(n.pipelines[0].names.EdgeControl(n.config.ID), n.onControl)
	if err != nil {
		return fmt.Errorf("edge: control subject: %w", err)
	}
	defer control.Unsubscribe()
	group, ctx := errgroup.WithContext(ctx)
	for i, p := range n.pipelines {
		if tips[i].orphaned() {
			p.inherit()
		}
		w, h := n.newWriter(p, s, tips[i]), n.newHistorian(p, s)
		group.Go(func() error { return w.run(ctx) })
		group.Go(func() error { return h.run(ctx) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return errDrained
}

func (n *Node) newWriter(p *pipeline, s store, t tip) *writer {
	return &writer{
		pipeline: p, link: n.link, js: s.js, reader: s.reader, log: n.config.Logger, tracer: tracing.Tracer(n.config.Tracer), edge: n.config.ID,
		random: n.config.rand(randShards + uint64(p.shard)),
		stream: p.names.LogStream(p.shard), subject: p.names.Log(p.shard, n.config.ID),
		incarnation: n.incarnation, sequence: t.sequence,
	}
}

func (n *Node) newHistorian(p *pipeline, s store) *historian {
	return &historian{
		pipeline: p, link: n.link, js: s.js, log: n.config.Logger,
		subject: p.names.Beats(p.shard, n.config.ID), incarnation: n.incarnation,
	}
}

// learn sets the store clocks, reads where each log stands, and chooses an
// incarnation above all that have written there.
func (n *Node) learn(ctx context.Context, s store) ([]tip, error) {
	tips := make([]tip, len(n.pipelines))
	random := n.config.rand(randStart)
	for i, p := range n.pipelines {
		stream, subject := p.names.LogStream(i), p.names.Log(i, n.config.ID)
		err := n.link.persist(ctx, random, stream, func(ctx context.Context) (err error) {
			if err = storeclock.Sync(ctx, s.js, stream, n.clock.now, &p.store); err != nil {
				return err
			}
			tips[i], err = readTip(ctx, s.reader, stream, subject)
			return err
		})
		if err != nil {
			return nil, err
		}
		n.incarnation = max(n.incarnation, uint64(max(p.at(n.clock.now()), 1)), tips[i].incarnation+1)
	}
	return tips, nil
}

// resyncPeriod is how often the store clocks are set: crystals drift apart by at
// most 30 ms in that time.
const resyncPeriod = 5 * time.Minute

// keepTime sets the store clocks again and again, and after every reconnect, when
// another server may lead. Then the leases are renewed as well: if the store came
// back without something that it had acknowledged, it is told so at once, and not
// only at the next renewal, when whoever came here from another edge may have been
// declared gone.
func (n *Node) keepTime(ctx context.Context, s store) error {
	for {
		session, err := n.link.up(ctx)
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done(): // also after a drain, when the session goes on
			return ctx.Err()
		case <-session.Done():
		case <-time.After(resyncPeriod):
		}
		reconnected := session.Err() != nil
		if session, err = n.link.up(ctx); err != nil {
			return err
		}
		for i, p := range n.pipelines {
			err := limited(session, func(ctx context.Context) error {
				return storeclock.Sync(ctx, s.js, p.names.LogStream(i), n.clock.now, &p.store)
			})
			if err != nil && session.Err() == nil {
				n.config.Logger.Debug("edge: store clock not set", "shard", i, "error", err)
			}
			if reconnected {
				p.reassure()
			}
		}
	}
}

package edge

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/edge/phi"
)

// Node is one edge: all connections that a gateway process holds.
type Node struct {
	config Config
	clock  *clock
	link   *link
	calls  *callbacks
	stats  counters
	number atomic.Uint64 // of the last connection

	deaf     atomic.Bool   // the host has said so
	occupied chan struct{} // the first connection has come
	ready    chan struct{} // the fabric is found
	leaving  chan struct{} // Drain was called
	ended    chan struct{} // Run has returned

	mu       sync.Mutex
	started  bool
	draining bool
	err      error // of Run

	// Written once before ready.
	pipelines []*pipeline
	params    rollcall.Params
	timing    timing
	detector  phi.Detector // if there is to be one
	// Written once before the control subject is heard.
	incarnation uint64
}

// New copies and checks the configuration. It starts nothing; call [Node.Run].
func New(nc *nats.Conn, config Config) (*Node, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Node{
		config: config, clock: newClock(), link: newLink(nc, config.Logger),
		calls:    &callbacks{onDead: config.OnDead, onSuperseded: config.OnSuperseded, wake: make(chan struct{}, 1)},
		occupied: make(chan struct{}, 1), ready: make(chan struct{}), leaving: make(chan struct{}), ended: make(chan struct{}),
	}, nil
}

// errDrained ends the goroutines of a node that has left politely.
var errDrained = errors.New("edge: drained")

// Run finds the fabric, as long as that takes, and does the node's work. It owns
// all goroutines of the node and returns when they have ended: nil after
// [Node.Drain], [ErrReplaced] when another process has taken over the edge id,
// [ErrDisconnected] when the NATS connection was closed for good. Cancelling ctx
// looks like a crash: nothing is said, and the lease runs out.
func (n *Node) Run(ctx context.Context) error {
	if err := n.begin(); err != nil {
		return err
	}
	err := n.run(ctx)
	if errors.Is(err, errDrained) {
		err = nil
	}
	n.finish(err)
	return err
}

func (n *Node) run(ctx context.Context) error {
	if r := n.config.Registerer; r != nil {
		c := newCollector(n)
		if err := r.Register(c); err != nil {
			return fmt.Errorf("edge: registering metrics: %w", err)
		}
		defer r.Unregister(c)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return n.link.run(ctx) })
	group.Go(func() error { return n.calls.run(ctx) })
	group.Go(func() error { return n.work(ctx) })
	return group.Wait()
}

func (n *Node) begin() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.started:
		return ErrRunning
	case n.draining:
		return ErrClosed
	}
	n.started = true
	return nil
}

func (n *Node) finish(err error) {
	n.mu.Lock()
	n.err = err
	n.draining = true
	n.mu.Unlock()
	for _, p := range n.running() {
		p.shut()
	}
	close(n.ended)
}

// Ready is closed when the node has found the fabric and takes connections. From
// then on it takes them whether the store can be reached or not.
func (n *Node) Ready() <-chan struct{} { return n.ready }

// Params is the timing that the node goes by; the zero value before [Node.Ready].
func (n *Node) Params() rollcall.Params {
	if n.running() == nil {
		return rollcall.Params{}
	}
	return n.params
}

// StoreTime is the store's clock as the node estimates it; ok is false before it has
// reached the store for the first time.
func (n *Node) StoreTime() (now rollcall.Micros, ok bool) {
	pipelines := n.running()
	if pipelines == nil {
		return 0, false
	}
	return pipelines[0].store.At(n.clock.now())
}

// running lists the pipelines, none before the fabric is found.
func (n *Node) running() []*pipeline {
	select {
	case <-n.ready:
		return n.pipelines
	default:
		return nil
	}
}

// Connect takes a connection of a device; one that the endpoint already has on
// this node ends, and OnSuperseded is called for it. It never waits for the store.
// It fails with [rollcall.ErrID] or [ErrState] for what cannot be told, with
// [ErrNotReady] before the fabric is found, and with [ErrClosed] once the node
// drains or has ended.
func (n *Node) Connect(user, device string, s State) (*Conn, error) {
	return n.ConnectSession(user, device, s, Session{})
}

// ConnectSession is [Node.Connect] with what the ledger should know.
func (n *Node) ConnectSession(user, device string, s State, session Session) (*Conn, error) {
	if err := (rollcall.Endpoint{User: user, Device: device}).Check(); err != nil {
		return nil, err
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	if err := session.check(); err != nil {
		return nil, err
	}
	pipelines := n.running()
	switch {
	case pipelines == nil && n.isDraining():
		return nil, ErrClosed
	case pipelines == nil:
		return nil, ErrNotReady
	}
	p := pipelines[pipelines[0].names.Shard(user)]
	c, err := p.connect(user, device, s, session, func() uint64 { return n.number.Add(1) })
	if err == nil {
		signal(n.occupied)
	}
	return c, err
}

// Deaf says that the host could not hear its devices until now, because something that
// all of them come through was away. As after a pause of the process, nobody counts as
// dead before one heartbeat interval has passed.
func (n *Node) Deaf() { n.deaf.Store(true) }

func (n *Node) isDraining() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.draining
}

// Drain is the polite leave: it refuses new connections, ends all there are with
// the reason drained, gives up the leases, and waits until the store has
// acknowledged it and Run has returned. If ctx ends first, the node goes on
// trying until Run's context ends.
func (n *Node) Drain(ctx context.Context) error {
	if !n.leave() {
		return nil
	}
	for _, p := range n.running() {
		p.drain()
	}
	select {
	case <-ctx.Done():
		return fmt.Errorf("edge: draining: %w", ctx.Err())
	case <-n.ended:
		return n.err
	}
}

// leave begins a drain; false if there is no Run to wait for.
func (n *Node) leave() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.draining {
		n.draining = true
		close(n.leaving)
	}
	return n.started
}

package viewer

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall/internal/session"
	"github.com/rollcall-io/rollcall/subjects"
)

// Client watches targets for one viewer. Use [New], then [Client.Run]. Its methods
// are safe for concurrent use.
type Client struct {
	nc      *nats.Conn
	cfg     Config
	names   subjects.Names
	changes chan Change
	queue   *queue
	asking  chan struct{} // holds one token: requests go one after the other
	started chan struct{}
	ended   chan struct{} // Run has returned
	running atomic.Bool
	wake    chan struct{}

	mu      sync.Mutex
	reducer *Reducer
	// abandoned says that a Watch gave up before it had all its answers.
	abandoned bool
}

// New checks the configuration and starts nothing.
func New(nc *nats.Conn, cfg Config) (*Client, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	// Which shard a target is in is learned from answers, so their number does not
	// matter here.
	names, err := subjects.New(cfg.Prefix, 1)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return &Client{
		nc: nc, cfg: cfg, names: names,
		changes: make(chan Change), queue: newQueue(), asking: make(chan struct{}, 1),
		started: make(chan struct{}), ended: make(chan struct{}), wake: make(chan struct{}, 1), reducer: NewReducer(),
	}, nil
}

// Run receives and repairs until ctx ends, and then closes [Client.Changes]. It can
// be called once; it fails with [rollcall.ErrDisconnected] when the connection is closed
// for good. The interest is left to expire; call [Client.Unwatch] before to
// end it at once.
func (c *Client) Run(ctx context.Context) error {
	if c.running.Swap(true) {
		return ErrRunning
	}
	defer close(c.ended)
	defer close(c.changes)
	ctx, cancel := session.Context(ctx, c.nc)
	defer cancel()
	// The server handles the subscription before any request that follows on this
	// connection, so no event can fall between the two.
	events, err := c.nc.Subscribe(c.names.ViewEventsAll(c.cfg.Viewer), c.receive)
	if err != nil {
		return fmt.Errorf("viewer: subscribing to events: %w", err)
	}
	defer events.Unsubscribe()
	close(c.started)
	var delivering sync.WaitGroup
	delivering.Go(func() { c.queue.deliver(ctx, c.changes) })
	defer delivering.Wait()
	return session.Reason(ctx, c.tend(ctx))
}

// Changes delivers how targets are shown from now on, until Run ends. At most one
// change of each target waits: for a slow reader newer ones take its place, so the
// last state of every target always arrives. It need not be read.
func (c *Client) Changes() <-chan Change { return c.changes }

// State is what is shown of a target; ok is false if nothing is known of it: it is
// not watched, not answered yet, or the viewer may not see it.
func (c *Client) State(target string) (state State, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reducer.State(target)
}

// States is what is shown of every watched target that is known.
func (c *Client) States() map[string]State {
	c.mu.Lock()
	defer c.mu.Unlock()
	states := make(map[string]State)
	for t := range c.reducer.targets {
		if state, ok := c.reducer.State(t); ok {
			states[t] = state
		}
	}
	return states
}

// receive takes a message of a stream.
func (c *Client) receive(m *nats.Msg) {
	message, err := subjects.DecodeMessage(m.Data)
	if err != nil {
		c.cfg.Logger.Warn("message ignored", "subject", m.Subject, "err", err)
		return
	}
	c.update(func(r *Reducer) { r.Message(message, time.Now()) })
}

// update changes the state and passes on what shows.
func (c *Client) update(change func(*Reducer)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(c.reducer)
	c.queue.push(c.reducer.Changes(time.Now())...)
	c.rouse()
}

// rouse makes tend look again.
func (c *Client) rouse() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

package edge

import (
	"context"
	"sync"
)

// callbacks tells the host of connections that have ended, one after the other.
// A connection ends once, so the list is bounded by the connections that ended.
type callbacks struct {
	onDead, onSuperseded func(*Conn)

	mu      sync.Mutex
	waiting []call
	wake    chan struct{}
}

type call struct {
	to   func(*Conn)
	conn *Conn
}

func (c *callbacks) dead(conn *Conn)       { c.add(call{c.onDead, conn}) }
func (c *callbacks) superseded(conn *Conn) { c.add(call{c.onSuperseded, conn}) }

func (c *callbacks) add(next call) {
	if next.to == nil {
		return
	}
	c.mu.Lock()
	c.waiting = append(c.waiting, next)
	c.mu.Unlock()
	signal(c.wake)
}

func (c *callbacks) take() []call {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := c.waiting
	c.waiting = nil
	return taken
}

func (c *callbacks) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.wake:
		}
		for _, next := range c.take() {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			next.to(next.conn)
		}
	}
}

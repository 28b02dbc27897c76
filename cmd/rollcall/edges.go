package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/rollcall-io/rollcall/edge"
	"github.com/rollcall-io/rollcall/internal/trace"
	"github.com/rollcall-io/rollcall/subjects/identity"
)

// edges are the edge processes of a replay, each with a connection of its own.
type edges struct {
	ctx    context.Context
	std    console
	remote remote
	fail   context.CancelCauseFunc // hears of an edge that ends by itself

	running sync.WaitGroup
	mu      sync.Mutex
	nodes   map[string]*edge.Node
}

func newEdges(ctx context.Context, std console, r remote, fail context.CancelCauseFunc) *edges {
	return &edges{ctx: ctx, std: std, remote: r, fail: fail, nodes: make(map[string]*edge.Node)}
}

// start starts an edge and waits until it takes connections.
func (e *edges) start(ctx context.Context, id string) (trace.Gateway, error) {
	nc, err := e.remote.connectAs(e.std, "edge "+id, party{role: identity.Edge, ids: []string{id}, does: "speak for the edge " + id})
	if err != nil {
		return trace.Gateway{}, err
	}
	node, err := edge.New(nc, edge.Config{ID: id, Prefix: e.remote.Prefix})
	if err != nil {
		nc.Close()
		return trace.Gateway{}, err
	}
	running, crash := context.WithCancel(e.ctx)
	e.running.Go(func() { e.run(running, id, node, nc) })
	select {
	case <-node.Ready():
	case <-ctx.Done():
		crash()
		return trace.Gateway{}, context.Cause(ctx)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.nodes[id] = node
	return trace.Gateway{Node: node, Crash: func() { e.forget(id); crash() }}, nil
}

func (e *edges) run(ctx context.Context, id string, node *edge.Node, nc *nats.Conn) {
	defer nc.Close()
	if err := node.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		e.fail(fmt.Errorf("edge %q: %w", id, severed(nc, err)))
		e.forget(id)
	}
}

func (e *edges) forget(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.nodes, id)
}

// drain lets every edge that still runs leave, and waits until all have ended.
func (e *edges) drain() error {
	ctx, cancel := context.WithTimeout(e.ctx, answerTimeout)
	defer cancel()
	e.mu.Lock()
	var group errgroup.Group
	for id, node := range e.nodes {
		group.Go(func() error {
			if err := node.Drain(ctx); err != nil {
				return fmt.Errorf("edge %q: %w", id, err)
			}
			return nil
		})
	}
	e.mu.Unlock()
	if err := group.Wait(); err != nil {
		return err // its users go offline when the leases run out
	}
	e.running.Wait()
	return nil
}

package shards

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/internal/solo"
	"github.com/rollcall-io/rollcall/subjects"
)

// Config says how shards are owned.
type Config struct {
	Conn      *nats.Conn
	JetStream jetstream.JetStream
	Group     string // of all parts of this kind, such as "keeper"
	// Member is the id in the group; empty for a process that owns all shards alone.
	Member string
	Holder string // names this process for people who read records
	// Ownership is used instead of either, if it is not nil.
	Ownership  rollcall.Ownership
	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil for nobody
}

// An Owner owns shards once, in [Owner.Own].
type Owner struct {
	cfg Config

	mu      sync.Mutex
	begun   bool
	left    bool
	leaving chan struct{} // closed when Drain was called
	ended   chan struct{} // closed when Own has returned
	err     error         // of Own
}

// New returns an owner of nothing yet.
func New(cfg Config) *Owner {
	return &Owner{cfg: cfg, leaving: make(chan struct{}), ended: make(chan struct{})}
}

// Alone says whether this process owns all shards or none.
func (o *Owner) Alone() bool { return o.cfg.Ownership == nil && o.cfg.Member == "" }

// Readiness is nil while the owner is connected and does not leave; otherwise it says why not.
func (o *Owner) Readiness() error {
	o.mu.Lock()
	left := o.left
	o.mu.Unlock()
	switch {
	case left:
		return errors.New("is leaving")
	case !o.cfg.Conn.IsConnected():
		return errors.New("is not connected to NATS")
	}
	return nil
}

// A Run works on one shard; see [rollcall.Ownership].
type Run func(context.Context, rollcall.Grant) error

// Own calls run for every shard that is owned, as [rollcall.Ownership] says. It returns nil after
// [Owner.Drain].
func (o *Owner) Own(ctx context.Context, names subjects.Names, run Run) error {
	if !o.begin() {
		return nil
	}
	defer close(o.ended)
	o.err = o.own(ctx, names, run)
	return o.err
}

func (o *Owner) own(ctx context.Context, names subjects.Names, run Run) error {
	owning, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		select {
		case <-o.leaving:
			stop(errLeft)
		case <-owning.Done():
		}
	}()
	var err error
	switch {
	case o.cfg.Ownership != nil:
		err = o.cfg.Ownership.Own(owning, run)
	case o.cfg.Member == "":
		alone := &solo.Ownership{JetStream: o.cfg.JetStream, Names: names, Group: o.cfg.Group, Holder: o.cfg.Holder, Logger: o.cfg.Logger}
		err = alone.Own(owning, run)
	default:
		err = newMembership(o.cfg, names).own(ctx, owning, run)
	}
	if context.Cause(owning) == errLeft && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// errLeft is why owning ends when the owner leaves.
var errLeft = errors.New("shards: left")

// begin is false if the owner has left before.
func (o *Owner) begin() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.begun || o.left {
		return false
	}
	o.begun = true
	return true
}

// leave is false if there is no Own to wait for.
func (o *Owner) leave() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.left {
		o.left = true
		close(o.leaving)
	}
	return o.begun
}

// Drain is the polite leave: every shard is released when its run has returned, and whoever
// shares them takes over at once. It waits until Own has returned. If ctx ends first, Own goes on
// leaving until its own context ends.
func (o *Owner) Drain(ctx context.Context) error {
	if !o.leave() {
		return nil
	}
	select {
	case <-ctx.Done():
		return fmt.Errorf("draining: %w", context.Cause(ctx))
	case <-o.ended:
		return o.err
	}
}

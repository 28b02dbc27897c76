package e2e_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall/edge"
	"github.com/rollcall-io/rollcall/fanout"
	"github.com/rollcall-io/rollcall/fanout/viewer"
	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/keeper"
	"github.com/rollcall-io/rollcall/ledger/live"
	"github.com/rollcall-io/rollcall/ledger/store"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/identity"
)

// A guarded fabric: every process shows a credential of its role and nothing more, and
// none may ever be refused anything.
type guarded struct {
	t      *testing.T
	server *lab.Server
	names  subjects.Names
	ctx    context.Context

	mu         sync.Mutex
	violations []error
}

func newGuarded(t *testing.T) *guarded {
	t.Helper()
	names, err := subjects.New(subjects.DefaultPrefix, 3)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	g := &guarded{t: t, server: lab.NewServerWithIdentities(t, names), names: names, ctx: ctx}
	t.Cleanup(cancel)
	t.Cleanup(g.wantNoViolation)
	js, err := jetstream.New(lab.Connect(t, g.server.NewLink(), g.server.As(identity.Operator, "test")...))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fabric.Ensure(ctx, js, fabric.Config{Shards: names.Shards()}); err != nil {
		t.Fatal(err)
	}
	return g
}

func (g *guarded) wantNoViolation() {
	g.t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, err := range g.violations {
		g.t.Error(err)
	}
}

// forgive forgets what a test was refused on purpose.
func (g *guarded) forgive() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.violations = nil
}

// note keeps what a connection was refused.
func (g *guarded) note(_ *nats.Conn, _ *nats.Subscription, err error) {
	if errors.Is(err, nats.ErrPermissionViolation) || errors.Is(err, nats.ErrAuthorization) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.violations = append(g.violations, err)
	}
}

// A guest is one process of a guarded fabric.
type guest struct {
	link *lab.Link
	nc   *nats.Conn
	stop context.CancelFunc
	done chan error
}

func (g *guarded) connect(role identity.Role, ids ...string) *guest {
	g.t.Helper()
	link := g.server.NewLink()
	options := append(g.server.As(role, ids...), nats.ErrorHandler(g.note))
	return &guest{link: link, nc: lab.Connect(g.t, link, options...)}
}

func (g *guarded) run(p *guest, run func(context.Context) error) *guest {
	ctx, cancel := context.WithCancel(g.ctx)
	p.stop, p.done = cancel, make(chan error, 1)
	go func() { p.done <- run(ctx) }()
	g.t.Cleanup(p.kill)
	return p
}

// kill ends the process without a word.
func (p *guest) kill() {
	if p.stop == nil {
		return
	}
	p.link.Cut()
	p.stop()
	<-p.done
	p.nc.Close()
	p.stop = nil
}

func (g *guarded) ledger(name string, s store.Store) *guest {
	g.t.Helper()
	p := g.connect(identity.Ledger, name)
	l, err := live.New(p.nc, s, live.Config{})
	if err != nil {
		g.t.Fatal(err)
	}
	return g.run(p, l.Run)
}

func (g *guarded) keeper(name string) *guest {
	g.t.Helper()
	p := g.connect(identity.Keeper, name)
	k, err := keeper.New(p.nc, keeper.Config{})
	if err != nil {
		g.t.Fatal(err)
	}
	return g.run(p, k.Run)
}

func (g *guarded) fanout(name string) *guest { return g.fanoutWith(name, fanout.Config{}) }

func (g *guarded) fanoutWith(name string, config fanout.Config) *guest {
	g.t.Helper()
	p := g.connect(identity.Fanout, name)
	f, err := fanout.New(p.nc, config)
	if err != nil {
		g.t.Fatal(err)
	}
	g.run(p, f.Run)
	select {
	case <-f.Ready():
	case <-time.After(time.Minute):
		g.t.Error("the fanout does not answer")
	}
	return p
}

func (g *guarded) edge(id string) (*guest, *edge.Node) {
	g.t.Helper()
	p := g.connect(identity.Edge, id)
	node, err := edge.New(p.nc, edge.Config{ID: id, Seed: 1})
	if err != nil {
		g.t.Fatal(err)
	}
	g.run(p, node.Run)
	select {
	case <-node.Ready():
	case <-time.After(time.Minute):
		g.t.Fatal("the edge does not find the fabric")
	}
	return p, node
}

func (g *guarded) viewer(id string, targets ...string) (*guest, *viewer.Client) {
	g.t.Helper()
	p := g.connect(identity.Viewer, id)
	client, err := viewer.New(p.nc, viewer.Config{Viewer: id})
	if err != nil {
		g.t.Fatal(err)
	}
	g.run(p, client.Run)
	ctx, cancel := context.WithTimeout(g.ctx, time.Minute)
	defer cancel()
	if err := client.Watch(ctx, targets...); err != nil {
		g.t.Fatal(err)
	}
	return p, client
}

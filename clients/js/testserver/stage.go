package main

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/edge"
	"github.com/rollcall-io/rollcall/edge/gateway"
	"github.com/rollcall-io/rollcall/fanout"
	"github.com/rollcall-io/rollcall/fanout/viewer"
	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/internal/natsd"
	"github.com/rollcall-io/rollcall/keeper"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/identity"
)

// A stage is a whole fabric in one process.
type stage struct {
	server   *server
	page     net.Listener
	keeper   *part
	fanout   *part
	gateway  *part
	front    atomic.Pointer[front]
	key      ed25519.PrivateKey // signs the tokens of devices
	edge     *edge.Node
	devices  *devices
	policies *viewer.Policies
	cleanup  []func()

	idleThreshold time.Duration
}

// A part is a keeper or fanout that can be stopped and started.
type part struct {
	run  func(context.Context) error
	stop func() // nil while it is stopped
}

func startStage(ctx context.Context, dir, page string, params rollcall.Params, idleThreshold time.Duration) (*stage, error) {
	s := &stage{idleThreshold: idleThreshold}
	if err := s.begin(ctx, dir, page, params); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

func (s *stage) begin(ctx context.Context, dir, page string, params rollcall.Params) error {
	origins, err := s.serve(page)
	if err != nil {
		return err
	}
	names, err := subjects.New(subjects.DefaultPrefix, subjects.DefaultShards)
	if err != nil {
		return err
	}
	s.server, err = startServer(natsd.Config{
		StoreDir: filepath.Join(dir, "data"), Listen: "127.0.0.1:0", WebSocket: "127.0.0.1:0", Origins: origins,
	}, names)
	if err != nil {
		return err
	}
	s.later(s.server.stop)
	if err := s.makeFabric(ctx, params); err != nil {
		return err
	}
	if _, s.key, err = ed25519.GenerateKey(nil); err != nil {
		return err
	}
	nc, err := s.connect(identity.Backend)
	if err != nil {
		return err
	}
	if s.policies, err = viewer.NewPolicies(nc, ""); err != nil {
		return err
	}
	s.keeper, s.fanout, s.gateway = &part{run: s.runKeeper}, &part{run: s.runFanout}, &part{run: s.runGateway}
	for _, p := range []*part{s.keeper, s.fanout, s.gateway} {
		s.later(p.end)
		p.start(ctx)
	}
	return s.startEdge(ctx, params)
}

func (s *stage) makeFabric(ctx context.Context, params rollcall.Params) error {
	nc, err := s.connect(identity.Operator)
	if err != nil {
		return err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	_, err = fabric.Ensure(ctx, js, fabric.Config{Params: params})
	return err
}

// serve serves pages, if there are any, and the gateway, and names their origin.
func (s *stage) serve(pages string) (origins []string, err error) {
	if s.page, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc(gateway.Root, s.api)
	if pages != "" {
		mux.Handle("/", http.FileServer(http.Dir(pages)))
	}
	site := gateway.NewServer(mux)
	s.later(func() { site.Close() })
	go site.Serve(s.page)
	return []string{s.pageURL()}, nil
}

func (s *stage) pageURL() string { return "http://" + s.page.Addr().String() }

// addresses is where clients and browsers find the stage.
func (s *stage) addresses() map[string]string {
	return map[string]string{
		"nats": "nats://" + s.server.cfg.Listen, "websocket": "ws://" + s.server.cfg.WebSocket, "page": s.pageURL(),
	}
}

func (s *stage) connect(role identity.Role) (*nats.Conn, error) {
	nc, err := s.server.connect(role, "testserver")
	if err == nil {
		s.later(nc.Close)
	}
	return nc, err
}

func (s *stage) runKeeper(ctx context.Context) error {
	nc, err := s.server.connect(identity.Keeper, "testserver")
	if err != nil {
		return err
	}
	defer nc.Close()
	k, err := keeper.New(nc, keeper.Config{})
	if err != nil {
		return err
	}
	return k.Run(ctx)
}

func (s *stage) runFanout(ctx context.Context) error {
	nc, err := s.server.connect(identity.Fanout, "testserver")
	if err != nil {
		return err
	}
	defer nc.Close()
	f, err := fanout.New(nc, fanout.Config{})
	if err != nil {
		return err
	}
	return f.Run(ctx)
}

func (s *stage) startEdge(ctx context.Context, params rollcall.Params) error {
	nc, err := s.connect(identity.Edge)
	if err != nil {
		return err
	}
	if s.edge, err = edge.New(nc, edge.Config{ID: "testserver"}); err != nil {
		return err
	}
	running, crash := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.edge.Run(running) }()
	s.later(crash)
	select {
	case <-s.edge.Ready():
	case err := <-ended:
		return fmt.Errorf("edge: %w", err)
	}
	s.devices = newDevices()
	go s.devices.beat(running, params.Heartbeat/2)
	return nil
}

// later adds what must be undone, the last first.
func (s *stage) later(undo func()) { s.cleanup = append(s.cleanup, undo) }

func (s *stage) stop() {
	for i := len(s.cleanup) - 1; i >= 0; i-- {
		s.cleanup[i]()
	}
}

// start runs the part, again and again if it ends by itself, until end.
func (p *part) start(ctx context.Context) {
	if p.stop != nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	p.stop = func() { cancel(); <-ended }
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			if err := p.run(ctx); err != nil && !errors.Is(err, context.Canceled) {
				time.Sleep(100 * time.Millisecond) // the server may be away
			}
		}
	}()
}

func (p *part) end() {
	if p.stop != nil {
		p.stop()
		p.stop = nil
	}
}

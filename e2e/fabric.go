package e2e

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	otel "go.opentelemetry.io/otel/trace"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/edge"
	"github.com/rollcall-io/rollcall/fanout"
	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/internal/trace"
	"github.com/rollcall-io/rollcall/keeper"
	"github.com/rollcall-io/rollcall/subjects"
)

// Options of a fabric under test.
type Options struct {
	Params    rollcall.Params // default rollcall.Default()
	Shards    int             // default 4
	Unchecked bool            // allow timing that must flap
	Batched   bool            // buckets take batches, as replicated ones do

	// What keepers, fanouts and edges are told to log and measure with; default: nothing.
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Tracer     otel.TracerProvider
}

// Fabric is a server with the streams and buckets of a fabric, and the processes
// that a test starts on it. Everything ends with the test.
type Fabric struct {
	T      testing.TB
	Server *lab.Server
	Params rollcall.Params
	Names  fabric.Fabric
	JS     jetstream.JetStream // of the test itself

	options Options
	start   time.Time
	seed    uint64
	devices sync.WaitGroup
	ctx     context.Context
}

// New starts a server and makes the fabric.
func New(t testing.TB, o Options) *Fabric {
	t.Helper()
	if o.Params == (rollcall.Params{}) {
		o.Params = rollcall.Default()
	}
	f := &Fabric{T: t, Server: lab.NewServer(t), Params: o.Params, options: o, start: time.Now(), seed: 1}
	ctx, cancel := context.WithCancel(context.Background())
	f.ctx = ctx
	t.Cleanup(func() { cancel(); f.devices.Wait() })
	var err error
	if f.JS, err = jetstream.New(lab.Connect(t, f.Server.NewLink())); err != nil {
		t.Fatal(err)
	}
	f.Names, err = fabric.Ensure(ctx, f.JS, fabric.Config{Shards: o.Shards, Params: o.Params, Unchecked: o.Unchecked})
	if err != nil {
		t.Fatal(err)
	}
	if o.Batched {
		f.takeBatches()
	}
	return f
}

func (f *Fabric) takeBatches() {
	f.T.Helper()
	for info := range f.JS.ListStreams(f.ctx, jetstream.WithStreamListSubject(subjects.KVSubject("*", ">"))).Info() {
		info.Config.AllowAtomicPublish = true
		if _, err := f.JS.UpdateStream(f.ctx, info.Config); err != nil {
			f.T.Fatal(err)
		}
	}
}

// Now is the virtual time since the fabric was made.
func (f *Fabric) Now() time.Duration { return time.Since(f.start) }

// At waits until that time has come and everything that happens at it has happened.
func (f *Fabric) At(d time.Duration) {
	f.T.Helper()
	if d < f.Now() {
		f.T.Fatalf("it is %s, later than %s", f.Now(), d)
	}
	time.Sleep(d - f.Now())
	synctest.Wait()
}

// Wait waits until everything that is under way now has happened.
func (f *Fabric) Wait() { synctest.Wait() }

// A Process is a part of the fabric with its own link.
type Process struct {
	Link *lab.Link

	t      testing.TB
	nc     *nats.Conn
	cancel context.CancelFunc
	done   chan error
	ended  bool
}

// process starts run in a process of its own.
func (f *Fabric) process(run func(context.Context) error, p *Process) {
	ctx, cancel := context.WithCancel(f.ctx)
	p.cancel, p.done = cancel, make(chan error, 1)
	go func() { p.done <- run(ctx) }()
	f.T.Cleanup(p.Kill)
}

func (f *Fabric) connect() *Process {
	link := f.Server.NewLink()
	return &Process{Link: link, t: f.T, nc: lab.Connect(f.T, link)}
}

// await waits until the process is ready; one that ends before fails the test.
func (p *Process) await(ready <-chan struct{}) {
	p.t.Helper()
	select {
	case <-ready:
	case err := <-p.done:
		p.done <- err
		p.t.Fatalf("the process ended before it was ready: %v", err)
	}
}

// Kill ends the process without a word: not a byte leaves it any more.
func (p *Process) Kill() {
	if p.ended {
		return
	}
	p.Link.Cut()
	p.cancel()
	<-p.done
	p.nc.Close()
	p.ended = true
}

// Leave has a process drain, and waits until it has ended.
func (p *Process) Leave(drain func(context.Context) error) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := drain(ctx); err != nil {
		p.t.Errorf("draining: %v", err)
	}
	if err := p.Ended(); err != nil {
		p.t.Errorf("the process has drained and ended with %v", err)
	}
}

// Ended waits for a process that ends by itself, and returns why.
func (p *Process) Ended() error {
	err := <-p.done
	p.done <- err
	return err
}

// Keeper is a keeper process.
type Keeper struct {
	*Process
	*keeper.Keeper
}

// StartKeeper starts a keeper of all shards.
func (f *Fabric) StartKeeper() *Keeper { return f.StartKeeperAs("") }

// StartKeeperAs starts a keeper that shares the shards with others, as a member of this id.
func (f *Fabric) StartKeeperAs(member string) *Keeper {
	f.T.Helper()
	p := f.connect()
	k, err := keeper.New(p.nc, keeper.Config{Member: member, Logger: f.options.Logger, Registerer: f.options.Registerer, Tracer: f.options.Tracer})
	if err != nil {
		f.T.Fatal(err)
	}
	f.process(k.Run, p)
	return &Keeper{p, k}
}

// Fanout is a fanout process.
type Fanout struct {
	*Process
	*fanout.Fanout
}

// StartFanout starts a fanout of all shards and waits until it answers.
func (f *Fabric) StartFanout() *Fanout { return f.StartFanoutWith(fanout.Config{}) }

// StartFanoutWith starts a fanout with a configuration of its own.
func (f *Fabric) StartFanoutWith(c fanout.Config) *Fanout {
	f.T.Helper()
	fan := f.JoinFanout(c)
	fan.await(fan.Ready())
	return fan
}

// JoinFanout starts a fanout that may be given no shard yet.
func (f *Fabric) JoinFanout(c fanout.Config) *Fanout {
	f.T.Helper()
	p := f.connect()
	c.Registerer, c.Tracer = f.options.Registerer, f.options.Tracer
	if c.Logger == nil {
		c.Logger = f.options.Logger
	}
	fan, err := fanout.New(p.nc, c)
	if err != nil {
		f.T.Fatal(err)
	}
	f.process(fan.Run, p)
	return &Fanout{p, fan}
}

// Edge is an edge process.
type Edge struct {
	*Process
	*edge.Node

	mu         sync.Mutex
	superseded []*edge.Conn
	dead       []*edge.Conn
}

// StartEdge starts an edge and waits until it takes connections.
func (f *Fabric) StartEdge(id string) *Edge {
	f.T.Helper()
	e := &Edge{Process: f.connect()}
	f.seed++
	node, err := edge.New(e.nc, edge.Config{
		ID: id, Seed: f.seed, ClockResolution: time.Second,
		OnSuperseded: func(c *edge.Conn) { e.note(&e.superseded, c) },
		OnDead:       func(c *edge.Conn) { e.note(&e.dead, c) },
		Logger:       f.options.Logger, Registerer: f.options.Registerer, Tracer: f.options.Tracer,
	})
	if err != nil {
		f.T.Fatal(err)
	}
	e.Node = node
	f.process(node.Run, e.Process)
	e.await(node.Ready())
	return e
}

func (e *Edge) note(list *[]*edge.Conn, c *edge.Conn) {
	e.mu.Lock()
	defer e.mu.Unlock()
	*list = append(*list, c)
}

// Superseded lists the connections that the host was told are no longer current.
func (e *Edge) Superseded() []*edge.Conn {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.superseded
}

// Dead lists the connections whose sockets the host was told to close.
func (e *Edge) Dead() []*edge.Conn {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.dead
}

// A Device is a connection whose device sends heartbeats.
type Device struct {
	*edge.Conn
	silence context.CancelFunc
}

// Silence ends the heartbeats; nobody is told.
func (d *Device) Silence() { d.silence() }

// Close says goodbye.
func (d *Device) Close() {
	d.silence()
	d.Conn.Close()
}

// Active is the state of a device in use.
var Active = edge.State{Foreground: true, Active: true}

// Connect connects a device in use, which sends heartbeats as the parameters say.
func (f *Fabric) Connect(e *Edge, user, device string) *Device {
	f.T.Helper()
	conn, err := e.Node.Connect(user, device, Active)
	if err != nil {
		f.T.Fatalf("connecting %s/%s: %v", user, device, err)
	}
	ctx, cancel := context.WithCancel(f.ctx)
	f.seed++
	random := rand.New(rand.NewPCG(f.seed, 2))
	f.devices.Go(func() { trace.Beat(ctx, conn, f.Params, random) })
	return &Device{conn, cancel}
}

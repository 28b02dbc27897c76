package edge

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// wire to the server: an in-process dialer that can refuse, and whose connections
// can be frozen: what is written vanishes, as on a half-open path.
type cable struct {
	server *server.Server
	frozen atomic.Bool // towards the server
	deaf   atomic.Bool // from the server
	cut    atomic.Bool

	mu    sync.Mutex
	conns []net.Conn
}

func (l *cable) InProcessConn() (net.Conn, error) {
	if l.cut.Load() {
		return nil, net.ErrClosed
	}
	c, err := l.server.InProcessConn()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = append(l.conns, c)
	return &cableConn{c, l}, nil
}

// pull breaks every connection and refuses new ones until plug.
func (l *cable) pull() {
	l.cut.Store(true)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		c.Close()
	}
	l.conns = nil
}

func (l *cable) plug() { l.cut.Store(false) }

type cableConn struct {
	net.Conn
	cable *cable
}

func (c *cableConn) Write(b []byte) (int, error) {
	if c.cable.frozen.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// Read loses whole answers while the cable is deaf.
func (c *cableConn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || !c.cable.deaf.Load() {
			return n, err
		}
	}
}

// world is a store with a fabric, and one edge in it.
type world struct {
	t      *testing.T
	server *server.Server
	js     jetstream.JetStream
	nc     *nats.Conn // the test's own connection
	names  subjects.Names
	params rollcall.Params
}

func newWorld(t *testing.T, shards int, params rollcall.Params) *world {
	t.Helper()
	return newWorldOf(t, shards, params, 0)
}

// newWorldOf takes the server's limit of a message as well; 0 for its default.
func newWorldOf(t *testing.T, shards int, params rollcall.Params, maxPayload int32) *world {
	t.Helper()
	w := &world{t: t, server: startServer(t, maxPayload), params: params}
	w.nc = w.dial(&cable{server: w.server})
	w.js, _ = jetstream.New(w.nc)
	f, err := fabric.Ensure(t.Context(), w.js, fabric.Config{Shards: shards, Params: params})
	w.must(err)
	w.names = f.Names
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func startServer(t *testing.T, maxPayload int32) *server.Server {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		DontListen: true, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true, MaxPayload: maxPayload,
	})
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	if !s.ReadyForConnections(5 * time.Second) {
		t.Fatal("nats-server not ready")
	}
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	return s
}

func (w *world) dial(l *cable) *nats.Conn {
	w.t.Helper()
	nc, err := nats.Connect("", nats.InProcessServer(l), nats.MaxReconnects(-1),
		nats.ReconnectWait(time.Second), nats.ReconnectJitter(0, 0), nats.PingInterval(time.Minute))
	w.must(err)
	w.t.Cleanup(nc.Close)
	return nc
}

// edge is a running node of the world.
type edgeUnderTest struct {
	*Node
	w     *world
	cable *cable
	stop  context.CancelFunc
	ended chan error

	mu               sync.Mutex
	dead, superseded []*Conn
	deadAt           map[*Conn]time.Time
}

func (w *world) start(config Config) *edgeUnderTest {
	w.t.Helper()
	e := &edgeUnderTest{w: w, cable: &cable{server: w.server}, ended: make(chan error, 1), deadAt: map[*Conn]time.Time{}}
	if config.ID == "" {
		config.ID = "gw"
	}
	if config.Seed == 0 {
		config.Seed = 1
	}
	config.OnDead = func(c *Conn) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.dead, e.deadAt[c] = append(e.dead, c), time.Now()
	}
	config.OnSuperseded = func(c *Conn) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.superseded = append(e.superseded, c)
	}
	var err error
	e.Node, err = New(w.dial(e.cable), config)
	w.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	e.stop = cancel
	w.t.Cleanup(cancel)
	go func() { e.ended <- e.Run(ctx) }()
	<-e.Ready()
	return e
}

func (e *edgeUnderTest) connect(user, device string) *Conn {
	e.w.t.Helper()
	c, err := e.Connect(user, device, State{})
	e.w.must(err)
	return c
}

// crash cancels Run and waits for its end.
func (e *edgeUnderTest) crash() error {
	e.stop()
	return <-e.ended
}

// logged is a frame as the log has it.
type logged struct {
	*wire.Frame
	sequence uint64
	at       time.Time
}

// frames reads what an edge has written to a shard.
func (w *world) frames(shard int, edge string) []logged {
	w.t.Helper()
	s, err := w.js.Stream(context.Background(), w.names.LogStream(shard))
	w.must(err)
	var all []logged
	for seq := max(s.CachedInfo().State.FirstSeq, 1); seq <= s.CachedInfo().State.LastSeq; seq++ {
		m, err := s.GetMsg(context.Background(), seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		w.must(err)
		if m.Subject != w.names.Log(shard, edge) {
			continue
		}
		f, err := subjects.DecodeFrame(m.Data)
		w.must(err)
		all = append(all, logged{f, m.Sequence, m.Time})
	}
	return all
}

// said lists the entries of an edge in a shard.
func (w *world) said(shard int, edge string) []*wire.Entry {
	w.t.Helper()
	var all []*wire.Entry
	for _, f := range w.frames(shard, edge) {
		all = append(all, f.Entries...)
	}
	return all
}

func kinds(entries []*wire.Entry) []wire.Kind {
	var ks []wire.Kind
	for _, e := range entries {
		ks = append(ks, e.Kind)
	}
	return ks
}

const (
	hello       = wire.Kind_KIND_HELLO
	opened      = wire.Kind_KIND_OPEN
	stated      = wire.Kind_KIND_STATE
	ended       = wire.Kind_KIND_CLOSE
	renewed     = wire.Kind_KIND_RENEW
	rosterBegin = wire.Kind_KIND_ROSTER_BEGIN
	rosterLine  = wire.Kind_KIND_ROSTER
	rosterEnd   = wire.Kind_KIND_ROSTER_END
	left        = wire.Kind_KIND_LEAVE
)

package lab

import (
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// Cluster is three nats-servers with JetStream on loopback, in real time. Each can be stopped and
// started.
type Cluster struct {
	t         testing.TB
	configure func(n int) *server.Options
	servers   [3]*server.Server
	clients   [3]int // ports, which stay
	routes    [3]int
}

// NewCluster starts the servers and ends them with the test. configure gives the options of the
// server n, as read from a file; their addresses are replaced by free ones of loopback.
func NewCluster(t testing.TB, configure func(n int) *server.Options) *Cluster {
	t.Helper()
	c := &Cluster{t: t, configure: configure}
	t.Cleanup(func() {
		for n := range c.servers {
			c.Stop(n)
		}
	})
	ports := freePorts(t, 2*len(c.servers))
	copy(c.clients[:], ports)
	copy(c.routes[:], ports[len(c.servers):])
	for n := range c.servers {
		c.start(n)
	}
	for n := range c.servers {
		c.ready(n)
	}
	c.Await("three servers with a leader", func() bool {
		return c.Leader() >= 0 && len(c.servers[c.Leader()].JetStreamClusterPeers()) == len(c.servers)
	})
	return c
}

// freePorts are some that nobody listens on.
func freePorts(t testing.TB, n int) (ports []int) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", loopback+":0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

// BareCluster is a [NewCluster] that lets in anybody.
func BareCluster(t testing.TB) *Cluster {
	t.Helper()
	dir := t.TempDir()
	return NewCluster(t, func(n int) *server.Options {
		return &server.Options{
			ServerName: fmt.Sprint("n", n), JetStream: true, StoreDir: filepath.Join(dir, fmt.Sprint(n)),
			Cluster: server.ClusterOpts{Name: "lab"}, NoSigs: true,
		}
	})
}

// Start runs a server again after [Cluster.Stop].
func (c *Cluster) Start(n int) {
	c.t.Helper()
	c.start(n)
	c.ready(n)
}

func (c *Cluster) start(n int) {
	c.t.Helper()
	o := c.configure(n)
	o.Host, o.Port, o.ClientAdvertise = loopback, c.clients[n], ""
	o.Cluster.Host, o.Cluster.Port, o.Cluster.Advertise = loopback, c.routes[n], ""
	o.HTTPPort, o.HTTPSPort = 0, 0
	if o.Websocket.Port != 0 {
		o.Websocket.Host, o.Websocket.Port, o.Websocket.Advertise = loopback, server.RANDOM_PORT, ""
	}
	o.Routes = nil
	for _, port := range c.routes {
		o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: at(port)})
	}
	s, err := server.NewServer(o)
	if err != nil {
		c.t.Fatal(err)
	}
	s.SetLogger(complainer{c.t}, false, false)
	s.Start()
	c.servers[n] = s
}

func (c *Cluster) ready(n int) {
	c.t.Helper()
	if !c.servers[n].ReadyForConnections(30 * time.Second) {
		c.t.Fatalf("lab: server %d does not start", n)
	}
}

const loopback = "127.0.0.1"

func at(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }

// Stop ends a server, as if its process had ended.
func (c *Cluster) Stop(n int) {
	if s := c.servers[n]; s != nil {
		s.Shutdown()
		s.WaitForShutdown()
		c.servers[n] = nil
	}
}

// Leader is the server that leads JetStream, −1 if none does.
func (c *Cluster) Leader() int {
	for n, s := range c.servers {
		if s != nil && s.JetStreamIsLeader() {
			return n
		}
	}
	return -1
}

// URL is what a client needs to find the cluster: its servers, separated by commas.
func (c *Cluster) URL() string {
	var all []string
	for _, port := range c.clients {
		all = append(all, "nats://"+at(port))
	}
	return strings.Join(all, ",")
}

// Server is a server that runs; nil if it is stopped.
func (c *Cluster) Server(n int) *server.Server { return c.servers[n] }

// Connect connects a client, with the test's end as its own.
func (c *Cluster) Connect(options ...nats.Option) *nats.Conn {
	c.t.Helper()
	nc, err := nats.Connect(c.URL(), append([]nats.Option{nats.MaxReconnects(-1), nats.ReconnectWait(50 * time.Millisecond)}, options...)...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(nc.Close)
	return nc
}

// Await waits until something holds, half a minute at most.
func (c *Cluster) Await(what string, holds func() bool) {
	c.t.Helper()
	for end := time.Now().Add(30 * time.Second); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatalf("lab: waited for %s", what)
		}
	}
}

// complainer tells a test why a server does not start, which it says in no other way.
type complainer struct{ t testing.TB }

func (c complainer) Fatalf(format string, v ...any) { c.t.Logf("lab: nats-server: "+format, v...) }
func (complainer) Noticef(string, ...any)           {}
func (complainer) Warnf(string, ...any)             {}
func (complainer) Errorf(string, ...any)            {}
func (complainer) Debugf(string, ...any)            {}
func (complainer) Tracef(string, ...any)            {}

//go:build cluster

package cluster

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/rollcall-io/rollcall/subjects/identity"
)

// runServer is nats-server with a configuration file.
func runServer(path string) error {
	options, err := server.ProcessConfigFile(path)
	if err != nil {
		return err
	}
	options.NoSigs = true
	s, err := server.NewServer(options)
	if err != nil {
		return err
	}
	s.ConfigureLogger()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	s.Start()
	fmt.Println("started")
	<-ctx.Done()
	s.LameDuckShutdown() // as nats-server does at SIGUSR2, and supervisors should ask for
	s.WaitForShutdown()
	return nil
}

// servers are three of them; each reaches the others through proxies of its own.
type servers struct {
	t     *testing.T
	nodes []*node
}

type node struct {
	*process
	url     string // of clients
	client  int
	route   int
	proxies []*proxy // by the node that they lead to; nil to itself
}

const configuration = `
server_name: %[1]s
listen: 127.0.0.1:%[2]d
operator: %[3]s
system_account: %[4]s
resolver: { type: full, dir: %[5]q }
resolver_preload: { %[4]s: %[6]s }
jetstream: { store_dir: %[7]q }
max_payload: 8MB
lame_duck_duration: 30s
lame_duck_grace_period: 1s
cluster: {
  name: test
  listen: 127.0.0.1:%[8]d
  advertise: "127.0.0.1:1" # the others know where to go
  routes: [ %[9]s ]
}
`

func startServers(t *testing.T, dir string, authority *identity.Authority) *servers {
	t.Helper()
	bare, err := authority.Bare()
	if err != nil {
		t.Fatal(err)
	}
	const n = 3
	s := &servers{t: t}
	ports := freePorts(t, 2*n)
	for i := range n {
		s.nodes = append(s.nodes, &node{client: ports[i], route: ports[n+i], url: fmt.Sprintf("nats://127.0.0.1:%d", ports[i])})
	}
	for i, node := range s.nodes {
		name := fmt.Sprintf("n%d", i+1)
		var routes []string
		for j, other := range s.nodes {
			if i == j {
				node.proxies = append(node.proxies, nil)
				continue
			}
			p := newProxy(t, other.route)
			node.proxies = append(node.proxies, p)
			routes = append(routes, `"nats://`+p.address()+`"`)
		}
		data := filepath.Join(dir, name)
		text := fmt.Sprintf(configuration, name, node.client, bare.Operator, authority.System(), filepath.Join(data, "accounts"), bare.System,
			data, node.route, strings.Join(routes, ", "))
		path := filepath.Join(dir, name+".conf")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		node.process = newProcess(t, dir, name, []string{role + "=server"}, os.Args[0], path)
		node.start()
	}
	return s
}

// urls of all servers, the given one first.
func (s *servers) urls(first int) string {
	var all []string
	for i := range s.nodes {
		all = append(all, s.nodes[(first+i)%len(s.nodes)].url)
	}
	return strings.Join(all, ",")
}

// cut holds everything between one server and the others, in both directions.
func (s *servers) cut(n int, held bool) {
	for i, node := range s.nodes {
		for j, p := range node.proxies {
			if p != nil && (i == n || j == n) {
				p.hold(held)
			}
		}
	}
}

func (s *servers) named(name string) int {
	for i, node := range s.nodes {
		if node.name == name {
			return i
		}
	}
	s.t.Fatalf("no server %q", name)
	return -1
}

// freePorts are ports that nobody listens on now.
func freePorts(t *testing.T, n int) []int {
	t.Helper()
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

//go:build cluster

package cluster

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall/edge"
	"github.com/rollcall-io/rollcall/subjects/identity"
)

// runGateway is an edge with connections that beat. It takes "open A B" and "close A B" on stdin, for the
// users from A to before B, and answers "done".
func runGateway(urls, creds, id string) error {
	options, err := identity.FromFile(creds)
	if err != nil {
		return err
	}
	// As the README has it.
	options = append(options, nats.MaxReconnects(-1), nats.PingInterval(3*time.Second), nats.DontRandomize())
	nc, err := nats.Connect(urls, options...)
	if err != nil {
		return err
	}
	defer nc.Close()
	node, err := edge.New(nc, edge.Config{ID: id, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- node.Run(context.Background()) }()
	select {
	case <-node.Ready():
	case err := <-ended:
		return err
	}
	g := &sockets{conns: make(map[int]*edge.Conn)}
	go g.beat()
	go g.obey(node)
	fmt.Println("ready")
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	leaving, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return node.Drain(leaving)
}

// sockets stands for those of a gateway.
type sockets struct {
	mu    sync.Mutex
	conns map[int]*edge.Conn
}

// beat lets every device beat twice as often as it must.
func (g *sockets) beat() {
	for n := uint32(1); ; n++ {
		g.mu.Lock()
		for _, c := range g.conns {
			c.Beat(n)
		}
		g.mu.Unlock()
		time.Sleep(heartbeat / 2)
	}
}

func (g *sockets) obey(node *edge.Node) {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var what string
		var from, to int
		if _, err := fmt.Sscanf(lines.Text(), "%s %d %d", &what, &from, &to); err != nil {
			fmt.Fprintln(os.Stderr, err)
			continue
		}
		g.mu.Lock()
		for n := from; n < to; n++ {
			if what == "close" {
				g.conns[n].Close()
				delete(g.conns, n)
				continue
			}
			c, err := node.Connect(user(n), "phone", edge.State{Foreground: true, Active: true})
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				continue
			}
			g.conns[n] = c
		}
		g.mu.Unlock()
		fmt.Println("done")
	}
	os.Exit(1) // the test has ended
}

func user(n int) string { return fmt.Sprintf("u%04d", n) }

// A gateway is such a process, as the test sees it.
type gateway struct{ *process }

func newGateway(t *testing.T, dir, urls, creds, id string) *gateway {
	return &gateway{newProcess(t, dir, id, []string{role + "=gateway"}, os.Args[0], urls, creds, id)}
}

func (g *gateway) begin() {
	g.t.Helper()
	g.start()
	g.await("ready", patience)
}

func (g *gateway) open(from, to int)  { g.t.Helper(); g.order("open", from, to) }
func (g *gateway) close(from, to int) { g.t.Helper(); g.order("close", from, to) }

func (g *gateway) order(what string, from, to int) {
	g.t.Helper()
	g.say("%s %d %d", what, from, to)
	g.await("done", patience)
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/cohort"
	"github.com/rollcall-io/rollcall/edge"
	"github.com/rollcall-io/rollcall/edge/phi"
	"github.com/rollcall-io/rollcall/fanout/viewer"
	"github.com/rollcall-io/rollcall/subjects/identity"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

const snippets = "snippets_test.go"

// What the pages show in Go are pieces of the functions below, which the tests below run
// against a fabric.

type beat struct{ Seq uint32 }

func embedEdge(urls, user, device string, socket <-chan beat, closeSocketOf func(*edge.Conn)) error {
	options, err := identity.FromFile("gateway-1.creds") // read again at every reconnect
	if err != nil {
		return err
	}
	nc, err := nats.Connect(urls, append(options, // all servers of the cluster, separated by commas
		nats.MaxReconnects(-1),               // never give the store up
		nats.PingInterval(3*time.Second))...) // leave a server that hangs within ten seconds, not six minutes
	if err != nil {
		return err
	}
	node, err := edge.New(nc, edge.Config{
		ID:           "gateway-1",                             // stable over restarts
		OnDead:       func(c *edge.Conn) { closeSocketOf(c) }, // silent for too long
		OnSuperseded: func(c *edge.Conn) { closeSocketOf(c) }, // it is connected elsewhere now
		Logger:       slog.Default(),
	})
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- node.Run(context.Background()) }() // nil after Drain; ErrReplaced if the id is taken over
	<-node.Ready()

	// for every socket:
	conn, err := node.Connect(user, device, edge.State{Foreground: true, Active: true})
	if err != nil {
		return err
	}
	defer conn.Close()
	for message := range socket {
		conn.Beat(message.Seq) // a uint32 from 1 on; no lock, no allocation
	}

	// on SIGTERM, the polite leave; cancelling Run's context instead looks like a crash:
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err = node.Drain(ctx)
	nc.Close()
	return errors.Join(err, <-ended)
}

func sessionOf(node *edge.Node, user, device string) error {
	conn, err := node.ConnectSession(user, device, edge.State{Foreground: true}, edge.Session{
		ID:     "login-4711", // the application's own, the same when the device comes back
		Client: edge.Client{Type: "ios", Version: "4.2", Channel: "chat", Region: "eu"},
	})
	if err != nil {
		return err
	}
	// what the device tells of itself:
	err = conn.SetState(edge.State{Foreground: true, Active: false, Activity: "typing"})
	if err != nil {
		return err
	}
	conn.CloseFor(wire.Reason_REASON_LOGOUT) // or Close, for a plain goodbye
	return nil
}

func soonerByPhi(nc *nats.Conn) (*edge.Node, error) {
	node, err := edge.New(nc, edge.Config{ID: "gateway-1", Detector: &phi.Config{Threshold: 8}})
	return node, err
}

func watchUsers(ctx context.Context, nc *nats.Conn, show func(target string, status any, reason string)) error {
	c, err := viewer.New(nc, viewer.Config{Viewer: "alice"})
	if err != nil {
		return err
	}
	go c.Run(ctx)
	if err := c.Watch(ctx, "bob", "carol"); err != nil {
		return err
	}
	for change := range c.Changes() {
		show(change.Target, change.View.Status, change.Reason)
	}
	return nil
}

func mintForAlice(w io.Writer) error {
	file, err := os.ReadFile("rollcall-data/keys/roles/viewer.json") // the one key that a backend needs for this
	if err != nil {
		return err
	}
	key, err := identity.ParseSigningKey(file)
	if err != nil {
		return err
	}
	issuer, err := identity.NewIssuer(key) // takes the files of several roles, if need be
	if err != nil {
		return err
	}

	// when alice has logged in:
	credential, err := issuer.Viewer("alice", time.Hour)
	if err != nil {
		return err
	}
	json.NewEncoder(w).Encode(credential) // role, name, jwt, seed, inbox_prefix, expires
	return nil
}

func workInAGroup(ctx context.Context, nc *nats.Conn, work func(ctx context.Context, partition int, offset uint64) (uint64, error)) error {
	m, err := cohort.Join(ctx, nc, cohort.Config{Group: "orders", ID: "worker-1", Partitions: 12})
	if err != nil {
		return err
	}
	err = m.Own(ctx, func(ctx context.Context, g rollcall.Grant) error {
		offset, err := m.Offset(g.Shard) // begin behind it
		if err != nil {
			return err
		}
		offset, err = work(ctx, g.Shard, offset)
		if err != nil {
			return err
		}
		return m.Commit(context.WithoutCancel(ctx), g.Shard, offset) // refused once somebody else owns the partition
	})
	return err
}

// What is shown in Go works.
func TestSnippets(t *testing.T) {
	t.Chdir(t.TempDir())
	urls := up(t, "--data", "rollcall-data", "--no-ledger", "--set", "debounce=1")
	if code, _, errs := command(t, "token", "edge", "--id", "gateway-1", "--out", "gateway-1.creds"); code != 0 {
		t.Fatal(errs)
	}
	var minted bytes.Buffer
	if err := mintForAlice(&minted); err != nil {
		t.Fatal(err)
	}
	var alice identity.Credential
	if err := json.Unmarshal(minted.Bytes(), &alice); err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(urls, alice.Options()...)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()

	socket, embedded := make(chan beat, 1), make(chan error, 1)
	socket <- beat{1}
	go func() { embedded <- embedEdge(urls, "bob", "phone", socket, func(*edge.Conn) {}) }()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var shown []string
	err = watchUsers(ctx, nc, func(target string, status any, _ string) {
		shown = append(shown, fmt.Sprint(target, " ", status))
		switch shown[len(shown)-1] {
		case "bob online":
			close(socket) // the device is gone, and the gateway drains
		case "bob offline":
			cancel()
		}
	})
	if err := errors.Join(err, <-embedded); err != nil {
		t.Error(err)
	}
	if err := embedMore(t.Context(), urls); err != nil {
		t.Error(err)
	}
	if !slices.Equal(shown, []string{"bob online", "bob offline"}) {
		t.Error(shown)
	}
}

// embedMore runs what a gateway may do besides.
func embedMore(ctx context.Context, urls string) error {
	options, err := identity.FromFile("gateway-1.creds")
	if err != nil {
		return err
	}
	nc, err := nats.Connect(urls, options...)
	if err != nil {
		return err
	}
	defer nc.Close()
	node, err := soonerByPhi(nc)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- node.Run(ctx) }()
	<-node.Ready()
	err = sessionOf(node, "dave", "tablet")
	return errors.Join(err, node.Drain(ctx), <-ended)
}

// A worker works once on each partition.
func TestWorkerSnippet(t *testing.T) {
	t.Chdir(t.TempDir())
	urls := up(t, "--data", "rollcall-data", "--no-ledger")
	if code, _, errs := command(t, "token", "worker", "--id", "worker-1", "--out", "worker-1.creds"); code != 0 {
		t.Fatal(errs)
	}
	if code, _, errs := command(t, "cohort", "create", "orders", "-s", urls, "--partitions", "12"); code != 0 {
		t.Fatal(errs)
	}
	options, err := identity.FromFile("worker-1.creds")
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(urls, options...)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var mu sync.Mutex
	worked := make(map[int]bool)
	err = workInAGroup(ctx, nc, func(ctx context.Context, partition int, offset uint64) (uint64, error) {
		mu.Lock()
		defer mu.Unlock()
		if worked[partition] = true; len(worked) == 12 {
			cancel()
		}
		return offset + 1, nil
	})
	if !errors.Is(err, context.Canceled) || len(worked) != 12 {
		t.Error(err, len(worked))
	}
}

package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/edge"
	"github.com/rollcall-io/rollcall/fanout/viewer"
	"github.com/rollcall-io/rollcall/internal/natsd/keydir"
	"github.com/rollcall-io/rollcall/internal/retry"
	"github.com/rollcall-io/rollcall/subjects/identity"
)

var takeoverFile = flag.String("takeover", "", "file for the figures of TestSharedByProcesses")

// TestSharedByProcesses has two keepers and two fanouts, each a process of its own, share a fabric.
// One of each is killed, the other drained beside a third, and a keeper paused until another has
// its shards. Viewers see who is there all the time, and who comes as soon as somebody has taken over.
func TestSharedByProcesses(t *testing.T) {
	f := newForeignFabric(t)
	steady := make([]string, 40)
	for i := range steady {
		steady[i] = fmt.Sprint("steady", i)
	}
	for _, id := range []string{"1", "2"} {
		f.start("keeper", "k"+id)
		f.start("fanout", "f"+id)
	}
	f.connectEdge()
	for n := range viewers {
		users := slices.Clone(steady)
		for i := n; i < newcomers; i += viewers {
			users = append(users, newcomer(i))
		}
		f.connectViewer(fmt.Sprint("vera", n), users[min(n, 1)*len(steady):]...)
	}
	for _, u := range steady {
		f.beat(f.come(u))
	}
	var figures strings.Builder
	steps := []struct {
		what   string
		do     func()
		within time.Duration
	}{
		{"nothing", func() {}, time.Second},
		{"a keeper killed", func() { f.parts["k1"].kill() }, 12 * time.Second},
		{"a keeper started", func() { f.start("keeper", "k3") }, time.Second},
		{"a keeper drained", func() { f.parts["k2"].stop(t) }, time.Second},
		{"another started", func() { f.start("keeper", "k4") }, time.Second},
		{"a keeper paused", func() { f.signal("k3", syscall.SIGSTOP) }, 12 * time.Second},
		{"a keeper woken", func() { f.signal("k3", syscall.SIGCONT) }, time.Second},
		{"a fanout killed", func() { f.parts["f1"].kill() }, 12 * time.Second},
		{"a fanout started", func() { f.start("fanout", "f3") }, 3 * time.Second},
		{"a fanout drained", func() { f.parts["f2"].stop(t) }, 3 * time.Second},
	}
	if testing.Short() {
		steps = steps[:4]
	}
	for _, step := range steps {
		took := f.probe(step.what, step.do, step.within)
		fmt.Fprintf(&figures, "%-18s %6.2f s\n", step.what, took.Seconds())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, u := range steady {
		if shown := f.shown[u]; len(shown) != 1 || shown[0].status != rollcall.StatusOnline {
			t.Errorf("%s was shown %v", u, shown)
		}
	}
	t.Logf("\n%s", &figures)
	if *takeoverFile != "" {
		if err := os.WriteFile(*takeoverFile, []byte(figures.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Newcomers are watched by several viewers, since one is told at most twice a second and shard.
const (
	viewers    = 8
	newcomers  = 2000
	probeEvery = 50 * time.Millisecond
)

func newcomer(i int) string { return fmt.Sprint("u", i) }

// A foreignFabric is a fabric on a NATS system of somebody else, and the processes that run it.
type foreignFabric struct {
	t      *testing.T
	url    string
	issuer *identity.Issuer
	parts  map[string]child
	node   *edge.Node
	came   int // newcomers

	mu    sync.Mutex
	shown map[string][]shownAt
}

type shownAt struct {
	status rollcall.Status
	at     time.Time
}

func newForeignFabric(t *testing.T) *foreignFabric {
	t.Helper()
	url, system, operator := foreign(t)
	keys := filepath.Join(t.TempDir(), "keys")
	t.Setenv("ROLLCALL_KEYS", keys)
	if code, _, errs := command(t, "init", "-s", url, "--system-creds", system, "--operator-key", operator, "--shards", "4"); code != 0 {
		t.Fatal(errs)
	}
	authority, err := keydir.Read(keys)
	if err != nil {
		t.Fatal(err)
	}
	return &foreignFabric{t: t, url: url, issuer: authority.Issuer(), parts: make(map[string]child), shown: make(map[string][]shownAt)}
}

// start starts a part of the fabric and waits until it takes part.
func (f *foreignFabric) start(part, id string) {
	c := startChild(f.t, part, "-s", f.url, "--id", id)
	f.parts[id] = c
	c.out.await(f.t, part+" "+id+" runs on")
	c.errs.await(f.t, "msg=registered")
}

func (f *foreignFabric) signal(id string, s syscall.Signal) {
	if err := f.parts[id].Process.Signal(s); err != nil {
		f.t.Error(err)
	}
}

func (f *foreignFabric) connect(role identity.Role, id string) *nats.Conn {
	f.t.Helper()
	options, err := as(f.issuer, time.Hour, role, id)
	if err != nil {
		f.t.Fatal(err)
	}
	nc, err := nats.Connect(f.url, options...)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(nc.Close)
	return nc
}

// background runs something until the test ends.
func (f *foreignFabric) background(run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); run(ctx) }()
	f.t.Cleanup(func() { cancel(); <-done })
}

func (f *foreignFabric) connectEdge() {
	f.t.Helper()
	node, err := edge.New(f.connect(identity.Edge, "g1"), edge.Config{ID: "g1"})
	if err != nil {
		f.t.Fatal(err)
	}
	f.node = node
	f.background(node.Run)
	<-node.Ready()
}

// connectViewer has a viewer watch users, each of whom nobody else watches.
func (f *foreignFabric) connectViewer(id string, users ...string) {
	f.t.Helper()
	client, err := viewer.New(f.connect(identity.Viewer, id), viewer.Config{Viewer: id})
	if err != nil {
		f.t.Fatal(err)
	}
	f.background(client.Run)
	go func() {
		for c := range client.Changes() {
			f.mu.Lock()
			f.shown[c.Target] = append(f.shown[c.Target], shownAt{c.View.Status, time.Now()})
			f.mu.Unlock()
		}
	}()
	ctx, cancel := context.WithTimeout(f.t.Context(), 30*time.Second)
	defer cancel()
	if err := client.Watch(ctx, users...); err != nil {
		f.t.Fatal(err)
	}
}

func (f *foreignFabric) come(user string) *edge.Conn {
	f.t.Helper()
	conn, err := f.node.Connect(user, "phone", edge.State{Foreground: true, Active: true})
	if err != nil {
		f.t.Fatal(err)
	}
	return conn
}

// beat sends heartbeats until the test ends.
func (f *foreignFabric) beat(conn *edge.Conn) {
	f.background(func(ctx context.Context) error {
		for seq := uint32(1); retry.Pause(ctx, 20*time.Second); seq++ {
			conn.Beat(seq)
		}
		return nil
	})
}

// probe has users come every 50 ms, in all shards, while do is done, and returns the longest time
// until one was shown, which must be within the limit.
func (f *foreignFabric) probe(what string, do func(), limit time.Duration) (longest time.Duration) {
	f.t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); do() }()
	came := make(map[string]time.Time)
	for begun := time.Now(); time.Since(begun) < limit+time.Second; time.Sleep(probeEvery) {
		if f.came == newcomers {
			f.t.Fatal("nobody is left to come")
		}
		user := newcomer(f.came)
		f.came++
		came[user] = time.Now()
		f.come(user)
	}
	<-done
	time.Sleep(limit / 4) // the last ones may take their time
	f.mu.Lock()
	defer f.mu.Unlock()
	for user, at := range came {
		shown := f.shown[user]
		if len(shown) != 1 || shown[0].status != rollcall.StatusOnline {
			f.t.Errorf("%s: %s was shown %v", what, user, shown)
			continue
		}
		longest = max(longest, shown[0].at.Sub(at))
	}
	if f.t.Logf("%s: %s", what, longest); longest > limit {
		f.t.Errorf("%s: somebody was shown after %s, want %s", what, longest, limit)
	}
	return longest
}

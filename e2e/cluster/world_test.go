//go:build cluster

package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/internal/natsd/keydir"
	"github.com/rollcall-io/rollcall/internal/retry"
	"github.com/rollcall-io/rollcall/ledger/live"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/identity"
)

const (
	patience  = time.Minute // for what must come, on a busy machine
	shards    = 2
	gateways  = 3
	perEdge   = 1000
	crashing  = 100 // at a gateway more, which is killed for good
	users     = gateways*perEdge + crashing
	viewers   = 12
	heartbeat = 10 * time.Second
	takeover  = 12 * time.Second // as docs/running.md says
	// way is from when a bound is over until a viewer's client has it: the fanout's window, and a busy machine.
	way = time.Second
)

// timing is Tight with shorter leases and debounce: the faults last seconds, not minutes. How soon parts are
// missed, and views turn unknown, is as by default.
var timing = []string{"heartbeat=10", "idle_timeout=25", "renewal=15", "lease_ttl=60", "debounce=3"}

func params() rollcall.Params {
	p := rollcall.Tight()
	for _, change := range timing {
		name, value, _ := strings.Cut(change, "=")
		if err := p.Set(name, value); err != nil {
			panic(err)
		}
	}
	return p
}

// A world is everything that runs.
type world struct {
	t        *testing.T
	servers  *servers
	names    subjects.Names
	js       jetstream.JetStream
	keepers  []*process
	fanouts  []*process
	ledgers  []*process
	backend  *nats.Conn // asks the ledgers
	gateways []*gateway
	audience *audience
	pulses   *instants
	answers  *instants
	owners   *owners

	at   [users]int       // the gateway of each user; −1 for none
	left [users]departure // of users without one

	ending bool // no fault is to come: users of the lost gateway must be offline too
}

// A departure is when a user must be shown offline: not before, not after.
type departure struct {
	at, earliest, latest time.Time
	crash                bool // which takes longer than a fault: either state is right until latest
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir := t.TempDir()
	keys := filepath.Join(dir, "keys")
	authority, _, err := keydir.Open(keys)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, servers: startServers(t, dir, authority)}
	for _, n := range w.servers.nodes {
		n.await("started", patience)
	}
	if w.names, err = subjects.New(subjects.DefaultPrefix, shards); err != nil {
		t.Fatal(err)
	}
	command := filepath.Join(dir, "rollcall")
	w.run("go", "build", "-o", command, "github.com/rollcall-io/rollcall/cmd/rollcall")
	prepare := []string{command, "init", "-s", w.servers.urls(0), "--keys", keys, "--replicas", "3", "--shards", fmt.Sprint(shards), "--preset", "tight"}
	for _, change := range timing {
		prepare = append(prepare, "--set", change)
	}
	w.run(prepare...)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	credential, err := authority.Issuer().Operator("test", time.Hour)
	if w.js, err = jetstream.New(connect(t, w.servers.urls(0), credential, err)); err != nil {
		t.Fatal(err)
	}
	w.owners = watchOwners(ctx, t, w.js, w.names)
	t.Cleanup(func() { cancel(); w.owners.reading.Wait() })
	part := func(role string, n int, options ...string) *process {
		id := fmt.Sprintf("%s-%d", strings.Fields(role)[0], n+1)
		p := newProcess(t, dir, id, nil, append(append([]string{command}, strings.Fields(role)...),
			append(options, "-s", w.servers.urls(n), "--keys", keys, "--id", id)...)...)
		p.start()
		p.await("runs on", patience)
		return p
	}
	for n := range 2 {
		w.keepers, w.fanouts = append(w.keepers, part("keeper", n)), append(w.fanouts, part("fanout", n))
		w.ledgers = append(w.ledgers, part("ledger run", n, "--dir", dir, "--every", "1s"))
	}
	w.connectUsers(dir, authority.Issuer())
	credential, err = authority.Issuer().Backend("test", time.Hour)
	w.backend = connect(t, w.servers.urls(0), credential, err)
	w.audience = startAudience(ctx, t, w.servers, authority.Issuer(), viewers, users)
	w.pulses = watchPulses(t, w.servers, w.names, authority.Issuer())
	w.answers = probe(ctx, t, w.servers, w.names, authority.Issuer())
	w.settle(2 * patience)
	return w
}

func (w *world) run(command ...string) {
	w.t.Helper()
	out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
	if err != nil {
		w.t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, out)
	}
}

func (w *world) connectUsers(dir string, issuer *identity.Issuer) {
	w.t.Helper()
	for n := range gateways + 1 {
		id := fmt.Sprintf("g%d", n+1)
		credential, err := issuer.Edge(id, time.Hour)
		if err != nil {
			w.t.Fatal(err)
		}
		file, err := credential.File()
		if err != nil {
			w.t.Fatal(err)
		}
		path := filepath.Join(dir, id+".creds")
		if err := os.WriteFile(path, file, 0o600); err != nil {
			w.t.Fatal(err)
		}
		g := newGateway(w.t, dir, w.servers.urls(n), path, id)
		g.begin()
		w.gateways = append(w.gateways, g)
		w.open(n, n*perEdge, min((n+1)*perEdge, users))
	}
}

// open connects users at a gateway.
func (w *world) open(g, from, to int) {
	w.t.Helper()
	w.gateways[g].open(from, to)
	for n := from; n < to; n++ {
		w.at[n] = g
	}
}

// close disconnects users, who must be shown offline after the debounce, and at most by so much later.
func (w *world) close(from, to int, late time.Duration) {
	w.t.Helper()
	g, now := w.at[from], time.Now()
	w.gateways[g].close(from, to)
	b := params().Bounds().Close
	w.depart(from, to, departure{at: now, earliest: now.Add(b.Earliest), latest: time.Now().Add(b.Latest + late + way)})
}

func (w *world) depart(from, to int, d departure) {
	for n := from; n < to; n++ {
		w.at[n], w.left[n] = -1, d
	}
}

// right says whether a user is shown as it is.
func (w *world) right(n int) bool {
	want := rollcall.StatusOnline
	if w.at[n] < 0 {
		if w.left[n].crash && !w.ending && time.Now().Before(w.left[n].latest) {
			return true
		}
		want = rollcall.StatusOffline
	}
	return w.audience.of(n) == want
}

// settle waits until every viewer is shown the truth.
func (w *world) settle(limit time.Duration) {
	w.t.Helper()
	deadline := time.Now().Add(limit)
	for {
		var wrong []string
		for n := range users {
			if !w.right(n) {
				wrong = append(wrong, fmt.Sprintf("%s at %d is %q", user(n), w.at[n], w.audience.of(n)))
			}
		}
		if len(wrong) == 0 {
			return
		}
		if time.Now().After(deadline) || !retry.Pause(context.Background(), 20*time.Millisecond) {
			w.t.Fatalf("after %s viewers are shown the wrong state of %d users: %s", limit, len(wrong), strings.Join(wrong[:min(len(wrong), 10)], ", "))
		}
	}
}

// count waits until the ledgers together have every shard, and count as online who is connected, and nobody
// else but users of the lost gateway whose lease has not ended.
func (w *world) count(limit time.Duration) (online int) {
	w.t.Helper()
	lost := 0
	for n := range users {
		switch {
		case w.at[n] >= 0:
			online++
		case w.left[n].crash && !w.ending:
			lost++
		}
	}
	var stats subjects.Stats
	var err error
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); retry.Pause(context.Background(), 100*time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		stats, err = live.Ask(ctx, w.backend, subjects.DefaultPrefix)
		cancel()
		if err == nil && len(stats.Shards) == shards && stats.Online >= online && stats.Online <= online+lost {
			return online
		}
	}
	w.t.Errorf("ledgers count %d online in the shards %v, and %d are (%v)", stats.Online, stats.Shards, online, err)
	return online
}

// leader is the server that leads the log of the first shard.
func (w *world) leader() int {
	w.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		s, err := w.js.Stream(ctx, w.names.LogStream(0))
		cancel()
		if err == nil && s.CachedInfo().Cluster.Leader != "" {
			return w.servers.named(s.CachedInfo().Cluster.Leader)
		}
	}
	w.t.Fatal("the log has no leader")
	return -1
}

// follower is a server that leads no stream: it hands over what it leads.
func (w *world) follower() int {
	w.t.Helper()
	victim := (w.leader() + 1) % len(w.servers.nodes)
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		list, leads := w.js.ListStreams(ctx), 0
		for info := range list.Info() {
			if info.Cluster.Leader == w.servers.nodes[victim].name {
				leads++
				w.js.Conn().RequestWithContext(ctx, "$JS.API.STREAM.LEADER.STEPDOWN."+info.Config.Name, nil)
			}
		}
		cancel()
		if leads == 0 && list.Err() == nil {
			return victim
		}
	}
	w.t.Fatalf("%s does not hand over what it leads", w.servers.nodes[victim].name)
	return -1
}

// whole waits until every replica of every stream is current.
func (w *world) whole() {
	w.t.Helper()
	deadline := time.Now().Add(2 * patience)
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		list, count, lacking := w.js.ListStreams(ctx), 0, []string(nil)
		for info := range list.Info() {
			count++
			if info.Cluster == nil || info.Cluster.Leader == "" || len(info.Cluster.Replicas) != 2 ||
				slices.ContainsFunc(info.Cluster.Replicas, func(p *jetstream.PeerInfo) bool { return !p.Current || p.Offline }) {
				lacking = append(lacking, info.Config.Name)
			}
		}
		cancel()
		if count > 0 && list.Err() == nil && len(lacking) == 0 {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("replicas of %v are not current (%d streams, %v)", lacking, count, list.Err())
		}
		time.Sleep(100 * time.Millisecond)
	}
}

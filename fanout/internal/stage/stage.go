// Package stage sets the scene for tests of fanouts and their clients: a fabric on
// a server in virtual time, on which the test plays the keeper.
package stage

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/fanout"
	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// Stage is a fabric whose keeper is the test. Use it inside a lab.Bubble.
type Stage struct {
	T      *testing.T
	Server *lab.Server
	Fabric fabric.Fabric
	JS     jetstream.JetStream
	nc     *nats.Conn

	mu        sync.Mutex
	silent    bool
	extra     uint64 // added to the revisions of pulses: what never arrives
	revisions map[int]uint64
}

// New makes a fabric with the given number of shards and lets its keeper pulse.
func New(t *testing.T, shards int) *Stage {
	t.Helper()
	server := lab.NewServer(t)
	nc := lab.Connect(t, server.NewLink())
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	f, err := fabric.Ensure(t.Context(), js, fabric.Config{Shards: shards})
	if err != nil {
		t.Fatal(err)
	}
	s := &Stage{T: t, Server: server, Fabric: f, JS: js, nc: nc, revisions: make(map[int]uint64)}
	ctx, cancel := context.WithCancel(context.Background())
	var beating sync.WaitGroup
	beating.Go(func() { s.beat(ctx) })
	t.Cleanup(func() { cancel(); beating.Wait() })
	return s
}

func (s *Stage) beat(ctx context.Context) {
	for {
		for shard := range s.Fabric.Shards() {
			s.pulse(shard, 1)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(s.Fabric.Params.Sweep):
		}
	}
}

func (s *Stage) pulse(shard int, generation uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.silent {
		s.sendPulse(shard, generation, s.revisions[shard]+s.extra)
	}
}

func (s *Stage) sendPulse(shard int, generation, revision uint64) {
	data, err := subjects.Encode(&wire.Pulse{
		Shard: uint32(shard), Generation: generation, Now: time.Now().UnixMicro(), Revision: revision,
	})
	if err == nil {
		s.nc.Publish(s.Fabric.Pulse(shard), data)
	}
}

// Silence stops or resumes the keeper's pulses.
func (s *Stage) Silence(silent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silent = silent
}

// Announce makes pulses promise revisions beyond what is written.
func (s *Stage) Announce(extra uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.extra = extra
}

// StalePulse sends a pulse of a keeper that has lost its shard.
func (s *Stage) StalePulse() {
	for shard := range s.Fabric.Shards() {
		s.sendPulse(shard, 0, 0)
	}
}

// Set publishes a user's state, as the keeper does.
func (s *Stage) Set(user string, state rollcall.State) { s.Put(user, s.View(state)) }

// View is the record of a user who is in a state as of now.
func (s *Stage) View(state rollcall.State) *wire.View {
	v := &wire.View{State: wire.State(state), Observed: time.Now().UnixMicro()}
	if state == rollcall.Offline {
		v.Seen = time.Now().UnixMicro()
	}
	return v
}

// Put publishes a user's record.
func (s *Stage) Put(user string, v *wire.View) {
	s.T.Helper()
	data, err := subjects.Encode(v)
	if err != nil {
		s.T.Fatal(err)
	}
	s.write(user, &nats.Msg{Subject: s.key(user), Data: data})
}

// PutAll publishes many users' records at once.
func (s *Stage) PutAll(users []string, state rollcall.State) {
	s.T.Helper()
	data, err := subjects.Encode(s.View(state))
	if err != nil {
		s.T.Fatal(err)
	}
	for _, user := range users {
		if _, err := s.JS.PublishAsync(s.key(user), data); err != nil {
			s.T.Fatal(err)
		}
	}
	<-s.JS.PublishAsyncComplete()
}

// Delete removes a user.
func (s *Stage) Delete(user string) {
	s.T.Helper()
	s.write(user, &nats.Msg{Subject: s.key(user), Header: nats.Header(subjects.KVPurge())})
}

// Garbage writes something that is no record under a user's key.
func (s *Stage) Garbage(user string) {
	s.T.Helper()
	s.write(user, &nats.Msg{Subject: s.key(user), Data: []byte("\xff\xff\xff")})
}

func (s *Stage) key(user string) string {
	return subjects.KVSubject(s.Fabric.ViewsBucket(s.Fabric.Shard(user)), subjects.KeyView(user))
}

func (s *Stage) write(user string, m *nats.Msg) {
	s.T.Helper()
	ack, err := s.JS.PublishMsg(s.T.Context(), m)
	if err != nil {
		s.T.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	shard := s.Fabric.Shard(user)
	s.revisions[shard] = max(s.revisions[shard], ack.Sequence)
}

// A Running is a fanout of the stage.
type Running struct {
	*fanout.Fanout
	NATS   *nats.Conn
	Link   *lab.Link
	Member *Member // of a registry; nil if it owns all
	Ended  chan struct{}
	Err    error // valid after Ended
	stop   context.CancelFunc
}

// Start runs a fanout on a link of its own and waits until it answers.
func (s *Stage) Start(cfg fanout.Config) *Running {
	s.T.Helper()
	r := s.Launch(cfg)
	s.await(r)
	return r
}

func (s *Stage) await(r *Running) {
	s.T.Helper()
	select {
	case <-r.Ready():
	case <-r.Ended:
		s.T.Fatalf("fanout ended: %v", r.Err)
	case <-time.After(time.Minute):
		s.T.Fatal("fanout is not ready")
	}
}

// Launch runs a fanout and does not wait.
func (s *Stage) Launch(cfg fanout.Config) *Running {
	s.T.Helper()
	link := s.Server.NewLink()
	nc := lab.Connect(s.T, link)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	f, err := fanout.New(nc, cfg)
	if err != nil {
		s.T.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &Running{Fanout: f, NATS: nc, Link: link, Ended: make(chan struct{}), stop: stop}
	go func() {
		defer close(r.Ended)
		if r.Err = f.Run(ctx); r.Err != nil && !errors.Is(r.Err, context.Canceled) && !errors.Is(r.Err, rollcall.ErrNotOwner) {
			s.T.Errorf("fanout: %v", r.Err)
		}
	}()
	s.T.Cleanup(r.Crash)
	return r
}

// Crash ends the fanout and its connection.
func (r *Running) Crash() {
	r.stop()
	<-r.Ended
	r.NATS.Close()
}

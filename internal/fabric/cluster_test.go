package fabric_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/internal/lab"
)

// leaderOf is the server that leads a stream.
func leaderOf(t *testing.T, c *lab.Cluster, js jetstream.JetStream, stream string) int {
	t.Helper()
	s, err := js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		if c.Server(n).Name() == s.CachedInfo().Cluster.Leader {
			return n
		}
	}
	t.Fatalf("nobody leads %s", stream)
	return 0
}

// Everything has as many replicas as was asked for last, and what was stored before is still there:
// when the server is gone that had it, and when there is one replica again.
func TestReplicas(t *testing.T) {
	c := lab.BareCluster(t)
	js, err := jetstream.New(c.Connect())
	if err != nil {
		t.Fatal(err)
	}
	const messages = 500
	f := ensure(t, js, fabric.Config{Shards: 1})
	for n := range messages {
		if _, err := js.Publish(t.Context(), f.Log(0, "g1"), fmt.Append(nil, n)); err != nil {
			t.Fatal(err)
		}
	}
	resize := func(replicas int) {
		t.Helper()
		ensure(t, js, fabric.Config{Replicas: replicas})
		if err := fabric.Settled(t.Context(), js, f.Names); err != nil {
			t.Fatal(err)
		}
		for info := range js.ListStreams(t.Context()).Info() {
			if info.Config.Replicas != replicas || len(info.Cluster.Replicas) != replicas-1 {
				t.Errorf("%s has %d replicas and is to have %d of %d", info.Config.Name, len(info.Cluster.Replicas)+1, info.Config.Replicas, replicas)
			}
		}
	}
	count := func() (all uint64) {
		stream, err := js.Stream(t.Context(), f.LogStream(0))
		if err != nil {
			return 0
		}
		for n := range uint64(messages) {
			if m, err := stream.GetMsg(t.Context(), n+1); err == nil && string(m.Data) == fmt.Sprint(n) {
				all++
			}
		}
		return all
	}
	resize(3)
	leader := leaderOf(t, c, js, f.LogStream(0))
	c.Stop(leader)
	c.Await("all messages without their leader", func() bool { return count() == messages })
	short, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := fabric.Settled(short, js, f.Names); !errors.Is(err, fabric.ErrIncomplete) {
		t.Errorf("without a server: %v", err)
	}
	c.Start(leader)
	if err := fabric.Settled(t.Context(), js, f.Names); err != nil {
		t.Fatal(err)
	}
	resize(1)
	if got := count(); got != messages {
		t.Errorf("%d of %d messages are left with one replica", got, messages)
	}
}

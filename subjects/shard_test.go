package subjects_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/subjects"
)

// partitioning is a nats-server that maps in.<token> to out.<shard>.<token>.
func partitioning(t *testing.T, shards int) *nats.Conn {
	t.Helper()
	s, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if err := s.GlobalAccount().AddMapping("in.*", fmt.Sprintf("out.{{partition(%d,1)}}.{{wildcard(1)}}", shards)); err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func TestShardIsTheServersPartition(t *testing.T) {
	for _, shards := range []int{1, 4, 7, subjects.MaxShards} {
		t.Run(strconv.Itoa(shards), func(t *testing.T) {
			lab.Bubble(t, func(t *testing.T) { testPartition(t, shards) })
		})
	}
}

func testPartition(t *testing.T, shards int) {
	nc, n := partitioning(t, shards), names(t, shards)
	sub, err := nc.SubscribeSync("out.>")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 300 {
		id := fmt.Sprintf("user-%d_%x", i, i*7919)
		if subjects.Token(id) != id {
			t.Fatalf("%q is not its own token", id)
		}
		if err := nc.Publish("in."+id, nil); err != nil {
			t.Fatal(err)
		}
		m, err := sub.NextMsg(time.Second)
		if err != nil {
			t.Fatal(err)
		}
		shard, _, _ := strings.Cut(strings.TrimPrefix(m.Subject, "out."), ".")
		if want := strconv.Itoa(n.Shard(id)); shard != want {
			t.Fatalf("%q: the server says %s, Shard %s", id, shard, want)
		}
	}
}

// These must never change: users would change their shard.
func TestShardGolden(t *testing.T) {
	n := names(t, 4)
	for id, want := range map[string]int{"": 1, "alice": 3, "bob": 0, "日本": 1, "a.b": 0} {
		if got := n.Shard(id); got != want {
			t.Errorf("%q: shard %d, want %d", id, got, want)
		}
	}
}

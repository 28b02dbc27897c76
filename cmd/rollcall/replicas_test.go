package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/edge"
	"github.com/rollcall-io/rollcall/fanout"
	"github.com/rollcall-io/rollcall/fanout/viewer"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/keeper"
)

// A fabric that runs with one replica is given three by init, loses the server that had everything, and
// goes back to one. Who is there is never shown offline, and who comes meanwhile is shown.
func TestReplicasOfARunningFabric(t *testing.T) {
	c := lab.BareCluster(t)
	resize := func(replicas int) {
		t.Helper()
		code, _, errs := command(t, "init", "--no-accounts", "-s", c.URL(), "--shards", "1", "--replicas", fmt.Sprint(replicas))
		if code != 0 {
			t.Fatalf("init --replicas %d: %d, %s", replicas, code, errs)
		}
	}
	resize(1)
	ctx, cancel := context.WithCancel(t.Context())
	var parts sync.WaitGroup
	defer parts.Wait()
	defer cancel()
	k, err := keeper.New(c.Connect(), keeper.Config{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := fanout.New(c.Connect(), fanout.Config{})
	if err != nil {
		t.Fatal(err)
	}
	node, err := edge.New(c.Connect(), edge.Config{ID: "g1"})
	if err != nil {
		t.Fatal(err)
	}
	v, err := viewer.New(c.Connect(), viewer.Config{Viewer: "vera"})
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range []func(context.Context) error{k.Run, f.Run, node.Run, v.Run} {
		parts.Go(func() { run(ctx) })
	}
	var mu sync.Mutex
	shown := make(map[string][]rollcall.Status)
	parts.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case change := <-v.Changes():
				mu.Lock()
				shown[change.Target] = append(shown[change.Target], change.View.Status)
				mu.Unlock()
			}
		}
	})
	<-node.Ready()
	<-f.Ready()
	// Many come at once, and many begin to watch: what is written then is written together.
	const crowd = 40
	come := func(name string) {
		t.Helper()
		all := make([]string, crowd)
		for i := range all {
			all[i] = fmt.Sprint(name, i)
		}
		if err := v.Watch(ctx, all...); err != nil {
			t.Fatal(err)
		}
		for _, user := range all {
			if _, err := node.Connect(user, "phone", edge.State{Foreground: true}); err != nil {
				t.Fatal(err)
			}
		}
		c.Await(name+" to be shown", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return !slices.ContainsFunc(all, func(u string) bool { return !slices.Contains(shown[u], rollcall.StatusOnline) })
		})
		var watching sync.WaitGroup
		for i := range crowd {
			w, err := viewer.New(c.Connect(), viewer.Config{Viewer: fmt.Sprint(name, "'s viewer ", i)})
			if err != nil {
				t.Fatal(err)
			}
			parts.Go(func() { w.Run(ctx) })
			watching.Go(func() {
				if err := w.Watch(ctx, all...); err != nil {
					t.Error(err)
				}
			})
		}
		watching.Wait()
	}
	come("first")
	resize(3)
	come("second")
	js, err := jetstream.New(c.Connect())
	if err != nil {
		t.Fatal(err)
	}
	log, err := js.Stream(ctx, "PRESENCE_LOG_0")
	if err != nil {
		t.Fatal(err)
	}
	leader := slices.IndexFunc([]int{0, 1, 2}, func(n int) bool { return c.Server(n).Name() == log.CachedInfo().Cluster.Leader })
	c.Stop(leader)
	come("third")
	c.Start(leader)
	resize(1)
	come("fourth")
	mu.Lock()
	defer mu.Unlock()
	for user, statuses := range shown {
		if slices.Contains(statuses, rollcall.StatusOffline) {
			t.Errorf("%s was shown %v", user, statuses)
		}
	}
}

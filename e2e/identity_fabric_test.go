package e2e_test

import (
	"context"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/edge"
	"github.com/rollcall-io/rollcall/internal/lab"
)

// A whole life on the least rights: devices come and go, links break, keeper and fanout
// are taken over, an edge crashes, the server restarts. Ids need encoding on purpose.
func TestFabricOnLeastRights(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		g := newGuarded(t)
		firstKeeper, firstFanout := g.keeper("keeper-1"), g.fanout("fanout-1")
		edgeProcess, node := g.edge("gate.way *1")
		targets := []string{"ann", "bob > all", "carl.x", "дора"}
		viewerProcess, client := g.viewer("vera.*", targets...)
		beating, silence := context.WithCancel(g.ctx)
		defer silence()
		for _, user := range targets {
			conn, err := node.Connect(user, "phone", edge.State{Foreground: true, Active: true})
			if err != nil {
				t.Fatal(err)
			}
			go beat(beating, conn)
		}
		want := func(when string, status rollcall.Status) {
			t.Helper()
			for _, user := range targets {
				if s, _ := client.State(user); s.View.Status != status {
					t.Errorf("%s, %s shows as %q, want %q (%s)", when, user, s.View.Status, status, s.Reason)
				}
			}
		}
		time.Sleep(2 * time.Minute)
		want("after the opens", rollcall.StatusOnline)

		for _, p := range []*guest{edgeProcess, viewerProcess, firstKeeper, firstFanout} {
			p.link.Cut()
			time.Sleep(3 * time.Second)
			p.link.Heal()
			time.Sleep(30 * time.Second)
		}
		want("after the links broke", rollcall.StatusOnline)

		firstKeeper.kill()
		firstFanout.kill()
		g.keeper("keeper-2")
		g.fanout("fanout-2")
		time.Sleep(2 * time.Minute)
		want("after keeper and fanout were taken over", rollcall.StatusOnline)

		snapshot := g.server.Snapshot(g.names.LogStream(0))
		time.Sleep(2 * time.Minute)
		g.server.Stop()
		g.server.Restore(snapshot) // the keeper asks for rosters
		g.server.Start()
		time.Sleep(5 * time.Minute)
		want("after the server lost a tail", rollcall.StatusOnline)

		get, cancel := context.WithTimeout(g.ctx, 30*time.Second)
		defer cancel()
		if states, err := client.Get(get, targets...); err != nil || len(states) != len(targets) {
			t.Errorf("get: %v, %v", states, err)
		}
		if err := client.Unwatch(get, targets[0]); err != nil {
			t.Error(err)
		}
		targets = targets[1:]
		edgeProcess.kill()
		time.Sleep(5 * time.Minute)
		want("after the edge has crashed", rollcall.StatusOffline)
	})
}

func beat(ctx context.Context, conn *edge.Conn) {
	for number := uint32(1); ; number++ {
		select {
		case <-ctx.Done():
			return
		case <-time.After(28 * time.Second):
			conn.Beat(number)
		}
	}
}

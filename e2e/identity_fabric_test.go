package e2e_test

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/docs/check"
	"github.com/rollcall-io/rollcall/edge"
	"github.com/rollcall-io/rollcall/fanout"
	"github.com/rollcall-io/rollcall/fanout/viewer"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/ledger/live"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/identity"
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

// Users change their own policies, the application everybody's, on the rights of their
// roles; what a user may not do for itself is refused by the server.
func TestPoliciesOnLeastRights(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		g := newGuarded(t)
		g.keeper("k")
		g.fanout("f")
		do := func(p *guest, op subjects.PolicyOp, user string, r subjects.PolicyRequest) error {
			t.Helper()
			policies, err := viewer.NewPolicies(p.nc, subjects.DefaultPrefix)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(g.ctx, 5*time.Second)
			defer cancel()
			_, err = policies.Do(ctx, op, user, r)
			return err
		}
		ann, shop := g.connect(identity.Viewer, "ann"), g.connect(identity.Backend, "shop")
		hidden := rollcall.Hidden
		for _, change := range []struct {
			by   *guest
			op   subjects.PolicyOp
			user string
			what subjects.PolicyRequest
		}{
			{ann, subjects.PolicySet, "ann", subjects.PolicyRequest{Relations: subjects.Relations{Everyone: &hidden}}},
			{ann, subjects.PolicyBlock, "ann", subjects.PolicyRequest{Users: []string{"mallory"}}},
			{ann, subjects.PolicyGet, "ann", subjects.PolicyRequest{}},
			{shop, subjects.PolicyJoin, "ann", subjects.PolicyRequest{Groups: []string{"g"}}},
			{shop, subjects.PolicyContact, "bob", subjects.PolicyRequest{Users: []string{"ann"}}},
			{shop, subjects.PolicyForget, "ann", subjects.PolicyRequest{}},
		} {
			if err := do(change.by, change.op, change.user, change.what); err != nil {
				t.Errorf("%s of %s: %v", change.op, change.user, err)
			}
		}
		g.wantNoViolation()
		for user, op := range map[string]subjects.PolicyOp{"ann": subjects.PolicyJoin, "bob": subjects.PolicyBlock} {
			if err := do(ann, op, user, subjects.PolicyRequest{Users: []string{"x"}}); err == nil {
				t.Errorf("ann may %s for %s", op, user)
			}
		}
		g.forgive()
	})
}

// An application that keeps its own social graph answers the fanout, and says that its
// answers have changed, as a backend.
func TestApplicationDecidesOnLeastRights(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		g := newGuarded(t)
		g.keeper("k")
		shop := g.connect(identity.Backend, "shop")
		var sight atomic.Int64
		sight.Store(int64(rollcall.Exact))
		_, err := shop.nc.QueueSubscribe(g.names.Sight(), "shop", func(m *nats.Msg) {
			var question subjects.SightQuestion
			var answer subjects.SightAnswer
			if err := json.Unmarshal(m.Data, &question); err != nil {
				t.Error(err)
			}
			for range question.Targets {
				answer.Sights = append(answer.Sights, rollcall.Granularity(sight.Load()))
			}
			b, err := json.Marshal(answer)
			if err == nil {
				err = m.Respond(b)
			}
			if err != nil {
				t.Error(err)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := shop.nc.Flush(); err != nil {
			t.Fatal(err)
		}
		g.fanoutWith("f", fanout.Config{AskSights: true})
		_, node := g.edge("g1")
		conn, err := node.Connect("ann", "phone", edge.State{Foreground: true, Active: true})
		if err != nil {
			t.Fatal(err)
		}
		beating, silence := context.WithCancel(g.ctx)
		defer silence()
		go beat(beating, conn)
		_, client := g.viewer("vera", "ann")
		time.Sleep(10 * time.Second)
		if s, ok := client.State("ann"); s.View.Status != rollcall.StatusOnline {
			t.Errorf("vera sees %+v, %v", s, ok)
		}
		sight.Store(int64(rollcall.Absent))
		change, err := json.Marshal(subjects.SightChange{Target: "ann"})
		if err != nil {
			t.Fatal(err)
		}
		if err := shop.nc.Publish(g.names.SightChanged(), change); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if s, ok := client.State("ann"); ok && !s.Withdrawn() {
			t.Errorf("afterwards vera sees %+v", s)
		}
	})
}

// A ledger needs no more than its role: it reads, follows over broken links, goes on in
// another process, and answers backends and operators, nobody else.
func TestLedgerOnLeastRights(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		g := newGuarded(t)
		g.keeper("k")
		_, node := g.edge("g.1")
		conn, err := node.Connect("ann", "phone", edge.State{Foreground: true, Active: true})
		if err != nil {
			t.Fatal(err)
		}
		beating, silence := context.WithCancel(g.ctx)
		defer silence()
		go beat(beating, conn)
		books := openLedger(t)
		first := g.ledger("l.1", books)
		time.Sleep(2 * time.Minute)
		first.link.Cut()
		time.Sleep(time.Minute)
		first.link.Heal()
		time.Sleep(time.Minute)
		first.kill()
		g.ledger("l.2", books)
		time.Sleep(time.Minute)

		document, err := check.Read("../docs/asyncapi.yaml")
		if err != nil {
			t.Fatal(err)
		}
		for _, asker := range []*guest{g.connect(identity.Backend, "shop"), g.connect(identity.Operator, "olga")} {
			m, err := asker.nc.Request(g.names.Stats(), nil, 5*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			if err := document.Messages["stats"].Check(nil, m.Data); err != nil {
				t.Errorf("%v in %s", err, m.Data)
			}
			stats, err := live.Ask(g.ctx, asker.nc, subjects.DefaultPrefix)
			if err != nil || stats.Online != 1 || stats.Active != 1 || len(stats.Shards) != g.names.Shards() || time.Since(stats.AsOf) > 10*time.Second {
				t.Errorf("%+v, %v", stats, err)
			}
			if c := stats.Today[0].Measures["connected"]; c.Users != 1 || c.Seconds < 200_000 || c.Seconds > 330_000 {
				t.Errorf("today %+v", stats.Today)
			}
		}
		g.wantNoViolation()
		vera := g.connect(identity.Viewer, "vera")
		ctx, cancel := context.WithTimeout(g.ctx, 5*time.Second)
		defer cancel()
		if _, err := live.Ask(ctx, vera.nc, subjects.DefaultPrefix); err == nil {
			t.Error("a viewer is told how many are online")
		}
		g.forgive()
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

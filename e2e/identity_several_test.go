package e2e_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/edge"
	"github.com/rollcall-io/rollcall/fanout"
	"github.com/rollcall-io/rollcall/fanout/viewer"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/identity"
)

// Fanouts that share the shards help each other with no more than the rights of their role:
// viewers of every home see everybody, policies change, and when a fanout is killed
// the others take its shards over without any client's help.
func TestSeveralFanoutsOnLeastRights(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		g := newGuarded(t)
		g.keeper("k")
		var fanouts []*guest
		for i := range 3 {
			id := fmt.Sprint("fanout.", i)
			fanouts = append(fanouts, g.fanoutWith(id, fanout.Config{Member: id}))
		}
		_, node := g.edge("gateway")
		beating, silence := context.WithCancel(g.ctx)
		defer silence()
		targets := []string{"ann", "bob", "carl", "dora", "ed", "fay"}
		for _, user := range targets {
			conn, err := node.Connect(user, "phone", edge.State{Foreground: true, Active: true})
			if err != nil {
				t.Fatal(err)
			}
			go beat(beating, conn)
		}
		clients := map[string]*viewer.Client{}
		for _, id := range []string{"vera", "viktor", "violet", "vito", "wim"} {
			_, clients[id] = g.viewer(id, targets...)
		}
		time.Sleep(time.Minute)
		want := func(when string, hidden string) {
			t.Helper()
			for id, c := range clients {
				for _, user := range targets {
					status := rollcall.StatusOnline
					if user == hidden {
						status = rollcall.StatusUnknown
					}
					if s, _ := c.State(user); s.View.Status != status || s.Reason != "" {
						t.Errorf("%s: to %s %s shows as %q, want %q (%s)", when, id, user, s.View.Status, status, s.Reason)
					}
				}
			}
		}
		want("at first", "")
		policies, err := viewer.NewPolicies(g.connect(identity.Backend, "shop").nc, subjects.DefaultPrefix)
		if err != nil {
			t.Fatal(err)
		}
		granularity := rollcall.Hidden
		for i, user := range targets {
			for _, step := range []struct {
				op subjects.PolicyOp
				r  subjects.PolicyRequest
			}{
				{subjects.PolicySet, subjects.PolicyRequest{Relations: subjects.Relations{Everyone: &granularity}}},
				{subjects.PolicyJoin, subjects.PolicyRequest{Groups: []string{"g"}}},
			} {
				if _, err := policies.Do(g.ctx, step.op, user, step.r); err != nil {
					t.Fatalf("%s of %s: %v", step.op, user, err)
				}
			}
			time.Sleep(time.Second)
			want("after "+user+" has hidden", user)
			if i == len(targets)/2 {
				fanouts[1].kill()
				time.Sleep(time.Minute)
				want("after a fanout was killed", user)
			}
			if _, err := policies.Do(g.ctx, subjects.PolicyForget, user, subjects.PolicyRequest{}); err != nil {
				t.Fatalf("forget %s: %v", user, err)
			}
		}
	})
}

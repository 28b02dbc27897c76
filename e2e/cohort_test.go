package e2e_test

import (
	"context"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall/cohort"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/subjects/identity"
)

// A worker with a credential of its role and nothing more joins, works, coordinates, outlives
// another one, and leaves; an operator orders. Nobody is refused anything.
func TestWorkersWithCredentials(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		g := newGuarded(t)
		join := func(id string) (*guest, *cohort.Member) {
			p := g.connect(identity.Worker, id)
			ctx, cancel := context.WithCancel(g.ctx)
			m, err := cohort.Join(ctx, p.nc, cohort.Config{Group: "mail.send", ID: id, Partitions: 4})
			if err != nil {
				t.Fatal(err)
			}
			p.stop, p.done = cancel, make(chan error, 1)
			go func() {
				for a := range m.Assignments() {
					for _, p := range a.Partitions {
						if err := m.Commit(ctx, p.Number, p.Offset+1); err != nil {
							t.Errorf("%s: %v", id, err)
						}
					}
					for _, n := range a.Asked {
						m.Release(n)
					}
				}
				p.done <- m.Err()
			}()
			t.Cleanup(p.kill)
			return p, m
		}
		first, _ := join("worker 1")
		time.Sleep(time.Second)
		_, second := join("worker 2")
		time.Sleep(time.Second)
		first.kill() // the coordinator

		operator := g.connect(identity.Operator, "o")
		group, err := cohort.Open(g.ctx, operator.nc, "", "", "mail.send")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(11 * time.Second)
		view, err := group.View(g.ctx)
		if err != nil || len(view.Members) != 1 || view.Members[0].Partitions != 4 || view.Coordinator != "worker 2" {
			t.Errorf("%+v, %v", view, err)
		}
		if err := group.Drain(g.ctx, "worker 1"); err != nil {
			t.Error(err)
		}
		if err := second.Leave(g.ctx); err != nil {
			t.Error(err)
		}
	})
}

package e2e_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall/e2e"
	"github.com/rollcall-io/rollcall/fanout"
	"github.com/rollcall-io/rollcall/subjects"
)

// TestRandomHistoriesOfGroups is TestRandomHistories with keepers and fanouts that share the shards:
// they join, drain, crash, freeze and come back, and the store may lose the records of a group.
func TestRandomHistoriesOfGroups(t *testing.T) {
	last := *firstSeed + uint64(*histories)
	if testing.Short() {
		last = *firstSeed + 1 // under the race detector each takes half a minute
	}
	for seed := *firstSeed; seed < last; seed++ {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			shared(t, e2e.Options{Shards: 3}, func(t *testing.T, c *crew) {
				h := &groupHistory{history: newHistory(t, c.stage, seed), crew: c, away: make(map[*e2e.Process]bool)}
				for range 80 {
					h.stage.At(h.stage.Now() + time.Duration(1+h.random.IntN(15_000))*time.Millisecond)
					if h.random.IntN(4) > 0 {
						h.step()
					} else {
						h.staff()
					}
				}
				h.heal()
				c.start("last")
				c.fanouts["last"] = c.JoinFanout(fanout.Config{Member: "last"})
				// The hello of an edge that restarts can be lost with the log's tail; then the lease tells, after a gap
				// a renewal later.
				c.At(c.Now() + takeover + c.Params.Bounds().EdgeCrash.Latest + c.Params.LongestRenewal())
				h.check()
				h.checkOwners()
			})
		})
	}
}

// A groupHistory is a history in which the keepers are a group.
type groupHistory struct {
	*history
	crew *crew
	away map[*e2e.Process]bool // whose link is broken
}

// staff changes which keepers are there, or which fanouts.
func (h *groupHistory) staff() {
	id := fmt.Sprint(h.random.IntN(4))
	if h.random.IntN(2) == 0 {
		keepers := h.crew.keepers
		if k := keepers[id]; k == nil {
			h.note("keeper %s comes", id)
			h.crew.start(id)
		} else {
			h.trouble("keeper "+id, k.Process, k.Drain, func() { delete(keepers, id) })
		}
		return
	}
	fanouts := h.crew.fanouts
	if f := fanouts[id]; f != nil {
		h.trouble("fanout "+id, f.Process, f.Drain, func() { delete(fanouts, id) })
	} else if !h.down {
		h.note("fanout %s comes", id)
		fanouts[id] = h.JoinFanout(fanout.Config{Member: id})
	}
}

// trouble has something happen to a process.
func (h *groupHistory) trouble(name string, p *e2e.Process, drain func(context.Context) error, gone func()) {
	switch n := h.random.IntN(5); {
	case n == 0:
		h.note("%s is killed", name)
		p.Kill()
		gone()
	case n == 1 && !h.down && !h.away[p]:
		h.note("%s drains", name)
		p.Leave(drain)
		gone()
	case n == 2:
		h.loseGroup()
	case n == 3:
		p.Link.Cut()
		h.isolated(name+" cut off", p, p.Link.Heal)
	default:
		p.Link.Freeze()
		h.isolated(name+" frozen", p, p.Link.Thaw)
	}
}

func (h *groupHistory) isolated(what string, p *e2e.Process, repair func()) {
	h.away[p] = true
	h.broken(what, false, func() { delete(h.away, p); repair() })
}

// loseGroup has the server lose what is written of the group from now on until the repair.
func (h *groupHistory) loseGroup() {
	if h.down || h.losing {
		return
	}
	group := []string{subjects.KeeperGroup, subjects.FanoutGroup}[h.random.IntN(2)]
	snapshot := h.Server.Snapshot(subjects.KVStream(h.Names.CohortBucket(group)))
	h.losing = true
	h.broken("about to lose records of the group "+group, true, func() {
		h.losing = false
		h.Wait() // a server that stops while it makes a consumer waits for a mutex
		h.Server.Stop()
		h.Server.Restore(snapshot)
		h.Server.Start()
	})
}

// checkOwners fails unless every shard has one owner, who has read its log.
func (h *groupHistory) checkOwners() {
	ready := 0
	for _, k := range h.crew.keepers {
		if k.Ready() {
			ready++
		}
	}
	owners := make(map[string]bool)
	for shard := range h.Names.Shards() {
		owners[h.crew.owner(subjects.KeeperGroup, shard).Member] = true
	}
	for id := range owners {
		if h.crew.keepers[id] == nil {
			h.t.Errorf("a shard belongs to %s, who is gone", id)
		}
	}
	if ready != len(owners) {
		h.t.Errorf("%d keepers are ready, %d own shards", ready, len(owners))
	}
}

package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall/e2e"
	"github.com/rollcall-io/rollcall/subjects"
)

// TestRandomHistoriesOfGroups is TestRandomHistories with keepers that share the shards: they
// join, drain, crash, freeze and come back, and the store may lose the records of their group.
func TestRandomHistoriesOfGroups(t *testing.T) {
	for seed := *firstSeed; seed < *firstSeed+uint64(*histories); seed++ {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			shared(t, e2e.Options{Shards: 3}, func(t *testing.T, c *crew) {
				h := &groupHistory{history: newHistory(t, c.stage, seed), crew: c, away: make(map[string]bool)}
				for range 80 {
					h.stage.At(h.stage.Now() + time.Duration(1+h.random.IntN(15_000))*time.Millisecond)
					if h.random.IntN(4) > 0 {
						h.step()
					} else {
						h.staff()
					}
				}
				h.heal()
				if len(c.keepers) == 0 {
					c.start("last")
				}
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
	away map[string]bool // whose link is broken
}

// staff changes who is there.
func (h *groupHistory) staff() {
	id := fmt.Sprint("k", h.random.IntN(4))
	k := h.crew.keepers[id]
	switch n := h.random.IntN(5); {
	case k == nil:
		h.note("keeper %s comes", id)
		h.crew.start(id)
	case n == 0:
		h.note("keeper %s is killed", id)
		h.crew.kill(id)
	case n == 1 && !h.down && !h.away[id]:
		h.note("keeper %s drains", id)
		k.Leave(k.Drain)
		delete(h.crew.keepers, id)
	case n == 2:
		h.loseGroup()
	case n == 3:
		k.Link.Cut()
		h.isolated(id, "cut off", k.Link.Heal)
	default:
		k.Link.Freeze()
		h.isolated(id, "frozen", k.Link.Thaw)
	}
}

func (h *groupHistory) isolated(id, how string, repair func()) {
	h.away[id] = true
	h.broken("keeper "+id+" "+how, false, func() { delete(h.away, id); repair() })
}

// loseGroup has the server lose what is written of the group from now on until the repair.
func (h *groupHistory) loseGroup() {
	if h.down || h.losing {
		return
	}
	snapshot := h.Server.Snapshot(subjects.KVStream(h.Names.CohortBucket(subjects.KeeperGroup)))
	h.losing = true
	h.broken("about to lose records of the group", true, func() {
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
		owners[h.crew.owner(shard).Member] = true
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

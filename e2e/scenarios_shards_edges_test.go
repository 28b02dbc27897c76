package e2e_test

import (
	"testing"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/e2e"
	"github.com/rollcall-io/rollcall/keeper/machine"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// The edge restarts in 5 s under its id, its devices return within 10, and meanwhile a keeper of
// half of them stays, drains or crashes: nothing is shown, whoever hears the edge's hello.
func TestScenario14EdgeRestartsWhileShardsMove(t *testing.T) {
	for what, meanwhile := range map[string]func(*crew){
		"both stay":  func(*crew) {},
		"one drains": func(c *crew) { c.keepers["a"].Leave(c.keepers["a"].Drain) },
		"one dies":   func(c *crew) { c.kill("a") },
	} {
		t.Run(what, func(t *testing.T) {
			shared(t, e2e.Options{}, func(t *testing.T, c *crew) {
				users := append(c.usersOf("a", "a", 50), c.usersOf("b", "b", 50)...)
				v := c.StartViewer("vera", users...)
				g := c.StartEdge("g1")
				c.connectAll(g, users)
				c.At(100 * second)
				before := len(v.Rows())
				g.Kill()
				c.At(102 * second)
				meanwhile(c)
				c.At(105 * second)
				g = c.StartEdge("g1")
				for _, u := range users {
					c.At(c.Now() + 95*time.Millisecond)
					c.Connect(g, u, "phone")
				}
				c.At(600 * second)
				if rows := v.Rows()[before:]; before != len(users) || len(rows) > 0 {
					t.Errorf("%d publications before the restart, then %v", before, rows)
				}
				var s machine.Stats
				for _, k := range c.keepers {
					s = s.Add(k.Stats())
				}
				if s.Connections != len(users) || s.LeaseExpiries != 0 || s.Mismatches != 0 {
					t.Errorf("%d connections, %d expired leases, %d mismatches; want %d, none, none",
						s.Connections, s.LeaseExpiries, s.Mismatches, len(users))
				}
			})
		})
	}
}

// An edge dies while two keepers clear the connections of another, and one of them is killed
// half-way through: the other finishes both shares, and nobody else is touched.
func TestScenario15KeeperOfTwoKilledWhileClearing(t *testing.T) {
	shared(t, e2e.Options{Shards: 2}, func(t *testing.T, c *crew) {
		const count = 6000 // of the keeper that is killed, in one shard
		many := append(c.usersOf("a", "a", count), c.usersOf("b", "b", 500)...)
		few := names("few", 500)
		watched := []string{many[0], many[count-1], many[count], many[len(many)-1], few[0]}
		v := c.StartViewer("vera", append(watched, "zoe")...)
		g1, g2 := c.StartEdge("g1"), c.StartEdge("g2")
		c.connectAll(g1, many)
		c.connectAll(g2, few)
		c.Connect(c.StartEdge("g3"), "zoe", "phone")
		c.At(100 * second)
		g1.Kill()
		c.At(c.Renewed("g1", many[0]) + c.Params.LeaseTTL - second)
		c.keepers["a"].Link.Delay(10 * time.Millisecond) // so that clearing takes a while
		bucket := c.Names.LeasesBucket(c.shards("a")[0])
		before := c.Written(bucket)
		for c.Written(bucket) < before+count/4 {
			c.At(c.Now() + time.Millisecond)
		}
		if n := c.Written(bucket) - before; n >= count {
			t.Fatalf("%d records are written: too late to be half-way", n)
		}
		g2.Kill()
		c.kill("a")
		c.At(c.Now() + takeover + c.Params.Bounds().EdgeCrash.Latest + 30*second)
		for shard := range c.Names.Shards() {
			for key, record := range c.Bucket(c.Names.ViewsBucket(shard)) {
				view := new(wire.View)
				if kind, user, err := subjects.ParseKey(key); err != nil || kind != subjects.KindView {
					continue
				} else if err := subjects.Decode([]byte(record.Value), view); err != nil {
					t.Error(err)
				} else if online := view.State != wire.State_STATE_OFFLINE; online != (user == "zoe") {
					t.Fatalf("%s is shown as %s", user, view.State)
				}
			}
		}
		if s := c.keepers["b"].Stats(); s.Connections != 1 || s.Online != 1 || s.Leases != 1 {
			t.Errorf("left: %d connections, %d online, %d leases; want zoe's", s.Connections, s.Online, s.Leases)
		}
		for _, u := range watched {
			if rows := v.RowsOf(u); len(rows) != 2 || rows[1].Status != rollcall.StatusOffline {
				t.Errorf("%s: %v, want online and offline", u, rows)
			}
		}
		if rows := v.RowsOf("zoe"); len(rows) != 1 {
			t.Errorf("zoe: %v, want online once", rows)
		}
	})
}

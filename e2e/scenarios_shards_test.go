package e2e_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/e2e"
	"github.com/rollcall-io/rollcall/fanout"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/internal/trace"
	"github.com/rollcall-io/rollcall/ledger/store"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// takeover is the longest that the shards of a keeper that vanished belong to nobody.
const takeover = 12 * second

// A crew is a fabric whose keepers share the shards, and whose fanouts do.
type crew struct {
	*stage
	keepers map[string]*e2e.Keeper
	fanouts map[string]*e2e.Fanout
}

// shared plays a scenario with keepers a and b, and fanouts a and b, which have settled when it begins.
func shared(t *testing.T, o e2e.Options, play func(t *testing.T, c *crew)) {
	t.Helper()
	lab.Bubble(t, func(t *testing.T) {
		c := &crew{&stage{Fabric: e2e.New(t, o)}, make(map[string]*e2e.Keeper), make(map[string]*e2e.Fanout)}
		for _, id := range []string{"a", "b"} {
			c.start(id)
			c.fanouts[id] = c.StartFanoutWith(fanout.Config{Member: id})
		}
		c.At(10 * second)
		play(t, c)
	})
}

func (c *crew) start(id string) *e2e.Keeper {
	c.keepers[id] = c.StartKeeperAs(id)
	return c.keepers[id]
}

// kill ends a keeper; its shards are missed later.
func (c *crew) kill(id string) {
	c.keepers[id].Kill()
	delete(c.keepers, id)
}

// owner is who of a group has taken a shard over last.
func (c *crew) owner(group string, shard int) *wire.OwnerRecord {
	c.T.Helper()
	kv, err := c.JS.KeyValue(c.T.Context(), c.Names.CohortBucket(group))
	if err != nil {
		c.T.Fatal(err)
	}
	stored, err := kv.Get(c.T.Context(), subjects.KeyShard(shard))
	if err != nil {
		c.T.Fatal(err)
	}
	record := new(wire.OwnerRecord)
	if err := subjects.Decode(stored.Value(), record); err != nil {
		c.T.Fatal(err)
	}
	return record
}

// shards are those that a keeper has taken over last.
func (c *crew) shards(id string) []int { return c.shardsIn(subjects.KeeperGroup, id) }

func (c *crew) shardsIn(group, id string) (shards []int) {
	for shard := range c.Names.Shards() {
		if c.owner(group, shard).Member == id {
			shards = append(shards, shard)
		}
	}
	return shards
}

// usersOf are some users of a keeper's shards.
func (c *crew) usersOf(id string, prefix string, count int) (users []string) {
	mine := c.shards(id)
	for i := 0; len(users) < count; i++ {
		if user := fmt.Sprint(prefix, i); slices.Contains(mine, c.Names.Shard(user)) {
			users = append(users, user)
		}
	}
	return users
}

// An edge dies; then a keeper comes, one drains and one crashes, before the lease has run out.
// The bounds hold for everybody to the sweep, or the takeover where a crash is in between, and
// nobody else is shown anything.
func TestScenario13EdgeKilledWhileShardsMove(t *testing.T) {
	shared(t, e2e.Options{}, func(t *testing.T, c *crew) {
		lost, others := names("lost", 40), names("other", 40)
		v := c.StartAudience(30*second, append(lost, others...)...)
		g1 := c.StartEdge("g1")
		c.connectAll(g1, lost)
		c.connectAll(c.StartEdge("g2"), others)
		c.At(300 * second)
		renewed := make(map[string]time.Duration)
		for _, u := range lost {
			renewed[u] = c.Renewed("g1", u)
		}
		g1.Kill()
		c.At(340 * second)
		c.start("c")
		c.At(380 * second)
		c.keepers["a"].Leave(c.keepers["a"].Drain)
		c.At(400 * second)
		c.start("d")
		c.At(410 * second)
		c.kill("b")
		c.At(300*second + c.Params.Bounds().EdgeCrash.Latest + takeover)
		for _, u := range lost {
			rows := v.RowsOf(u)
			if len(rows) != 2 || rows[1].Status != rollcall.StatusOffline {
				t.Fatalf("%s: %v, want online and offline", u, rows)
			}
			earliest := renewed[u] + c.Params.LeaseTTL + c.Params.Debounce
			if at := rows[1].At; at < earliest || at > earliest+c.Params.Sweep+takeover {
				t.Errorf("%s: offline at %s, want %s or a sweep and a takeover later", u, at, earliest)
			}
		}
		c.At(1000 * second)
		for _, u := range others {
			if rows := v.RowsOf(u); len(rows) != 1 {
				t.Errorf("%s: %v, want online once", u, rows)
			}
		}
		if got := len(c.shards("c")) + len(c.shards("d")); got != c.Names.Shards() {
			t.Errorf("%d shards belong to who is left", got)
		}
	})
}

// A keeper is drained: who leaves at that moment goes offline on the second, who comes is shown
// within a second, nobody else is shown anything.
func TestDrainedKeeper(t *testing.T) {
	shared(t, e2e.Options{Shards: 8}, func(t *testing.T, c *crew) {
		stays, leaves, comes := c.usersOf("a", "stays", 20), c.usersOf("a", "leaves", 10), c.usersOf("a", "comes", 10)
		v := c.StartAudience(30*second, slices.Concat(stays, leaves, comes)...)
		g := c.StartEdge("g1")
		c.connectAll(g, stays)
		leavers := c.connectAll(g, leaves)
		c.At(100 * second)
		go func() { // amid the draining
			for i, d := range leavers {
				d.Close()
				c.Connect(g, comes[i], "phone")
				time.Sleep(20 * time.Millisecond)
			}
		}()
		c.keepers["a"].Leave(c.keepers["a"].Drain)
		took := c.Now() - 100*second
		c.At(400 * second)
		if t.Logf("drained in %s", took); took > second {
			t.Errorf("drained in %s", took)
		}
		for _, u := range stays {
			if rows := v.RowsOf(u); len(rows) != 1 {
				t.Errorf("%s: %v, want online once", u, rows)
			}
		}
		for i, u := range leaves {
			left := 100*second + time.Duration(i)*20*time.Millisecond
			if rows := v.RowsOf(u); len(rows) != 2 || rows[1].At < left+c.Params.Debounce || rows[1].At > left+c.Params.Debounce+second {
				t.Errorf("%s left at %s: %v", u, left, rows)
			}
			if rows := v.RowsOf(comes[i]); len(rows) != 1 || rows[0].At > left+second {
				t.Errorf("%s came at %s: %v", comes[i], left, rows)
			}
		}
	})
}

// One of two keepers vanishes for ten minutes: the other takes over before anybody is unknown.
// Who leaves meanwhile goes offline as if nothing had happened, or a takeover later.
func TestScenario16OneOfTwoKeepersVanishes(t *testing.T) {
	for what, vanish := range map[string]func(*e2e.Keeper){
		"killed":  func(k *e2e.Keeper) { k.Kill() },
		"frozen":  func(k *e2e.Keeper) { k.Link.Freeze() },
		"cut off": func(k *e2e.Keeper) { k.Link.Cut() },
	} {
		t.Run(what, func(t *testing.T) {
			shared(t, e2e.Options{}, func(t *testing.T, c *crew) {
				stays, closes := c.usersOf("a", "stays", 20), c.usersOf("a", "closes", 1)
				v := c.StartAudience(30*second, append(stays, closes...)...)
				g := c.StartEdge("g1")
				c.connectAll(g, stays)
				leaver := c.Connect(g, closes[0], "phone")
				c.At(300 * second)
				vanish(c.keepers["a"])
				c.At(301 * second)
				leaver.Close()
				c.At(900 * second)
				for _, u := range stays {
					if rows := v.RowsOf(u); len(rows) != 1 {
						t.Errorf("%s: %v, want online once", u, rows)
					}
				}
				rows := v.RowsOf(closes[0])
				wantStatuses(t, rows, "online offline")
				if at := rows[len(rows)-1].At - 301*second - c.Params.Debounce; at < 0 || at > takeover {
					t.Errorf("offline %s after the debounce", at)
				}
			})
		})
	}
}

// The server is away for ten minutes: no shard moves, and nobody goes offline.
func TestScenario17NoShardMovesWhileTheServerIsAway(t *testing.T) {
	shared(t, e2e.Options{}, func(t *testing.T, c *crew) {
		users := names("u", 30)
		v := c.StartViewer("vera", users...)
		c.connectAll(c.StartEdge("g1"), users)
		c.At(300 * second)
		before := c.shards("a")
		c.Server.Stop()
		c.At(900 * second)
		c.Server.Start()
		c.At(1500 * second)
		for _, u := range users {
			wantStatuses(t, v.RowsOf(u), "online unknown online")
		}
		if after := c.shards("a"); !slices.Equal(before, after) {
			t.Errorf("a has %v, had %v", after, before)
		}
	})
}

// The store loses its last 30 s, of which shards moved: the state is right again, and every
// shard has one owner.
func TestScenario18TheLostTailHeldATakeover(t *testing.T) {
	shared(t, e2e.Options{Shards: 2}, func(t *testing.T, c *crew) {
		stay, come, leave := names("stays", 20), names("comes", 10), names("leaves", 10)
		v := c.StartViewer("vera", slices.Concat(stay, come, leave)...)
		g := c.StartEdge("g1")
		c.connectAll(g, stay)
		leavers := c.connectAll(g, leave)
		c.At(200 * second)
		snapshots := []*lab.Snapshot{c.Server.Snapshot(subjects.KVStream(c.Names.CohortBucket(subjects.KeeperGroup)))}
		for shard := range c.Names.Shards() {
			for _, stream := range []string{
				c.Names.LogStream(shard), subjects.KVStream(c.Names.LeasesBucket(shard)), subjects.KVStream(c.Names.ViewsBucket(shard)),
			} {
				snapshots = append(snapshots, c.Server.Snapshot(stream))
			}
		}
		c.At(203 * second)
		c.keepers["a"].Leave(c.keepers["a"].Drain) // acknowledged, and lost
		c.connectAll(g, come)
		for _, d := range leavers {
			d.Close()
		}
		c.At(230 * second)
		c.Server.Stop()
		for _, s := range snapshots {
			c.Server.Restore(s)
		}
		c.Server.Start()
		c.At(230*second + takeover + c.Params.LongestRenewal() + c.Params.Debounce + 20*second)
		c.wantTruth(v, "online active", append(stay, come...)...)
		c.wantTruth(v, "offline ", leave...)
		for _, r := range v.Rows() {
			if r.Status == rollcall.StatusOffline && !strings.HasPrefix(r.User, "leaves") {
				t.Errorf("%s was shown offline at %s", r.User, r.At)
			}
		}
		if got := c.shards("b"); len(got) != 2 {
			t.Errorf("b has %v", got)
		}
	})
}

// An owner is frozen with writes on the way, and wakes when another has its shards: nothing that it
// writes counts. It joins again, and is given its share under higher generations.
func TestScenario19StaleMemberWakes(t *testing.T) {
	shared(t, e2e.Options{Shards: 2}, func(t *testing.T, c *crew) {
		users := c.usersOf("a", "u", 3)
		ann, bob, carol := users[0], users[1], users[2]
		v := c.StartViewer("vera", users...)
		g := c.StartEdge("g1")
		anns, bobs := c.Connect(g, ann, "phone"), c.Connect(g, bob, "phone")
		stale := c.keepers["a"]
		c.At(98 * second)
		stale.Link.Delay(second)
		c.At(100 * second)
		anns.Close()
		carols := c.Connect(g, carol, "phone")
		c.At(101*second + 500*time.Millisecond)
		stale.Link.Freeze()
		c.At(115 * second)
		if got := c.shards("b"); len(got) != 2 {
			t.Fatalf("b has %v", got)
		}
		carols.Close()
		bobs.Close()
		c.At(150 * second)
		owned := func(key string, _ e2e.Record) bool { return strings.HasSuffix(key, "/"+subjects.KeyOwner) }
		rows, before := len(v.Rows()), c.usersAndViews()
		stale.Link.Delay(0)
		stale.Link.Thaw()
		c.At(175 * second)
		after := c.usersAndViews()
		maps.DeleteFunc(before, owned)
		maps.DeleteFunc(after, owned)
		if !maps.Equal(before, after) {
			t.Errorf("the stale keeper has written: %v, was %v", after, before)
		}
		if got := v.Rows()[rows:]; len(got) > 0 {
			t.Errorf("shown after the stale keeper woke: %v", got)
		}
		for _, u := range users {
			c.Connect(g, u, "phone")
		}
		c.At(176 * second)
		c.wantTruth(v, "online active", users...)
		if a, b := c.shards("a"), c.shards("b"); len(a) != 1 || len(b) != 1 {
			t.Errorf("a has %v, b has %v", a, b)
		}
	})
}

// A fanout is frozen with an interest on the way, and wakes when another has its shards: nothing that
// it writes counts, versions only grow, and all is shown as it is.
func TestScenario19StaleFanoutWakes(t *testing.T) {
	shared(t, e2e.Options{Shards: 2}, func(t *testing.T, c *crew) {
		users := names("u", 20)
		v := c.StartViewer("vera", users...)
		g := c.StartEdge("g1")
		devices := c.connectAll(g, users)
		stale := c.fanouts["a"]
		c.At(98 * second)
		stale.Link.Delay(second)
		c.At(100 * second)
		go c.StartViewer("otto", users...)
		devices[0].Close()
		c.At(101*second + 500*time.Millisecond)
		stale.Link.Freeze()
		c.At(116 * second)
		if got := c.shardsIn(subjects.FanoutGroup, "b"); len(got) != 2 {
			t.Fatalf("b has %v", got)
		}
		devices[1].Close()
		c.At(150 * second)
		c.wantTruth(v, "offline ", users[:2]...)
		rows, before := len(v.Rows()), c.interests()
		stale.Link.Delay(0)
		stale.Link.Thaw()
		c.At(152 * second)
		if after := c.interests(); !maps.Equal(before, after) {
			t.Errorf("interests are %v, were %v", after, before)
		}
		c.At(175 * second)
		devices[2].Close()
		c.At(200 * second)
		c.wantTruth(v, "offline ", users[:3]...)
		c.wantTruth(v, "online active", users[3:]...)
		for _, r := range v.Rows()[rows:] {
			if r.User != users[2] {
				t.Errorf("shown after the stale fanout woke: %v", r)
			}
		}
		for _, u := range users {
			if !slices.IsSortedFunc(v.RowsOf(u), func(a, b trace.Row) int { return cmp.Compare(a.Version, b.Version) }) {
				t.Errorf("versions went back: %v", v.RowsOf(u))
			}
		}
		if a, b := c.shardsIn(subjects.FanoutGroup, "a"), c.shardsIn(subjects.FanoutGroup, "b"); len(a) != 1 || len(b) != 1 {
			t.Errorf("a has %v, b has %v", a, b)
		}
	})
}

// interests are what is stored of them, without who may write.
func (c *crew) interests() map[string]string {
	all := make(map[string]string)
	for shard := range c.Names.Shards() {
		for key, record := range c.Bucket(c.Names.InterestBucket(shard)) {
			if key != subjects.KeyOwner {
				all[fmt.Sprint(shard, " ", key)] = record.Value
			}
		}
	}
	return all
}

// A pausing store stands for a process that is paused before a transaction.
type pausing struct {
	store.Store

	mu      sync.Mutex
	paused  chan struct{} // closed when it goes on; nil while it runs
	results []error       // of transactions that were paused
}

func (p *pausing) pause() (goOn func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paused = make(chan struct{})
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		close(p.paused)
		p.paused = nil
	}
}

func (p *pausing) Apply(ctx context.Context, b store.Batch) (store.Applied, error) {
	p.mu.Lock()
	paused := p.paused
	p.mu.Unlock()
	if paused == nil {
		return p.Store.Apply(ctx, b)
	}
	<-paused
	done, err := p.Store.Apply(ctx, b)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.results = append(p.results, err)
	return done, err
}

// A ledger is paused before its transactions, and wakes when another has its shards: nothing of them
// is stored, and the books are those of the streams.
func TestScenario19StaleLedgerWakes(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		f := e2e.New(t, e2e.Options{Shards: 2})
		f.StartKeeper()
		s := openLedger(t)
		slow := &pausing{Store: s}
		member := func(id string, s store.Store) *e2e.Ledger {
			c := liveConfig
			c.Member = id
			return f.StartLedger(&e2e.Database{Store: s}, c)
		}
		stale, heir := member("a", slow), member("b", s)
		go func() {
			time.Sleep(8 * time.Minute)
			if a, b := len(stale.Stats(t.Context()).Shards), len(heir.Stats(t.Context()).Shards); a != 1 || b != 1 {
				t.Errorf("a follows %d shards, b %d", a, b)
			}
			goOn := slow.pause()
			time.Sleep(11 * time.Second) // a tick was read, and is being stored
			stale.Link.Freeze()
			time.Sleep(3 * time.Minute)
			if n := len(heir.Stats(t.Context()).Shards); n != 2 {
				t.Errorf("b follows %d shards", n)
			}
			stale.Link.Thaw()
			goOn()
			time.Sleep(3 * time.Minute)
			stale.Leave(stale.Drain)
			time.Sleep(10 * time.Second) // it tells of what it has read since
			if n := len(heir.Stats(t.Context()).Shards); n != 2 {
				t.Errorf("b follows %d shards when a has drained", n)
			}
		}()
		cutEdge(f)
		settle(f)
		kept := stored(t, s, "1")
		rebuild(t, f, onlineTime).mustEqual(kept)
		mustAddUp(t, s, "1", liveConfig.Zones...)
		if checkCutEdge(kept); len(slow.results) == 0 {
			t.Error("no transaction was paused")
		}
		for _, err := range slow.results {
			if !errors.Is(err, store.ErrOvertaken) {
				t.Errorf("what was paused ended with %v", err)
			}
		}
	})
}

// From one keeper of all shards to two and back: who is left over ends, nobody is shown anything.
func TestFromOneKeeperToTwoAndBack(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		f := e2e.New(t, e2e.Options{})
		alone := f.StartKeeper()
		f.StartFanout()
		users := names("u", 40)
		v := f.StartAudience(30*second, users...)
		g := f.StartEdge("g1")
		for _, u := range users {
			f.Connect(g, u, "phone")
		}
		f.At(100 * second)
		a, b := f.StartKeeperAs("a"), f.StartKeeperAs("b")
		if err := alone.Ended(); !errors.Is(err, rollcall.ErrNotOwner) || !strings.Contains(err.Error(), "shares the shards") {
			t.Errorf("left over alone: %v", err)
		}
		f.At(300 * second)
		if !a.Ready() || !b.Ready() {
			t.Error("two are not ready")
		}
		again := f.StartKeeper()
		for _, k := range []*e2e.Keeper{a, b} {
			if err := k.Ended(); !errors.Is(err, rollcall.ErrNotOwner) || !strings.Contains(err.Error(), "owns all shards alone") {
				t.Errorf("left over of two: %v", err)
			}
		}
		f.At(600 * second)
		if !again.Ready() {
			t.Error("the last is not ready")
		}
		for _, u := range users {
			if rows := v.RowsOf(u); len(rows) != 1 {
				t.Errorf("%s: %v, want online once", u, rows)
			}
		}
	})
}

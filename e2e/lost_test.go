package e2e_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/e2e"
	"github.com/rollcall-io/rollcall/fanout"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/ledger/live"
	"github.com/rollcall-io/rollcall/ledger/store"
	"github.com/rollcall-io/rollcall/subjects"
)

// losable are the kinds of streams that can lose their tail, by name.
func (c *crew) losable() map[string][]string {
	kinds := map[string][]string{
		"keepers": {subjects.KVStream(c.Names.CohortBucket(subjects.KeeperGroup))},
		"fanouts": {subjects.KVStream(c.Names.CohortBucket(subjects.FanoutGroup))},
		"ledgers": {subjects.KVStream(c.Names.CohortBucket(subjects.LedgerGroup))},
	}
	for shard := range c.Names.Shards() {
		for kind, stream := range map[string]string{
			"log": c.Names.LogStream(shard), "beats": c.Names.BeatsStream(shard), "leases": subjects.KVStream(c.Names.LeasesBucket(shard)),
			"views": subjects.KVStream(c.Names.ViewsBucket(shard)), "interests": subjects.KVStream(c.Names.InterestBucket(shard)),
		} {
			kinds[kind] = append(kinds[kind], stream)
		}
	}
	return kinds
}

var lossKinds = []string{"log", "beats", "leases", "views", "interests", "keepers", "fanouts", "ledgers"}

// TestStoreLosesItsLastSeconds lets devices come, go and fall silent, while the server stops again
// and again and comes back without the last that it had acknowledged: each kind of stream by itself
// and all together, older by some seconds or cut off in the middle of a record. Some processes live
// through it, some start on what is left. In the end every viewer is shown the truth, the ledgers
// count who is online, versions have only grown, and nobody was shown offline who had been there for
// longer than it may take to repair.
func TestStoreLosesItsLastSeconds(t *testing.T) {
	last := *firstSeed + 4
	switch {
	case *histories > 8:
		last = *firstSeed + uint64(*histories)
	case testing.Short():
		last = *firstSeed + 1
	}
	for seed := *firstSeed; seed < last; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			shared(t, e2e.Options{Shards: 2}, func(t *testing.T, c *crew) {
				h := newLossHistory(t, c, seed)
				for i := range 3 {
					h.lose(lossKinds[(int(seed)*2+i)%len(lossKinds)])
				}
				h.lose(lossKinds...)
				h.settle()
				h.check()
				h.checkPresence()
				h.checkLedgers()
			})
		})
	}
}

// A lossHistory is a history in which nothing fails but the store's memory.
type lossHistory struct {
	*history
	crew    *crew
	ledgers map[string]*e2e.Ledger
	books   *store.SQL
	// Since when, and until when, each user had a device that spoke on an edge that lived.
	presence map[string][]spell
	cuts     []time.Duration
}

type spell struct{ from, to time.Duration }

const still = time.Duration(1<<63 - 1)

func newLossHistory(t *testing.T, c *crew, seed uint64) *lossHistory {
	h := &lossHistory{
		history: newHistory(t, c.stage, seed), crew: c, ledgers: make(map[string]*e2e.Ledger), books: openLedger(t),
		presence: make(map[string][]spell),
	}
	for _, id := range []string{"a", "b"} {
		h.startLedger(id)
	}
	for range 20 {
		h.wander(10 * second)
	}
	return h
}

func (h *lossHistory) startLedger(id string) {
	cfg := live.Config{Definition: onlineTime, Member: id}
	h.ledgers[id] = h.StartLedger(&e2e.Database{Store: h.books}, cfg)
}

// wander lets up to that much time pass, and something happen.
func (h *lossHistory) wander(most time.Duration) {
	h.At(h.Now() + time.Duration(1+h.random.Int64N(int64(most))))
	h.visit()
	h.observe()
}

// observe notes who is there from now on, or not any more.
func (h *lossHistory) observe() {
	for _, u := range h.users {
		here := slices.Contains(h.steady, u)
		for ep, d := range h.devices {
			here = here || ep.User == u && d.speaking
		}
		spells := h.presence[u]
		was := len(spells) > 0 && spells[len(spells)-1].to == still
		switch {
		case here && !was:
			h.presence[u] = append(spells, spell{h.Now(), still})
		case !here && was:
			spells[len(spells)-1].to = h.Now()
		}
	}
}

// lose has the server lose what was written last of these kinds, and somebody restart.
func (h *lossHistory) lose(kinds ...string) {
	var streams []string
	for _, kind := range kinds {
		streams = append(streams, h.crew.losable()[kind]...)
	}
	restore := h.cut(streams)
	if h.random.IntN(2) == 0 {
		restore = h.older(streams)
	}
	back := h.restarts()
	h.note("%v", kinds)
	h.Wait() // a server that stops while it makes a consumer waits for a mutex
	h.Server.Stop()
	restore()
	h.At(h.Now() + []time.Duration{0, second, 5 * second, 30 * second}[h.random.IntN(4)])
	h.Server.Start()
	for _, start := range back {
		start()
	}
	for until := h.Now() + time.Duration(30+h.random.IntN(150))*second; h.Now() < until; {
		h.wander(10 * second)
	}
}

// older remembers how the streams are, and lets things happen that will be forgotten.
func (h *lossHistory) older(streams []string) (restore func()) {
	var snapshots []*lab.Snapshot
	for _, stream := range streams {
		snapshots = append(snapshots, h.Server.Snapshot(stream))
	}
	for until := h.Now() + time.Duration(1+h.random.IntN(30))*second; h.Now() < until; {
		h.wander(5 * second)
	}
	h.note("streams will be as they were")
	return func() {
		for _, s := range snapshots {
			h.Server.Restore(s)
		}
	}
}

// cut takes some bytes off the ends of the streams. Of a bucket that may be what was written minutes
// ago.
func (h *lossHistory) cut(streams []string) (restore func()) {
	return func() {
		h.cuts = append(h.cuts, h.Now())
		for _, stream := range streams {
			h.note("%s loses %d bytes", stream, h.Server.CutTail(stream, 1+h.random.Int64N(2000), h.random.IntN(2) == 0))
		}
	}
}

// restarts kills some processes, and returns how to start them again.
func (h *lossHistory) restarts() (back []func()) {
	for _, id := range []string{"a", "b"} {
		if h.random.IntN(3) == 0 {
			h.note("keeper %s restarts", id)
			h.crew.kill(id)
			back = append(back, func() { h.crew.start(id) })
		}
		if h.random.IntN(3) == 0 {
			h.note("fanout %s restarts", id)
			h.crew.fanouts[id].Kill()
			back = append(back, func() { h.crew.fanouts[id] = h.JoinFanout(fanout.Config{Member: id}) })
		}
		if h.random.IntN(3) == 0 {
			h.note("ledger %s restarts", id)
			h.ledgers[id].Kill()
			back = append(back, func() { h.startLedger(id) })
		}
	}
	if i := h.random.IntN(2 * len(h.edges)); i < len(h.edges) {
		h.killEdge(i)
		h.observe()
		back = append(back, h.faults[0].repair)
		h.faults = nil
	}
	return back
}

// settle waits until all that was lost must have been noticed and repaired.
func (h *lossHistory) settle() {
	h.At(h.Now() + takeover + h.Params.Bounds().EdgeCrash.Latest + h.Params.LongestRenewal())
}

// checkPresence fails if somebody was shown offline who had been there for so long that what was
// lost of it had been repaired. After a cut, nothing need be right before the repair.
func (h *lossHistory) checkPresence() {
	repair := h.Params.LongestRenewal() + h.Params.Debounce + h.Params.Outage
	for i, v := range h.viewers {
		for _, r := range v.Rows() {
			within := func(cut time.Duration) bool { return cut <= r.At && r.At <= cut+repair }
			if r.Status != rollcall.StatusOffline || slices.ContainsFunc(h.cuts, within) {
				continue
			}
			for _, s := range h.presence[r.User] {
				if s.from <= r.At-repair && r.At <= s.to {
					h.t.Errorf("vera%d was shown %s offline at %s, who was there since %s", i, r.User, r.At, s.from)
				}
			}
		}
	}
}

// checkLedgers fails unless the ledgers count whoever is connected as online.
func (h *lossHistory) checkLedgers() {
	want := 0
	for _, u := range h.users {
		if spells := h.presence[u]; len(spells) > 0 && spells[len(spells)-1].to == still {
			want++
		}
	}
	got := 0
	for _, l := range h.ledgers {
		got += l.Stats(h.t.Context()).Online
	}
	if got != want {
		h.t.Errorf("the ledgers count %d online, %d are", got, want)
	}
}

package e2e_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/e2e"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/subjects"
)

var (
	histories = flag.Int("histories", 8, "how many random histories to play")
	firstSeed = flag.Uint64("history", 1, "the seed of the first of them")
)

// TestRandomHistories lets devices come, go and fall silent on edges that die, behind
// links that fail, while keepers, fanouts and the server come and go. When all is
// healed and the time to notice is over, every viewer must be shown the truth. Nobody
// is ever offline who has a speaking device on the one edge without faults, and
// versions only grow.
func TestRandomHistories(t *testing.T) {
	for seed := *firstSeed; seed < *firstSeed+uint64(*histories); seed++ {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			scenario(t, e2e.Options{Shards: 2}, func(t *testing.T, f *stage) {
				h := newHistory(t, f, seed)
				for range 80 {
					f.At(f.Now() + time.Duration(1+h.random.IntN(15_000))*time.Millisecond)
					h.step()
				}
				h.heal()
				bounds := f.Params.Bounds()
				f.At(f.Now() + max(bounds.HalfOpen.Latest, f.Params.LongestRenewal()+f.Params.Debounce+f.Params.Outage) + 5*second)
				h.check()
			})
		})
	}
}

// A history is a fabric with what a test knows of it.
type history struct {
	*stage
	t       *testing.T
	random  *rand.Rand
	steady  []string // users with a device on the edge without faults
	users   []string // all
	edges   []*e2e.Edge
	viewers []*e2e.Viewer
	devices map[rollcall.Endpoint]*visitor
	faults  []fault
	down    bool // the server is
	losing  bool // what is written now will be lost
}

// A visitor is a device and where it is.
type visitor struct {
	*e2e.Device
	edge     int
	speaking bool
}

// A fault is something broken and how to repair it.
type fault struct {
	name   string
	repair func()
	online bool // the repair needs the server
}

func newHistory(t *testing.T, f *stage, seed uint64) *history {
	h := &history{
		stage: f, t: t, random: rand.New(rand.NewPCG(seed, 0)), steady: names("steady", 4),
		devices: make(map[rollcall.Endpoint]*visitor),
	}
	h.users = append(names("u", 12), h.steady...)
	for i := range 3 {
		h.edges = append(h.edges, f.StartEdge(fmt.Sprintf("g%d", i)))
	}
	f.connectAll(f.StartEdge("steady"), h.steady)
	for i := range 2 {
		h.viewers = append(h.viewers, f.StartViewer(fmt.Sprintf("vera%d", i), h.users...))
	}
	return h
}

func (h *history) note(format string, args ...any) {
	h.t.Logf("%s: %s", h.Now(), fmt.Sprintf(format, args...))
}

func (h *history) step() {
	switch n := h.random.IntN(10); {
	case n < 6:
		h.visit()
	case n < 8 && len(h.faults) < 3:
		h.break1()
	default:
		h.repair()
	}
}

// visit lets a device come, move, leave or fall silent.
func (h *history) visit() {
	ep := rollcall.Endpoint{User: h.users[h.random.IntN(len(h.users))], Device: []string{"tablet", "laptop"}[h.random.IntN(2)]}
	d := h.devices[ep]
	switch n := h.random.IntN(6); {
	case d != nil && n == 0:
		h.note("%v falls silent", ep)
		d.Silence()
		d.speaking = false
	case d != nil && n <= 2:
		h.note("%v leaves g%d", ep, d.edge)
		d.Close()
		delete(h.devices, ep)
	default:
		i := h.random.IntN(len(h.edges))
		if h.edges[i] == nil {
			return
		}
		if d != nil {
			d.Silence()
		}
		h.note("%v comes to g%d", ep, i)
		h.devices[ep] = &visitor{h.Connect(h.edges[i], ep.User, ep.Device), i, true}
	}
}

// break1 breaks something.
func (h *history) break1() {
	switch n := h.random.IntN(9); {
	case n == 8 && !h.down && !h.losing:
		h.lose()
	case n == 0 && !h.down:
		h.down = true
		h.Server.Stop()
		h.broken("server stopped", false, func() { h.Server.Start(); h.down = false })
	case n == 1 && h.keeper != nil:
		h.keeper.Kill()
		h.keeper = nil
		h.broken("keeper killed", true, func() { h.keeper = h.StartKeeper() })
	case n == 2 && h.keeper != nil && !h.down:
		old := h.keeper
		old.Link.Freeze()
		h.keeper = h.StartKeeper()
		h.broken("keeper replaced while frozen", false, old.Link.Thaw)
	case n == 3 && h.fanout != nil:
		h.fanout.Kill()
		h.fanout = nil
		h.broken("fanout killed", true, func() { h.fanout = h.StartFanout() })
	case n == 4:
		h.killEdge(h.random.IntN(len(h.edges)))
	default:
		name, p := h.anyone()
		if p == nil {
			return
		}
		if h.random.IntN(2) == 0 {
			p.Link.Freeze()
			h.broken(name+" frozen", false, p.Link.Thaw)
		} else {
			p.Link.Cut()
			h.broken(name+" cut off", false, p.Link.Heal)
		}
	}
}

// lose has the server lose what is written to some streams from now on until the
// repair.
func (h *history) lose() {
	var streams []string
	for shard := range h.Names.Shards() {
		for _, stream := range []string{
			h.Names.LogStream(shard), subjects.KVStream(h.Names.LeasesBucket(shard)),
			subjects.KVStream(h.Names.ViewsBucket(shard)), subjects.KVStream(h.Names.InterestBucket(shard)),
		} {
			if h.random.IntN(2) == 0 {
				streams = append(streams, stream)
			}
		}
	}
	var snapshots []*lab.Snapshot
	for _, stream := range streams {
		snapshots = append(snapshots, h.Server.Snapshot(stream))
	}
	h.losing = true
	h.broken(fmt.Sprintf("about to lose writes to %v", streams), true, func() {
		h.losing = false
		h.Wait() // a server that stops while it makes a consumer waits for a mutex
		h.Server.Stop()
		for _, s := range snapshots {
			h.Server.Restore(s)
		}
		h.Server.Start()
	})
}

func (h *history) killEdge(i int) {
	if h.edges[i] == nil {
		return
	}
	h.edges[i].Kill()
	h.edges[i] = nil
	for ep, d := range h.devices {
		if d.edge == i {
			d.Silence()
			delete(h.devices, ep)
		}
	}
	h.broken(fmt.Sprintf("g%d killed", i), true, func() { h.edges[i] = h.StartEdge(fmt.Sprintf("g%d", i)) })
}

// anyone is a process with a link that may fail.
func (h *history) anyone() (string, *e2e.Process) {
	switch n := h.random.IntN(7); {
	case n < 3:
		if e := h.edges[n]; e != nil {
			return fmt.Sprintf("g%d", n), e.Process
		}
	case n < 5:
		return fmt.Sprintf("vera%d", n-3), h.viewers[n-3].Process
	case n == 5 && h.keeper != nil:
		return "keeper", h.keeper.Process
	case n == 6 && h.fanout != nil:
		return "fanout", h.fanout.Process
	}
	return "", nil
}

func (h *history) broken(name string, online bool, repair func()) {
	h.note("%s", name)
	h.faults = append(h.faults, fault{name, repair, online})
}

// repair mends one fault.
func (h *history) repair() {
	if len(h.faults) == 0 {
		return
	}
	i := h.random.IntN(len(h.faults))
	f := h.faults[i]
	if f.online && h.down {
		return
	}
	h.note("no longer: %s", f.name)
	h.faults = append(h.faults[:i:i], h.faults[i+1:]...)
	f.repair()
}

func (h *history) heal() {
	for len(h.faults) > 0 {
		h.repair()
	}
	h.note("all is healed")
}

func (h *history) check() {
	online := make(map[string]bool)
	for _, u := range h.steady {
		online[u] = true
	}
	for ep, d := range h.devices {
		online[ep.User] = online[ep.User] || d.speaking
	}
	for i, v := range h.viewers {
		for _, u := range h.users {
			got := v.Status(u)
			if online[u] != (got == rollcall.StatusOnline) || got == rollcall.StatusUnknown {
				h.t.Errorf("vera%d is shown %s as %q, online is %v: %v", i, u, got, online[u], v.RowsOf(u))
			}
			last := uint64(0)
			for _, r := range v.RowsOf(u) {
				if r.Version < last {
					h.t.Errorf("vera%d: the version of %s went back from %d to %d", i, u, last, r.Version)
				}
				last = r.Version
			}
		}
		for _, u := range h.steady {
			for _, r := range v.RowsOf(u) {
				if r.Status == rollcall.StatusOffline {
					h.t.Errorf("vera%d was shown %s offline at %s", i, u, r.At)
				}
			}
		}
	}
}

package e2e_test

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rollcall-io/rollcall/e2e"
	"github.com/rollcall-io/rollcall/fanout"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/ledger/live"
	"github.com/rollcall-io/rollcall/subjects"
)

// A loss is what the store forgets, and what is counted of it.
type loss struct {
	kinds    []string // of streams
	restarts []string // groups whose member starts anew before, which may be lost as well
	fanout   bool     // starts anew after it, with what is left
	noticed  []string // counters, which do not count anything else
	repaired []string
}

// anew are subscriptions that a fanout did not know of.
const anew = "subscribed anew"

var groups = []string{subjects.KeeperGroup, subjects.FanoutGroup, subjects.LedgerGroup}

var losses = map[string]loss{
	"nothing":                        {restarts: groups},
	"nothing, and a fanout restarts": {fanout: true},
	// The edge tells its roster again, the ledger reads all again. The keeper has nothing to correct, as
	// it remembers what it has read.
	"log": {
		kinds:    []string{"log"},
		noticed:  []string{"rollcall_edge_store_lost_total", "rollcall_keeper_log_lost_total", "rollcall_ledger_rebuilds_total"},
		repaired: []string{"rollcall_edge_resyncs_total", "rollcall_ledger_rebuilds_total"},
	},
	// Nobody has the heartbeats any more. The ledger counts again without them.
	"beats": {kinds: []string{"beats"}, noticed: []string{"rollcall_ledger_rebuilds_total"}, repaired: []string{"rollcall_ledger_rebuilds_total"}},
	// The keeper gives the shard back, and loads it when it has taken it over again.
	"leases": {
		kinds:    []string{"leases"},
		noticed:  []string{"rollcall_keeper_records_lost_total"},
		repaired: []string{"rollcall_cohort_moves_total group=keeper reason=returned", "rollcall_cohort_claims_total group=keeper"},
	},
	// So it does here, and the fanout reads all again, once for each that it counts.
	"views": {
		kinds:    []string{"views"},
		noticed:  []string{"rollcall_keeper_records_lost_total", "rollcall_fanout_views_lost_total"},
		repaired: []string{"rollcall_cohort_moves_total group=keeper reason=returned", "rollcall_cohort_claims_total group=keeper"},
	},
	// They are read by the next fanout only, which cannot know. Viewers tell it, as after any change of
	// fanouts; those that it has no record of are no resyncs.
	"interests": {kinds: []string{"interests"}, fanout: true, repaired: []string{anew}},
	"keepers":   lossOfGroup("keepers", subjects.KeeperGroup),
	"fanouts":   lossOfGroup("fanouts", subjects.FanoutGroup),
	"ledgers":   lossOfGroup("ledgers", subjects.LedgerGroup),
	"all": {
		kinds: lossKinds,
		noticed: []string{"rollcall_edge_store_lost_total", "rollcall_keeper_log_lost_total", "rollcall_keeper_records_lost_total",
			"rollcall_fanout_views_lost_total", "rollcall_keeper_repaired_total", "rollcall_ledger_rebuilds_total"},
		repaired: []string{"rollcall_edge_resyncs_total", "rollcall_keeper_repaired_total", "rollcall_cohort_moves_total group=keeper reason=returned"},
	},
}

// lossOfGroup: a member that has just begun is not known any more, nor that it owns anything. It joins
// again, and is given everything.
func lossOfGroup(kind, group string) loss {
	return loss{
		kinds: []string{kind}, restarts: []string{group},
		noticed:  []string{"rollcall_cohort_unregistered_total group=" + group},
		repaired: []string{"rollcall_cohort_moves_total group=" + group + " reason=restarted", "rollcall_cohort_claims_total group=" + group},
	}
}

// What the store loses, of each kind of stream, is counted by whoever notices it, and so is the
// repair: ten users come and ten leave, which is acknowledged, and lost. Nothing of it is counted
// where nothing is lost.
func TestLossesAreCounted(t *testing.T) {
	var all []string
	for _, l := range losses {
		all = slices.Concat(all, l.noticed, l.repaired)
	}
	for name, l := range losses {
		t.Run(name, func(t *testing.T) {
			before, after := l.play(t, "a")
			l.wantCounted(t, before, after, slices.Concat(l.noticed, l.repaired))
			if len(l.kinds) > 0 {
				return
			}
			for _, counter := range all {
				another := l.fanout && strings.Contains(counter, "group=fanout") // it takes over
				if grown := after[counter] - before[counter]; grown != 0 && !another {
					t.Errorf("%s counts %v though nothing was lost", counter, grown)
				}
			}
		})
	}
	for _, name := range []string{"log", "leases", "views", "all"} {
		t.Run(name+" of processes without groups", func(t *testing.T) {
			l := losses[name]
			l.noticed = slices.DeleteFunc(slices.Clone(l.noticed), func(c string) bool { return strings.Contains(c, "ledger") })
			before, after := l.play(t, "")
			l.wantCounted(t, before, after, l.noticed)
		})
	}
}

// wantCounted fails unless counters have grown, and what only a loss is counted by was 0 before.
func (l loss) wantCounted(t *testing.T, before, after map[string]float64, counters []string) {
	t.Helper()
	for _, counter := range l.noticed {
		if n := before[counter]; n != 0 {
			t.Errorf("%s is %v before anything was lost", counter, n)
		}
	}
	for _, counter := range counters {
		if after[counter] <= before[counter] {
			t.Errorf("%s was %v and is %v", counter, before[counter], after[counter])
		}
	}
}

// play has the store lose what it loses, and returns what was counted before and after. Keeper,
// fanout and ledger are members of this id; without one there is no ledger.
func (l loss) play(t *testing.T, member string) (before, after map[string]float64) {
	lab.Bubble(t, func(t *testing.T) {
		counters := new(registries)
		f := &stage{Fabric: e2e.New(t, e2e.Options{Shards: 1, Registerer: counters})}
		books := openLedger(t)
		start := map[string]func() *e2e.Process{
			subjects.KeeperGroup: func() *e2e.Process { return f.StartKeeperAs(member).Process },
			subjects.FanoutGroup: func() *e2e.Process { return f.StartFanoutWith(fanout.Config{Member: member}).Process },
			subjects.LedgerGroup: func() *e2e.Process {
				return f.StartLedger(&e2e.Database{Store: books}, live.Config{Definition: onlineTime, Member: member, Registerer: counters}).Process
			},
		}
		running := make(map[string]*e2e.Process)
		for _, group := range groups {
			if member != "" || group != subjects.LedgerGroup {
				running[group] = start[group]()
			}
		}
		f.At(10 * second)
		come, leave := names("comes", 10), names("leaves", 10)
		v := f.StartViewer("vera", append(come, leave...)...)
		g := f.StartEdge("g1")
		leavers := f.connectAll(g, leave)
		f.At(100 * second)
		restore := l.remember(f)
		if slices.Equal(l.kinds, []string{"beats"}) {
			f.At(f.Now() + f.Params.LongestRenewal() + second) // heartbeats are stored with the renewals
		}
		f.connectAll(g, come)
		for _, d := range leavers {
			d.Close()
		}
		late := f.StartViewer("walt", come...)
		for _, group := range l.restarts {
			running[group].Kill()
			running[group] = start[group]()
		}
		f.At(f.Now() + 5*second)
		before = counters.totals(t)
		if l.fanout {
			running[subjects.FanoutGroup].Kill()
		}
		f.Server.Stop()
		restore()
		f.Server.Start()
		if l.fanout {
			start[subjects.FanoutGroup]()
		}
		f.At(f.Now() + f.Params.LongestRenewal() + f.Params.Debounce + 5*second)
		after = counters.totals(t)
		f.wantTruth(v, "online active", come...)
		f.wantTruth(v, "offline ", leave...)
		f.wantTruth(late, "online active", come...)
	})
	return before, after
}

// remember returns how to make the streams what they are now.
func (l loss) remember(f *stage) (restore func()) {
	var snapshots []*lab.Snapshot
	for _, kind := range l.kinds {
		for _, stream := range (&crew{stage: f}).losable()[kind] {
			if f.has(stream) {
				snapshots = append(snapshots, f.Server.Snapshot(stream))
			}
		}
	}
	return func() {
		for _, s := range snapshots {
			f.Server.Restore(s)
		}
	}
}

// has says whether there is such a stream: groups of whom nobody has joined have none.
func (f *stage) has(stream string) bool {
	_, err := f.JS.Stream(f.T.Context(), stream)
	return err == nil
}

// registries take the collectors of processes that have the same names, one after the other, and
// keep what the former ones have counted.
type registries struct {
	mu  sync.Mutex
	all []*prometheus.Registry
}

func (r *registries) Register(c prometheus.Collector) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, registry := range r.all {
		if registry.Register(c) == nil {
			return nil
		}
	}
	registry := prometheus.NewRegistry()
	r.all = append(r.all, registry)
	return registry.Register(c)
}

func (r *registries) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		if err := r.Register(c); err != nil {
			panic(err)
		}
	}
}

func (*registries) Unregister(prometheus.Collector) bool { return false }

// totals sums counters, by name, and by some of their labels if they have them.
func (r *registries) totals(t *testing.T) map[string]float64 {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	sums := make(map[string]float64)
	for _, registry := range r.all {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			for _, m := range family.GetMetric() {
				name := family.GetName()
				for _, l := range m.GetLabel() {
					if slices.Contains([]string{"group", "reason", "op", "code"}, l.GetName()) {
						name += " " + l.GetName() + "=" + l.GetValue()
					}
				}
				sums[name] += m.GetCounter().GetValue()
			}
		}
	}
	sums[anew] = sums["rollcall_fanout_requests_total code=ok op=subscribe"] - sums["rollcall_fanout_resyncs_total"]
	return sums
}

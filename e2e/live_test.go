package e2e_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rollcall-io/rollcall/e2e"
	"github.com/rollcall-io/rollcall/edge"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/interval"
	"github.com/rollcall-io/rollcall/ledger/live"
	"github.com/rollcall-io/rollcall/ledger/store"
	"github.com/rollcall-io/rollcall/subjects"
)

// The day of the Azores begins one hour after that of UTC, in the middle of a test.
var liveConfig = live.Config{Definition: onlineTime, Zones: []string{"UTC", "Atlantic/Azores"}}

// TestLedgerIsKilled kills a ledger before and after transactions at random, and has
// others report failure although they were stored. Nothing is lost or doubled.
func TestLedgerIsKilled(t *testing.T) {
	seeds := uint64(3)
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			lab.Bubble(t, func(t *testing.T) {
				f := e2e.New(t, e2e.Options{Shards: 2})
				f.StartKeeper()
				s := openLedger(t)
				r := &reaper{f: f, store: s, random: rand.New(rand.NewPCG(seed, 5)), due: make(chan struct{}, 1), over: make(chan struct{})}
				go r.run()
				cutEdge(f)
				f.At(f.Now() + 30*time.Minute)
				close(r.over)
				settle(f)
				times := r.killed.Load()
				kept := mustBeRebuilt(t, f, s)
				checkCutEdge(kept)
				if t.Logf("killed %d times", times); times < 10 {
					t.Errorf("killed %d times", times)
				}
			})
		})
	}
}

// TestLedgerWithoutStores takes the database away for a while, and NATS, and both. What
// was stored in the streams meanwhile comes afterwards.
func TestLedgerWithoutStores(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		f := e2e.New(t, e2e.Options{Shards: 2})
		f.StartKeeper()
		s := openLedger(t)
		c := liveConfig
		c.Changes = 5 // it must stop reading
		l := f.StartLedger(&e2e.Database{Store: s}, c)
		go func() {
			time.Sleep(3 * time.Minute)
			l.Database.Away.Store(true)
			time.Sleep(8 * time.Minute)
			l.Database.Away.Store(false)
			time.Sleep(time.Minute)
			l.Link.Cut()
			time.Sleep(5 * time.Minute)
			l.Database.Away.Store(true)
			time.Sleep(5 * time.Minute)
			l.Link.Heal()
			time.Sleep(5 * time.Minute)
			l.Database.Away.Store(false)
		}()
		cutEdge(f)
		settle(f)
		kept := mustBeRebuilt(t, f, s)
		checkCutEdge(kept)
	})
}

// TestTwoLedgers starts two by mistake: one stores and answers, the other stands by, and
// takes over when the first is killed.
func TestTwoLedgers(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		f := e2e.New(t, e2e.Options{Shards: 2})
		f.StartKeeper()
		s := openLedger(t)
		first, second := f.StartLedger(&e2e.Database{Store: s}, liveConfig), f.StartLedger(&e2e.Database{Store: s}, liveConfig)
		go func() {
			time.Sleep(10 * time.Minute)
			shards := func(l *e2e.Ledger) int { return len(l.Stats(t.Context()).Shards) }
			if a, b := shards(first), shards(second); a+b != 2 {
				t.Errorf("%d shards answer in the first, %d in the second", a, b)
			}
			first.Kill()
			time.Sleep(2 * time.Minute)
			if n := shards(second); n != 2 {
				t.Errorf("%d shards after the first was killed", n)
			}
		}()
		cutEdge(f)
		settle(f)
		kept := mustBeRebuilt(t, f, s)
		checkCutEdge(kept)
	})
}

// TestLedgerGoesOnWithADay: the totals of a day know the sessions that were final before
// the ledger was started again.
func TestLedgerGoesOnWithADay(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		f := e2e.New(t, e2e.Options{Shards: 1})
		f.StartKeeper()
		s := openLedger(t)
		first := f.StartLedger(&e2e.Database{Store: s}, liveConfig)
		e := f.StartEdge("g1")
		for i, device := range []string{"phone", "tablet"} {
			d := f.Connect(e, "ann", device)
			f.At(f.Now() + 10*time.Minute)
			d.Close()
			settle(f)
			if i == 0 {
				first.Kill()
				f.StartLedger(&e2e.Database{Store: s}, liveConfig)
			}
		}
		mustAddUp(t, s, "1", liveConfig.Zones...)
		if n := len(stored(t, s, "1").rows); n != 2 {
			t.Errorf("%d sessions", n)
		}
	})
}

// TestLedgerUnderAnotherDefinition: a ledger that is started with other rules reads the
// streams again; the old figures stay beside the new ones.
func TestLedgerUnderAnotherDefinition(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		f := e2e.New(t, e2e.Options{Shards: 2})
		f.StartKeeper()
		s := openLedger(t)
		old := f.StartLedger(&e2e.Database{Store: s}, liveConfig)
		cutEdge(f)
		settle(f)
		old.Kill()
		before := stored(t, s, "1")
		c := liveConfig
		c.Definition.Version, c.Definition.Gaps.Cap, c.Definition.Idle = "2", 2*time.Minute, 10*time.Minute
		f.StartLedger(&e2e.Database{Store: s}, c)
		cutEdge(f)
		settle(f)
		before.mustEqual(stored(t, s, "1"))
		kept := stored(t, s, "2")
		rebuild(t, f, c.Definition).mustEqual(kept)
		for _, version := range []string{"1", "2"} {
			mustAddUp(t, s, version, liveConfig.Zones...)
		}
		if len(before.rows) != 23 || len(kept.rows) != 46 {
			t.Errorf("%d sessions under the old definition, %d under the new", len(before.rows), len(kept.rows))
		}
	})
}

// TestLedgerReadsAgain: where a checkpoint cannot be used, or the stream has lost what
// was read, everything is read again.
func TestLedgerReadsAgain(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		f := e2e.New(t, e2e.Options{Shards: 1})
		f.StartKeeper()
		s := openLedger(t)
		registry := prometheus.NewRegistry()
		c := liveConfig
		c.Registerer = registry
		f.StartLedger(&e2e.Database{Store: s}, c)
		snapshot := f.Server.Snapshot(f.Names.LogStream(0))
		e := f.StartEdge("g1")
		for _, user := range []string{"ann", "bob"} {
			f.Connect(e, user, "phone")
		}
		f.At(5 * time.Minute)
		f.Server.Stop()
		f.Server.Restore(snapshot) // the edge's roster repairs the log
		f.Server.Start()
		f.At(30 * time.Minute)
		if n := total(t, registry, "rollcall_ledger_rebuilds_total"); n != 1 {
			t.Errorf("read again %v times", n)
		}
		e.Kill()
		settle(f)
		kept := stored(t, s, "1")
		mustAddUp(t, s, "1", liveConfig.Zones...)
		for _, row := range kept.rows {
			if got := interval.Total(row.Intervals[ledger.Connected]); got < 28*60_000 || got > 32*60_000 {
				t.Errorf("%s was connected %d ms: %v", row.User, got, row.Intervals[ledger.Connected])
			}
		}
		if len(kept.rows) != 2 {
			t.Errorf("%d sessions", len(kept.rows))
		}
	})
}

func TestLedgerWithDamagedCheckpoint(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		f := e2e.New(t, e2e.Options{Shards: 1})
		f.StartKeeper()
		s := openLedger(t)
		first := f.StartLedger(&e2e.Database{Store: s}, liveConfig)
		cutEdge(f)
		first.Kill()
		source := f.Names.LogStream(0)
		there, err := s.Checkpoint(t.Context(), "1", source)
		if err != nil {
			t.Fatal(err)
		}
		damaged := store.Checkpoint{Revision: there.Revision + 1, Body: there.Body[:len(there.Body)/2]}
		if _, err := s.Apply(t.Context(), store.Batch{Definition: "1", Source: source, Checkpoint: damaged}); err != nil {
			t.Fatal(err)
		}
		registry := prometheus.NewRegistry()
		c := liveConfig
		c.Registerer = registry
		f.StartLedger(&e2e.Database{Store: s}, c)
		settle(f)
		kept := mustBeRebuilt(t, f, s)
		checkCutEdge(kept)
		if n := total(t, registry, "rollcall_ledger_rebuilds_total"); n != 1 {
			t.Errorf("read again %v times", n)
		}
	})
}

// TestLiveFigures: who is online and active, while devices come and go and an edge
// crashes, and how long everybody was online on a day that begins meanwhile.
func TestLiveFigures(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		f := e2e.New(t, e2e.Options{Shards: 3})
		f.StartKeeper()
		s := openLedger(t)
		registry := prometheus.NewRegistry()
		c := liveConfig
		c.Registerer = registry
		l := f.StartLedger(&e2e.Database{Store: s}, c)
		see := func(when string, online, active int) {
			t.Helper()
			f.At(f.Now() + 6*time.Second) // a tick's time
			stats := l.Stats(t.Context())
			if stats.Online != online || stats.Active != active {
				t.Errorf("%s: %d online, %d active; want %d and %d", when, stats.Online, stats.Active, online, active)
			}
			if age := time.Since(stats.AsOf); age < 0 || age > 6*time.Second || len(stats.Shards) != 3 {
				t.Errorf("%s: %s old, shards %v", when, age, stats.Shards)
			}
			if n := total(t, registry, "rollcall_ledger_online_users"); n != float64(online) {
				t.Errorf("%s: the metric says %v", when, n)
			}
		}
		g1, g2 := f.StartEdge("g1"), f.StartEdge("g2")
		see("before anybody came", 0, 0)
		f.Connect(g1, "ann", "phone")
		tablet := f.Connect(g2, "ann", "tablet")
		bob := f.Connect(g1, "bob", "phone")
		cid := f.Connect(g2, "cid", "phone")
		see("all have come", 3, 3)
		if err := cid.SetState(edge.State{}); err != nil {
			t.Fatal(err)
		}
		f.At(7 * time.Minute)
		see("cid has looked away", 3, 2)
		bob.Close()
		tablet.Close()
		see("bob has left, and ann one of two devices", 2, 2)
		f.At(13 * time.Minute)
		see("bob left long ago", 2, 1)
		g1.Kill()
		f.At(14 * time.Minute)
		see("the edge of ann may come back", 2, 1)
		f.At(19 * time.Minute)
		see("it has not", 1, 0)
		f.At(65 * time.Minute) // the Azores have a new day
		see("after midnight", 1, 0)
		f.At(f.Now() + 3*time.Minute)
		for _, today := range l.Stats(t.Context()).Today {
			want := subjects.StatsCount{}
			date, err := interval.ParseDate(today.Date)
			if err != nil {
				t.Fatal(err)
			}
			for _, day := range all(t, s.Daily(t.Context(), store.DailyKey{Definition: "1", Zone: today.Zone, Measure: ledger.Connected}, date, date+1)) {
				want.Users++
				want.Seconds += subjects.Seconds(day.Union)
			}
			// The store may lack what came within its interval: a minute of heartbeats of one user.
			got := today.Measures["connected"]
			if users := map[string]int{"UTC": 3, "Atlantic/Azores": 1}[today.Zone]; got.Users != users || want.Users != users ||
				got.Seconds < want.Seconds || got.Seconds > want.Seconds+60_000 || today.Date != "2000-01-01" {
				t.Errorf("%+v, stored %+v", today, want)
			}
		}
	})
}

// total adds a metric up over its labels.
func total(t *testing.T, g prometheus.Gatherer, name string) (sum float64) {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return sum
}

// A reaper kills ledgers amid their work, each time starting another one.
type reaper struct {
	f     *e2e.Fabric
	store store.Store
	due   chan struct{} // somebody must die
	over  chan struct{} // closed when no more must

	mu     sync.Mutex
	random *rand.Rand
	killed atomic.Int64
}

var (
	errKilled = errors.New("killed")
	errUnsure = errors.New("the connection broke before the answer came")
)

func (r *reaper) chance(one int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.over:
		return false
	default:
		return r.random.IntN(one) == 0
	}
}

// die ends a transaction, and soon the process.
func (r *reaper) die() error {
	if !r.chance(15) {
		return nil
	}
	select {
	case r.due <- struct{}{}:
	default:
	}
	return errKilled
}

func (r *reaper) run() {
	for {
		l := r.f.StartLedger(&e2e.Database{Store: r.store, Before: r.die, After: func() error {
			if r.chance(6) {
				return errUnsure
			}
			return r.die()
		}}, liveConfig)
		select {
		case <-r.over:
			return
		case <-r.due:
		}
		l.Kill()
		r.killed.Add(1)
		if r.chance(2) { // the next one comes late
			time.Sleep(2 * time.Minute)
		}
	}
}

// TestLedgerForgets: who was forgotten while the ledger runs is in no checkpoint any more,
// whether the user has left long ago or is still there.
func TestLedgerForgets(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		f := e2e.New(t, e2e.Options{Shards: 1})
		f.StartKeeper()
		s := openLedger(t)
		f.StartLedger(&e2e.Database{Store: s}, liveConfig)
		e := f.StartEdge("g1")
		for _, user := range []string{"Ann-Who-Stays", "Bob-Who-Leaves", "Cid-Whom-All-Remember"} {
			f.Connect(e, user, "phone")
		}
		bob := f.Connect(e, "Bob-Who-Leaves", "tablet")
		f.At(10 * time.Minute)
		bob.Close()
		f.At(20 * time.Minute)
		for _, user := range []string{"Ann-Who-Stays", "Bob-Who-Leaves"} {
			if _, err := s.Forget(t.Context(), user, time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		f.At(30 * time.Minute)
		c, err := s.Checkpoint(t.Context(), "1", f.Names.LogStream(0))
		if err != nil {
			t.Fatal(err)
		}
		for user, want := range map[string]bool{"Ann-Who-Stays": false, "Bob-Who-Leaves": false, "Cid-Whom-All-Remember": true} {
			if bytes.Contains(c.Body, []byte(user)) != want {
				t.Errorf("%s is in the checkpoint: %v", user, !want)
			}
		}
		kept := stored(t, s, "1")
		if len(kept.rows) != 1 {
			t.Errorf("rows of %d sessions", len(kept.rows))
		}
		mustAddUp(t, s, "1", liveConfig.Zones...)
	})
}

package union_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/interval"
	"github.com/rollcall-io/rollcall/ledger/union"
)

const hour = int64(60 * 60 * 1000)

func zone(t testing.TB, name string) *interval.Zone {
	z, err := interval.LoadZone(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func row(id string, revision uint64, set ...interval.Interval) ledger.Session {
	return ledger.Session{
		ID: id, User: "ada", Device: "phone", Revision: revision,
		Intervals: map[ledger.Measure][]interval.Interval{ledger.Connected: set},
	}
}

// told keeps the newest totals.
type told map[union.Total]int64

func (k told) take(t union.Total) {
	key := t
	key.Total, key.Sum = 0, 0
	if k[key] = t.Total; t.Total == 0 {
		delete(k, key)
	}
}

func never(t testing.TB) func(ledger.Rejected) {
	return func(r ledger.Rejected) { t.Errorf("in quarantine: %+v", r) }
}

// A correction changes the days that it touches, and one that takes a day away says so.
func TestCorrection(t *testing.T) {
	b, k := union.New(zone(t, "UTC"), never(t)), told{}
	b.Add(row("a", 1, interval.Interval{From: 20 * hour, To: 30 * hour}))
	b.Add(row("b", 1, interval.Interval{From: 22 * hour, To: 23 * hour}))
	b.Publish(k.take)
	day := func(n interval.Date) union.Total {
		return union.Total{User: "ada", Measure: ledger.Connected, Date: n}
	}
	if want := (told{day(0): 4 * hour, day(1): 6 * hour}); !maps.Equal(k, want) {
		t.Errorf("told %v, want %v", k, want)
	}
	b.Add(row("a", 3, interval.Interval{From: 21 * hour, To: 22 * hour}))
	b.Add(row("a", 2, interval.Interval{From: 0, To: hour})) // older
	b.Publish(k.take)
	if want := (told{day(0): 2 * hour}); !maps.Equal(k, want) {
		t.Errorf("told %v, want %v", k, want)
	}
}

// An id is the application's: a row replaces only that of the same user and device.
func TestSharedID(t *testing.T) {
	b, k := union.New(zone(t, "UTC"), never(t)), map[string]union.Total{}
	rows := []ledger.Session{
		row("a", 2, interval.Interval{From: hour, To: 3 * hour}), row("a", 2, interval.Interval{From: 2 * hour, To: 4 * hour}),
		row("a", 2, interval.Interval{From: 2 * hour, To: 4 * hour}),
	}
	rows[1].Device, rows[2].User = "tablet", "bob"
	for _, r := range rows {
		b.Add(r)
	}
	want := func(user string, total, sum int64) {
		t.Helper()
		b.Publish(func(x union.Total) { k[x.User] = x })
		if got := k[user]; got.Total != total || got.Sum != sum {
			t.Errorf("%+v", got)
		}
	}
	want("ada", 3*hour, 4*hour)
	want("bob", 2*hour, 2*hour)
	rows[1].Revision, rows[1].Intervals = 3, nil
	b.Add(rows[1])
	want("ada", 2*hour, 2*hour)
	want("bob", 2*hour, 2*hour)
}

// TestAnyOrder adds random revisions in any order, and compares with the union of the
// newest ones, in a zone whose days differ in length. Forgetting leaves later days alone.
func TestAnyOrder(t *testing.T) {
	z := zone(t, "Europe/Berlin")
	start := time.Date(2026, 3, 27, 0, 0, 0, 0, time.UTC).UnixMilli()
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 3))
		b, k := union.New(z, never(t)), told{}
		newest, sums := map[string]ledger.Session{}, map[interval.Date]int64{}
		take := func(x union.Total) {
			k.take(x)
			sums[x.Date] = x.Sum
		}
		forgotten := interval.Earliest
		for range 40 {
			var set []interval.Interval
			for range r.IntN(4) {
				from := start + r.Int64N(100*hour)
				set = append(set, interval.Interval{From: from, To: from + r.Int64N(30*hour)})
			}
			s := row(fmt.Sprint("s", r.IntN(6)), r.Uint64N(1000), interval.Union(set)...)
			if known, ok := newest[s.ID]; ok && known.Revision == s.Revision {
				continue
			}
			if s.Revision >= newest[s.ID].Revision {
				newest[s.ID] = s
			}
			b.Add(s)
			if r.IntN(3) == 0 {
				b.Publish(take)
			}
		}
		b.Publish(take)
		want := told{}
		var all []interval.Interval
		for _, s := range newest {
			all = append(all, s.Intervals[ledger.Connected]...)
		}
		for _, total := range z.Totals(nil, interval.Union(all), interval.Day) {
			want[union.Total{User: "ada", Measure: ledger.Connected, Date: total.Date}] = total.Total
		}
		if !maps.Equal(k, want) {
			t.Fatalf("seed %d: told %v, want %v", seed, k, want)
		}
		checkSums(t, z, b, newest, want, sums)
		forgotten = start + 50*hour
		b.Forget(forgotten)
		for _, s := range newest {
			s.Revision += 1000
			b.Add(s)
		}
		b.Publish(func(x union.Total) { t.Fatalf("seed %d: after forgetting %v", seed, x) })
	}
}

// checkSums holds what is told of sessions by themselves, and of all users together,
// against the newest rows.
func checkSums(t *testing.T, z *interval.Zone, b *union.Board, newest map[string]ledger.Session, want told, sums map[interval.Date]int64) {
	t.Helper()
	naive := map[interval.Date]int64{}
	for _, s := range newest {
		for _, total := range z.Totals(nil, s.Intervals[ledger.Connected], interval.Day) {
			naive[total.Date] += total.Total
		}
	}
	for date := range sums {
		day := b.Day(ledger.Connected, date)
		total := want[union.Total{User: "ada", Measure: ledger.Connected, Date: date}]
		if sums[date] != naive[date] || day.Sum != naive[date] || day.Total != total || day.Users != min(int(total), 1) {
			t.Fatalf("on %s: sum %d, want %d; all users %+v, want %d", date, sums[date], naive[date], day, total)
		}
	}
}

func TestForgetsUsers(t *testing.T) {
	b := union.New(zone(t, "UTC"), never(t))
	b.Add(row("a", 1, interval.Interval{From: hour, To: 2 * hour}))
	b.Publish(func(union.Total) {})
	b.Forget(25 * hour)
	if b.Users() != 0 {
		t.Error("the user is still there")
	}
}

// Each rule is broken by a row that a correct builder does not make.
func TestRules(t *testing.T) {
	z := zone(t, "UTC")
	twice := row("a", 1, interval.Interval{From: 0, To: 20 * hour}, interval.Interval{From: hour, To: 21 * hour})
	nested := row("a", 1, interval.Interval{From: 0, To: hour})
	nested.Intervals[ledger.Foreground] = []interval.Interval{{From: 0, To: 2 * hour}}
	disorder := row("a", 1, interval.Interval{From: 2 * hour, To: 3 * hour}, interval.Interval{From: 2 * hour, To: 3 * hour})
	for rule, s := range map[string]ledger.Session{ledger.RuleDay: twice, ledger.RuleNesting: nested, ledger.RuleParts: disorder} {
		var got []ledger.Rejected
		b := union.New(z, func(r ledger.Rejected) { got = append(got, r) })
		b.Add(s)
		if len(got) != 1 || got[0].Rule != rule || got[0].Whole == nil || got[0].Whole.ID != "a" {
			t.Errorf("%s: in quarantine is %+v", rule, got)
		}
		b.Publish(func(total union.Total) { t.Errorf("%s: it counts: %v", rule, total) })
	}
	good := row("a", 1, interval.Interval{From: 0, To: 30 * hour})
	days := union.Split(z, good)
	days[ledger.Connected][1].Total--
	if r := union.Check(z, good, days); r == nil || r.Rule != ledger.RuleParts {
		t.Errorf("days that do not add up: %+v", r)
	}
}

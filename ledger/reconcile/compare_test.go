package reconcile_test

import (
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/interval"
	"github.com/rollcall-io/rollcall/ledger/reconcile"
	"github.com/rollcall-io/rollcall/ledger/store"
)

const hour = int64(60 * 60 * 1000)

func zone(t *testing.T, name string) *interval.Zone {
	t.Helper()
	z, err := interval.LoadZone(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func session(id string, m ledger.Measure, set ...interval.Interval) ledger.Session {
	return ledger.Session{ID: id, User: "ann", Device: "phone", Start: set[0].From, Intervals: map[ledger.Measure][]interval.Interval{m: set}}
}

func pairs(list ...store.Pair) iter.Seq2[store.Pair, error] {
	return func(yield func(store.Pair, error) bool) {
		for _, p := range list {
			if !yield(p, nil) {
				return
			}
		}
	}
}

func compare(t *testing.T, q reconcile.Query, list ...store.Pair) (all []reconcile.Difference) {
	t.Helper()
	_, err := reconcile.Compare(pairs(list...), q, func(of []reconcile.Difference) error {
		all = append(all, of...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var measures = []ledger.Measure{ledger.Connected, ledger.Active}

// A day and a session differ where only one of the two has time, also where the totals
// are equal; a difference of exactly the threshold is none.
func TestDifferences(t *testing.T) {
	q := reconcile.Query{
		Bounds: interval.Interval{From: 0, To: 48 * hour}, Zone: zone(t, "UTC"), Measures: measures, Threshold: 1000,
	}
	here := session("a", ledger.Connected, interval.Interval{From: 20 * hour, To: 26 * hour})
	for _, c := range []struct {
		name  string
		there []ledger.Session
		want  []string
	}{
		{"equal", []ledger.Session{here}, nil},
		{"at the threshold", []ledger.Session{session("a", ledger.Connected, interval.Interval{From: 20 * hour, To: 26*hour + 1000})}, nil},
		{
			"above it, on the second day", []ledger.Session{session("a", ledger.Connected, interval.Interval{From: 20 * hour, To: 26*hour + 1001})},
			[]string{"1970-01-02 connected 7200000 7201001 1001", "a connected 21600000 21601001 1001"},
		},
		{
			"moved", []ledger.Session{session("a", ledger.Connected, interval.Interval{From: 20*hour - 5000, To: 26*hour - 5000})},
			[]string{
				"1970-01-01 connected 14400000 14405000 5000", "1970-01-02 connected 7200000 7195000 5000",
				"a connected 21600000 21600000 10000",
			},
		},
		{
			"under another id", []ledger.Session{session("b", ledger.Connected, here.Intervals[ledger.Connected]...)},
			[]string{"a connected 21600000 0 21600000", "b connected 0 21600000 21600000"},
		},
		{
			"gone", nil,
			[]string{"1970-01-01 connected 14400000 0 14400000", "1970-01-02 connected 7200000 0 7200000", "a connected 21600000 0 21600000"},
		},
		{
			"outside the bounds", []ledger.Session{session("a", ledger.Connected, interval.Interval{From: 20 * hour, To: 26 * hour}, interval.Interval{From: 50 * hour, To: 60 * hour})},
			nil,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, d := range compare(t, q, store.Pair{User: "ann", Sessions: [2][]ledger.Session{{here}, c.there}}) {
				name := d.Session
				if name == "" {
					name = d.Date.String()
				}
				got = append(got, fmt.Sprint(name, " ", d.Measure, " ", d.Here, " ", d.There, " ", d.Apart))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%q", got)
			}
		})
	}
}

// An id is the application's: the same one on another device is another session, and a
// difference of its own.
func TestSharedID(t *testing.T) {
	phone := session("a", ledger.Connected, interval.Interval{From: 0, To: hour})
	tablet := session("a", ledger.Connected, interval.Interval{From: 0, To: 2 * hour})
	tablet.Device = "tablet"
	longer := session("a", ledger.Connected, interval.Interval{From: 0, To: 2 * hour})
	q := reconcile.Query{Bounds: interval.Interval{From: 0, To: 48 * hour}, Zone: zone(t, "UTC"), Measures: measures}
	for _, c := range []struct {
		there []ledger.Session
		want  []string
	}{
		{[]ledger.Session{tablet, phone}, nil},
		{[]ledger.Session{longer, tablet}, []string{"phone 3600000"}}, // not on the day
		{[]ledger.Session{tablet}, []string{"phone 3600000"}},
		{nil, []string{" 7200000", "phone 3600000", "tablet 7200000"}},
	} {
		var got []string
		n, err := reconcile.Compare(pairs(store.Pair{User: "ann", Sessions: [2][]ledger.Session{{phone, tablet}, c.there}}), q, func(of []reconcile.Difference) error {
			if len(of) != 1 {
				t.Errorf("as one: %+v", of)
			}
			got = append(got, fmt.Sprint(of[0].Device, " ", of[0].Apart))
			return nil
		})
		if n != 3 || err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q of %d, %v", got, n, err)
		}
	}
}

// On random sessions around a change of the clock, what is found is what counting minute
// by minute finds.
func TestLikeNaiveCounting(t *testing.T) {
	const minute = 60_000
	z := zone(t, "Europe/Berlin")
	local, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	start := time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC).UnixMilli()
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 5))
		q := reconcile.Query{
			Bounds: interval.Interval{From: start + rnd.Int64N(20)*hour, To: start + (40+rnd.Int64N(20))*hour},
			Zone:   z, Measures: measures[:1], Threshold: rnd.Int64N(60) * minute,
		}
		p := store.Pair{User: "ann"}
		type figures [2]map[int64]bool // by minute
		days, sessions := map[string]figures{}, map[string]figures{}
		for half := range 2 {
			for n := range 1 + rnd.IntN(4) {
				from := start + rnd.Int64N(60*60)*minute
				s := session(fmt.Sprint(n), ledger.Connected, interval.Interval{From: from, To: from + (1+rnd.Int64N(600))*minute})
				p.Sessions[half] = append(p.Sessions[half], s)
				for at := from; at < s.Intervals[ledger.Connected][0].To; at += minute {
					if at < q.Bounds.From || at >= q.Bounds.To {
						continue
					}
					for name, by := range map[string]map[string]figures{time.UnixMilli(at).In(local).Format(time.DateOnly): days, s.ID: sessions} {
						f, known := by[name]
						if !known {
							f = figures{{}, {}}
						}
						f[half][at] = true
						by[name] = f
					}
				}
			}
		}
		want := map[string]bool{}
		for _, by := range []map[string]figures{days, sessions} {
			for name, f := range by {
				apart := int64(0)
				for half := range 2 {
					for at := range f[half] {
						if !f[1-half][at] {
							apart += minute
						}
					}
				}
				if apart > q.Threshold {
					want[fmt.Sprint(name, len(f[0]), len(f[1]), apart)] = true
				}
			}
		}
		got := compare(t, q, p)
		for _, d := range got {
			name := d.Session
			if name == "" {
				name = d.Date.String()
			}
			if !want[fmt.Sprint(name, d.Here/minute, d.There/minute, d.Apart)] {
				t.Fatalf("seed %d: %+v is not among %v", seed, d, want)
			}
		}
		if len(got) != len(want) {
			t.Fatalf("seed %d: %d differences, want %d", seed, len(got), len(want))
		}
	}
}

func TestOneRowForADay(t *testing.T) {
	here := session("a", ledger.Connected, interval.Interval{From: 0, To: hour})
	here.Intervals[ledger.Active] = here.Intervals[ledger.Connected]
	q := reconcile.Query{Bounds: interval.Interval{From: 0, To: 24 * hour}, Zone: zone(t, "UTC"), Measures: measures}
	var rows []ledger.Rejected
	n, err := reconcile.Compare(pairs(store.Pair{User: "ann", Sessions: [2][]ledger.Session{{here}, nil}}), q, func(of []reconcile.Difference) error {
		rows = append(rows, reconcile.Rejected(of, "1", "1+rebuilt"))
		return nil
	})
	if err != nil || n != 2 || len(rows) != 2 {
		t.Fatalf("%d compared, %+v, %v", n, rows, err)
	}
	for k, says := range []string{"on 1970-01-01", "of the session"} {
		if r := rows[k]; r.Rule != ledger.RuleRebuilt || r.Event.User != "ann" || !strings.Contains(r.Reason, says) ||
			!strings.Contains(r.Reason, "connected 3600.000 s and 0.000 s; active 3600.000 s and 0.000 s") {
			t.Errorf("%+v", r)
		}
	}
}

func TestErrors(t *testing.T) {
	broken := errors.New("broken")
	failing := func(yield func(store.Pair, error) bool) { yield(store.Pair{}, broken) }
	if _, err := reconcile.Compare(failing, reconcile.Query{}, nil); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}

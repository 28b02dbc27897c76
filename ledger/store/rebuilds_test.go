package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/definition"
	"github.com/rollcall-io/rollcall/ledger/interval"
)

// A rebuild is unfinished until it ends, keeps its place until then, and never becomes
// the definition that was used last.
func testRebuilds(t *testing.T, s Store) {
	live := define(t, s, "a")
	at := time.UnixMilli(1_700_000_000_000).UTC()
	again := live
	again.Version = "a+rebuilt"
	first := Rebuild{Definition: "a+rebuilt", Bounds: interval.Interval{From: -5, To: 10}, Source: "stream", Ends: at, Started: at}
	second := Rebuild{Definition: "a+rebuilt", Bounds: interval.Interval{From: 10, To: 20}, Source: "stream", Ends: at, Started: at.Add(time.Hour)}
	for _, r := range []Rebuild{first, second} {
		if err := s.BeginRebuild(t.Context(), again, r); err != nil {
			t.Fatal(err)
		}
		apply(t, s, Batch{Definition: r.Definition, Source: r.Checkpoint("0"), Checkpoint: Checkpoint{1, []byte("here")}})
	}
	apply(t, s, Batch{Definition: "a+rebuilt", Source: "live", Checkpoint: Checkpoint{1, []byte("there")}})
	list := func(want ...Rebuild) {
		t.Helper()
		if got, err := s.Rebuilds(t.Context()); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
	}
	list(second, first)
	first.Finished = at.Add(time.Minute)
	if err := s.EndRebuild(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	list(second, first)
	for source, want := range map[string]int64{first.Checkpoint("0"): 0, second.Checkpoint("0"): 1, "live": 1} {
		if c, err := s.Checkpoint(t.Context(), "a+rebuilt", source); c.Revision != want || err != nil {
			t.Errorf("checkpoint of %s: %+v, %v", source, c, err)
		}
	}
	// One that goes on has parts that were read when it began.
	later := second
	later.Ends = at.Add(time.Hour)
	if err := s.BeginRebuild(t.Context(), again, later); err != nil {
		t.Fatal(err)
	}
	list(second, first)
	// Begun again, it is unfinished again.
	first.Ends = at.Add(2 * time.Hour)
	if err := s.BeginRebuild(t.Context(), again, first); err != nil {
		t.Fatal(err)
	}
	first.Finished = time.Time{}
	list(second, first)

	known, err := s.Definitions(t.Context())
	if err != nil || len(known) != 2 || known[0].Version != "a" || known[0].Rebuilt || !known[1].Rebuilt {
		t.Errorf("%+v, %v", known, err)
	}
	define(t, s, "a+rebuilt") // whoever uses it makes it one that is used
	if known, err = s.Definitions(t.Context()); err != nil || known[0].Version != "a+rebuilt" || known[0].Rebuilt {
		t.Errorf("%+v, %v", known, err)
	}
	again.Idle *= 2
	if err := s.BeginRebuild(t.Context(), again, first); !errors.Is(err, ErrDefinition) {
		t.Errorf("other rules under a known version: %v", err)
	}
	again.Version = "no name"
	if err := s.BeginRebuild(t.Context(), again, first); !errors.Is(err, definition.ErrInvalid) {
		t.Errorf("%v", err)
	}
	if err := s.EndRebuild(t.Context(), Rebuild{Definition: "z"}); !errors.Is(err, ErrUnknown) {
		t.Errorf("the end of what never began: %v", err)
	}
}

// A version that was dropped is in no table, and everything else is as it was. Only what can
// be rebuilt goes.
func testDrop(t *testing.T, s Store) {
	const name = "a+rebuilt-zebedee"
	live := define(t, s, "a")
	again := live
	again.Version = name
	r := Rebuild{Definition: name, Bounds: interval.Interval{From: 0, To: 10}, Source: "stream", Ends: time.UnixMilli(9), Started: time.UnixMilli(9)}
	fill := func(version string, rejected ...ledger.Rejected) {
		t.Helper()
		apply(t, s, Batch{
			Definition: version, Sessions: []ledger.Session{session("1", "ann", 1, 100), session("2", "bob", 1, 100)},
			Rejected: append(rejected, ledger.Rejected{Rule: ledger.RuleClosed, Event: &ledger.Event{User: "ann"}}),
			Source:   r.Checkpoint("0"), Checkpoint: Checkpoint{1, []byte("here")},
		})
		if err := s.PutDaily(t.Context(), DailyKey{version, "UTC", ledger.Connected}, 0, 9, seq(Daily{"ann", 0, 20, 20})); err != nil {
			t.Fatal(err)
		}
	}
	fill("a")
	before := dumpTables(t, s.(*SQL))
	if err := s.BeginRebuild(t.Context(), again, r); err != nil {
		t.Fatal(err)
	}
	fill(name)
	for table, text := range dumpTables(t, s.(*SQL)) {
		without := []string{"accounts", "audit", "forgotten", "meta", "teams"}
		if strings.Contains(text, name) == slices.Contains(without, table) {
			t.Errorf("table %s: the test fills it with the version, or it is known to have none: not so here\n%s", table, text)
		}
	}
	if n, err := s.Drop(t.Context(), name); n != 2 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if after := dumpTables(t, s.(*SQL)); !reflect.DeepEqual(after, before) {
		t.Errorf("%v, before %v", after, before)
	}
	// Whoever was rebuilding it is told.
	if _, err := s.Apply(t.Context(), Batch{Definition: name}); !errors.Is(err, ErrUnknown) {
		t.Errorf("a batch: %v", err)
	}
	if err := s.PutDaily(t.Context(), DailyKey{name, "UTC", ledger.Connected}, 0, 9, seq()); !errors.Is(err, ErrUnknown) {
		t.Errorf("daily totals: %v", err)
	}
	if err := s.EndRebuild(t.Context(), r); !errors.Is(err, ErrUnknown) {
		t.Errorf("the end: %v", err)
	}
	for version, want := range map[string]error{"a": ErrInUse, name: ErrUnknown} {
		if _, err := s.Drop(t.Context(), version); !errors.Is(err, want) {
			t.Errorf("%s: %v", version, err)
		}
	}
	// The name is free, for other rules too, and a line that cannot be read stays.
	again.Idle *= 2
	if err := s.BeginRebuild(t.Context(), again, r); err != nil {
		t.Fatal(err)
	}
	fill(name, ledger.Rejected{Rule: ledger.RuleInput, Raw: "line"})
	if _, err := s.Drop(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	if rows := all(t, s.Quarantined(t.Context(), QuarantineQuery{Rule: ledger.RuleInput})); len(rows) != 1 {
		t.Errorf("%+v", rows)
	}
}

// Pairs are what the sessions of either definition are.
func testPairs(t *testing.T, s Store) {
	rnd := rand.New(rand.NewPCG(8, 8))
	define(t, s, "a")
	define(t, s, "b")
	for _, version := range []string{"a", "b"} {
		var list []ledger.Session
		for n := range 60 {
			if rnd.IntN(3) > 0 {
				list = append(list, session(fmt.Sprint(n), fmt.Sprint("u", n%7), 1, rnd.Int64N(300)))
			}
		}
		apply(t, s, Batch{Definition: version, Sessions: list})
	}
	q := Query{Definition: "a", Bounds: interval.Interval{From: 50, To: 250}}
	users := map[string]bool{}
	got := map[string][]ledger.Session{}
	for _, p := range all(t, s.Pairs(t.Context(), "b", q)) {
		if users[p.User] {
			t.Errorf("%s twice", p.User)
		}
		users[p.User] = true
		for half, version := range []string{"a", "b"} {
			for _, x := range p.Sessions[half] {
				if x.User != p.User {
					t.Errorf("%s among those of %s", x.User, p.User)
				}
			}
			got[version] = append(got[version], p.Sessions[half]...)
		}
	}
	for _, version := range []string{"a", "b"} {
		q.Definition = version
		if want := all(t, s.Sessions(t.Context(), q)); !reflect.DeepEqual(got[version], want) || len(want) < 10 {
			t.Errorf("%s: %+v, want %+v", version, got[version], want)
		}
	}
}

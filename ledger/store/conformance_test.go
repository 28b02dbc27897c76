package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/definition"
	"github.com/rollcall-io/rollcall/ledger/interval"
)

// conformance is what holds for every Store. fresh gives an empty one.
func conformance(t *testing.T, fresh func(t *testing.T) Store) {
	for name, test := range map[string]func(*testing.T, Store){
		"definitions":                 testDefinitions,
		"sessions come back":          testRoundTrip,
		"revisions":                   testRevisions,
		"two users with one id":       testSharedID,
		"order and repetition":        testOrder,
		"definitions side by side":    testSideBySide,
		"rebuilds":                    testRebuilds,
		"a version is dropped":        testDrop,
		"pairs":                       testPairs,
		"a batch is all or nothing":   testAtomic,
		"checkpoints":                 testCheckpoints,
		"readers at the same time":    testOvertaking,
		"totals of a batch":           testTotals,
		"totals after a release":      testTotalsAfterRelease,
		"refused again":               testRefusedAgain,
		"intervals":                   testIntervals,
		"quarantine":                  testQuarantine,
		"release":                     testRelease,
		"forget":                      testForget,
		"daily totals":                testDaily,
		"daily totals kept":           testRefresh,
		"audit":                       testAudit,
		"rules of access":             testRules,
		"nothing is left of a user":   testNothingLeft,
		"retention":                   testPrune,
		"retention of quarantine":     testPruneQuarantine,
		"batches at the same time":    testConcurrent,
		"reading while writing":       testReadWhileWriting,
		"text that databases dislike": testText,
	} {
		t.Run(name, func(t *testing.T) { test(t, fresh(t)) })
	}
}

var always = interval.Interval{From: interval.Earliest, To: interval.Latest}

func define(t *testing.T, s Store, version string) ledger.Definition {
	t.Helper()
	d := definition.Default()
	d.Version = version
	if err := s.Define(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	return d
}

func apply(t *testing.T, s Store, b Batch) Applied {
	t.Helper()
	done, err := s.Apply(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

func all[T any](t *testing.T, seq iter.Seq2[T, error]) (list []T) {
	t.Helper()
	for x, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, x)
	}
	return list
}

func sessions(t *testing.T, s Store, version string) []ledger.Session {
	t.Helper()
	return all(t, s.Sessions(t.Context(), Query{Definition: version, Bounds: always}))
}

// session is one of a user, online in two pieces.
func session(id, user string, revision uint64, start int64) ledger.Session {
	online := []interval.Interval{{From: start, To: start + 10}, {From: start + 20, To: start + 30}}
	return ledger.Session{
		ID: id, User: user, Device: "d-" + user, Epoch: 3, Start: start, End: start + 30, Ended: ledger.KindClose, Revision: revision,
		Client:    ledger.Client{Type: "web", Version: "1.2", Channel: "beta", Region: "eu"},
		Intervals: map[ledger.Measure][]interval.Interval{ledger.Connected: online, ledger.Active: online[:1]},
	}
}

func testDefinitions(t *testing.T, s Store) {
	a, b := define(t, s, "a"), define(t, s, "b")
	newest := func() (versions []string) {
		list, err := s.Definitions(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range list {
			versions = append(versions, d.Version)
			if d.Hash != definition.Hash(d.Definition) {
				t.Errorf("hash of %+v", d)
			}
		}
		return versions
	}
	if got := newest(); !slices.Equal(got, []string{"b", "a"}) {
		t.Errorf("%v", got)
	}
	define(t, s, "a")
	if got := newest(); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("used again: %v", got)
	}
	a.Idle *= 2
	if err := s.Define(t.Context(), a); !errors.Is(err, ErrDefinition) {
		t.Errorf("other rules under a known version: %v", err)
	}
	b.Gaps.Grace = time.Hour
	if err := s.Define(t.Context(), b); !errors.Is(err, definition.ErrInvalid) {
		t.Errorf("rules without sense: %v", err)
	}
}

func testRoundTrip(t *testing.T, s Store) {
	define(t, s, "a")
	want := []ledger.Session{session("1", "ann", 1, 100), session("2", "ann", 1, 200), session("3", "bob", 1, 50)}
	want[1].Intervals, want[1].Ended, want[1].End = map[ledger.Measure][]interval.Interval{}, 0, want[1].Start
	if done := apply(t, s, Batch{Definition: "a", Sessions: want}); done != (Applied{Sessions: 3}) {
		t.Errorf("%+v", done)
	}
	if got := sessions(t, s, "a"); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	if _, err := s.Apply(t.Context(), Batch{Definition: "zz"}); !errors.Is(err, ErrUnknown) {
		t.Errorf("a definition nobody made known: %v", err)
	}
}

func testRevisions(t *testing.T, s Store) {
	define(t, s, "a")
	first, second := session("1", "ann", 1, 100), session("1", "ann", 2, 90)
	second.Intervals = map[ledger.Measure][]interval.Interval{ledger.Connected: {{From: 90, To: 95}}}
	apply(t, s, Batch{Definition: "a", Sessions: []ledger.Session{first, second, first}})
	if got := sessions(t, s, "a"); !reflect.DeepEqual(got, []ledger.Session{second}) {
		t.Errorf("in one batch: %+v", got)
	}
	if done := apply(t, s, Batch{Definition: "a", Sessions: []ledger.Session{first}}); done.Sessions != 0 {
		t.Errorf("a lower revision counted: %+v", done)
	}
	if got := sessions(t, s, "a"); !reflect.DeepEqual(got, []ledger.Session{second}) {
		t.Errorf("overwritten by a lower revision: %+v", got)
	}
	third := session("1", "ann", 3, 100)
	apply(t, s, Batch{Definition: "a", Sessions: []ledger.Session{third}})
	if got := sessions(t, s, "a"); !reflect.DeepEqual(got, []ledger.Session{third}) {
		t.Errorf("the correction did not replace all intervals: %+v", got)
	}
}

// An id is the application's: the same one of another user, or on another device, is another
// session, whose row and intervals are its own.
func testSharedID(t *testing.T, s Store) {
	define(t, s, "a")
	define(t, s, "b")
	ann, tablet, bob := session("1", "ann", 1, 100), session("1", "ann", 1, 100), session("1", "bob", 3, 50)
	tablet.Device = "e-ann"
	all := []ledger.Session{ann, tablet, bob}
	want := func(what string, all ...ledger.Session) {
		t.Helper()
		if got := sessions(t, s, "a"); !reflect.DeepEqual(got, all) {
			t.Errorf("%s: %+v", what, got)
		}
	}
	for _, batch := range [][]ledger.Session{all, {bob}, {tablet, ann}} {
		apply(t, s, Batch{Definition: "a", Sessions: batch})
	}
	want("side by side", all...)
	ann.Revision, ann.Intervals = 2, map[ledger.Measure][]interval.Interval{ledger.Active: {{From: 101, To: 102}}}
	if done := apply(t, s, Batch{Definition: "a", Sessions: []ledger.Session{bob, ann}}); done.Sessions != 1 {
		t.Errorf("%+v", done)
	}
	want("one corrected", ann, tablet, bob)
	apply(t, s, Batch{Definition: "b", Sessions: []ledger.Session{tablet, bob}})
	for p, err := range s.Pairs(t.Context(), "b", Query{Definition: "a", Bounds: always}) {
		mine := [2][]ledger.Session{{ann, tablet}, {tablet}}
		if p.User == "bob" {
			mine = [2][]ledger.Session{{bob}, {bob}}
		}
		if err != nil || !reflect.DeepEqual(p.Sessions, mine) {
			t.Errorf("%+v, %v", p, err)
		}
	}
	// What is refused of one is not refused of the other, nor is it released with it.
	long := bob
	long.Revision = 4
	apply(t, s, Batch{Definition: "a", Rejected: []ledger.Rejected{{Rule: ledger.RuleLimit, Whole: &ann}, {Rule: ledger.RuleLimit, Whole: &long}}})
	for r, err := range s.Quarantined(t.Context(), QuarantineQuery{User: "bob"}) {
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Release(t.Context(), r.ID, time.UnixMilli(1)); err != nil {
			t.Error(err)
		}
	}
	want("one released", ann, tablet, long)
	if n, err := s.Forget(t.Context(), "bob", time.UnixMilli(1)); n.Sessions != 2 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	want("one forgotten", ann, tablet)
	if n, err := s.Prune(t.Context(), KindSessions, time.UnixMilli(ann.End+1)); n != 3 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	want("both gone")
}

// Any order of the same revisions, in any batches, ends in the same rows.
func testOrder(t *testing.T, s Store) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var revisions []ledger.Session
	for id := range 150 {
		for revision := range 3 {
			x := session(fmt.Sprint(id), fmt.Sprint("u", id%7), uint64(revision+1), int64(id*100+revision))
			revisions = append(revisions, x)
		}
	}
	var want []ledger.Session
	for round := range 3 {
		version := fmt.Sprint("v", round)
		define(t, s, version)
		feed := slices.Concat(revisions, revisions)
		rnd.Shuffle(len(feed), func(a, b int) { feed[a], feed[b] = feed[b], feed[a] })
		for len(feed) > 0 {
			n := min(len(feed), 1+rnd.IntN(400))
			apply(t, s, Batch{Definition: version, Sessions: feed[:n]})
			feed = feed[n:]
		}
		got := sessions(t, s, version)
		if want == nil {
			want = got
		}
		if len(got) != 150 || !reflect.DeepEqual(got, want) {
			t.Errorf("round %d differs", round)
		}
	}
}

func testSideBySide(t *testing.T, s Store) {
	define(t, s, "a")
	define(t, s, "b")
	old, redefined := session("1", "ann", 5, 100), session("1", "ann", 1, 110)
	apply(t, s, Batch{Definition: "a", Sessions: []ledger.Session{old}})
	apply(t, s, Batch{Definition: "b", Sessions: []ledger.Session{redefined}})
	if a, b := sessions(t, s, "a"), sessions(t, s, "b"); !reflect.DeepEqual(a, []ledger.Session{old}) || !reflect.DeepEqual(b, []ledger.Session{redefined}) {
		t.Errorf("%+v and %+v", a, b)
	}
}

func testAtomic(t *testing.T, s Store) {
	define(t, s, "a")
	// Two intervals of one start break the table's key, at the end of the batch.
	broken := session("2", "bob", 1, 100)
	broken.Intervals[ledger.Connected] = []interval.Interval{{From: 100, To: 110}, {From: 100, To: 120}}
	b := Batch{
		Definition: "a", Sessions: []ledger.Session{session("1", "ann", 1, 100), broken},
		Rejected: []ledger.Rejected{{Rule: ledger.RuleInput, Source: "f:1"}}, Source: "log", Checkpoint: Checkpoint{1, []byte("7")},
		Daily: []Total{{"UTC", ledger.Connected, Daily{"ann", 1, 20, 20}}},
	}
	if _, err := s.Apply(t.Context(), b); err == nil {
		t.Fatal("not refused")
	}
	c, err := s.Checkpoint(t.Context(), "a", "log")
	if rows := sessions(t, s, "a"); len(rows) != 0 || c.Revision != 0 || err != nil {
		t.Errorf("%d sessions, checkpoint %v, %v", len(rows), c, err)
	}
	if rows := all(t, s.Daily(t.Context(), DailyKey{"a", "UTC", ledger.Connected}, 0, 9)); len(rows) != 0 {
		t.Errorf("%+v", rows)
	}
	if rows := all(t, s.Quarantined(t.Context(), QuarantineQuery{})); len(rows) != 0 {
		t.Errorf("%+v", rows)
	}
}

func testCheckpoints(t *testing.T, s Store) {
	define(t, s, "a")
	define(t, s, "b")
	put := func(version, source string, revision int64, body string) error {
		_, err := s.Apply(t.Context(), Batch{
			Definition: version, Source: source, Checkpoint: Checkpoint{revision, []byte(body)},
			Sessions: []ledger.Session{session(body, "ann", 1, 100)},
		})
		return err
	}
	for _, err := range []error{put("a", "log", 1, "x"), put("a", "log", 2, "y\x00\xff"), put("b", "log", 1, "z")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	// Somebody else was faster, or slower: nothing is stored.
	for _, revision := range []int64{0, 1, 2, 4} {
		if err := put("a", "log", revision, "other"); !errors.Is(err, ErrOvertaken) {
			t.Errorf("revision %d: %v", revision, err)
		}
	}
	if err := put("a", "beats", 2, "other"); !errors.Is(err, ErrOvertaken) {
		t.Errorf("revision 2 of nothing: %v", err)
	}
	for _, c := range []struct {
		version, source string
		want            Checkpoint
	}{{"a", "log", Checkpoint{2, []byte("y\x00\xff")}}, {"b", "log", Checkpoint{1, []byte("z")}}, {"a", "beats", Checkpoint{}}} {
		if got, err := s.Checkpoint(t.Context(), c.version, c.source); !reflect.DeepEqual(got, c.want) || err != nil {
			t.Errorf("%+v: %+v, %v", c, got, err)
		}
	}
	if got := sessions(t, s, "a"); len(got) != 2 {
		t.Errorf("%+v", got)
	}
}

// Of readers that follow one source at once, one stores each checkpoint.
func testOvertaking(t *testing.T, s Store) {
	define(t, s, "a")
	var readers sync.WaitGroup
	var stored atomic.Int64
	for range 4 {
		readers.Go(func() {
			for range 10 {
				c, err := s.Checkpoint(t.Context(), "a", "log")
				if err == nil {
					_, err = s.Apply(t.Context(), Batch{Definition: "a", Source: "log", Checkpoint: Checkpoint{c.Revision + 1, []byte("x")}})
				}
				switch {
				case err == nil:
					stored.Add(1)
				case !errors.Is(err, ErrOvertaken):
					t.Error(err)
				}
			}
		})
	}
	readers.Wait()
	if c, err := s.Checkpoint(t.Context(), "a", "log"); c.Revision != stored.Load() || err != nil {
		t.Errorf("revision %d after %d checkpoints, %v", c.Revision, stored.Load(), err)
	}
}

func testTotals(t *testing.T, s Store) {
	define(t, s, "a")
	total := func(zone, user string, date interval.Date, union int64) Total {
		return Total{zone, ledger.Connected, Daily{user, date, union, union + 1}}
	}
	apply(t, s, Batch{Definition: "a", Daily: []Total{
		total("UTC", "ann", 3, 5), total("UTC", "bob", 3, 7), total("UTC", "ann", 4, 9), total("Europe/Berlin", "ann", 3, 1),
	}})
	apply(t, s, Batch{Definition: "a", Daily: []Total{total("UTC", "ann", 3, 1), total("UTC", "ann", 3, 6), total("UTC", "bob", 3, 0), total("UTC", "eve", 3, 0)}})
	want := []Daily{{"ann", 3, 6, 7}, {"ann", 4, 9, 10}}
	if got := all(t, s.Daily(t.Context(), DailyKey{"a", "UTC", ledger.Connected}, 0, 9)); !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	if _, err := s.Forget(t.Context(), "ann", time.UnixMilli(1)); err != nil {
		t.Fatal(err)
	}
	apply(t, s, Batch{Definition: "a", Daily: []Total{total("UTC", "ann", 3, 1), total("UTC", "eve", 3, 2)}})
	if got := all(t, s.Daily(t.Context(), DailyKey{"a", "UTC", ledger.Connected}, 0, 9)); !slices.Equal(got, []Daily{{"eve", 3, 2, 3}}) {
		t.Errorf("after ann was forgotten: %+v", got)
	}
}

// Whoever follows a fabric does not know that a session which it has refused was released.
func testTotalsAfterRelease(t *testing.T, s Store) {
	define(t, s, "a")
	key := DailyKey{"a", "UTC", ledger.Connected}
	long := session("1", "ann", 4, 100) // of 20 ms
	withdrawn := long
	withdrawn.Intervals = nil
	total := func(user string, union int64) Total {
		return Total{"UTC", ledger.Connected, Daily{user, 0, union, union}}
	}
	apply(t, s, Batch{
		Definition: "a", Sessions: []ledger.Session{withdrawn, session("2", "ann", 1, 200), session("3", "bob", 1, 200)},
		Rejected: []ledger.Rejected{{Rule: ledger.RuleLimit, Whole: &long}}, Daily: []Total{total("ann", 20), total("bob", 20)},
	})
	if _, err := s.Release(t.Context(), all(t, s.Quarantined(t.Context(), QuarantineQuery{}))[0].ID, time.UnixMilli(1)); err != nil {
		t.Fatal(err)
	}
	apply(t, s, Batch{
		Definition: "a", Sessions: []ledger.Session{session("4", "ann", 1, 300), session("5", "bob", 1, 300)},
		Daily: []Total{total("ann", 40), total("bob", 40)},
	})
	want := []Daily{{"ann", 0, 60, 60}, {"bob", 0, 40, 40}}
	if got := all(t, s.Daily(t.Context(), key, 0, 9)); !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}

// A session that is refused again as it grows is one row, whatever the order; an event
// that is delivered again is one too.
func testRefusedAgain(t *testing.T, s Store) {
	define(t, s, "a")
	at := time.UnixMilli(1_700_000_000_000).UTC()
	refused := func(revision uint64, source string) []ledger.Rejected {
		whole := session("1", "ann", revision, 100)
		e := &ledger.Event{At: 5, User: "ann", Device: "d", Session: "1", Epoch: 3, Kind: ledger.KindBeat}
		return []ledger.Rejected{{Rule: ledger.RuleLimit, At: at, Whole: &whole}, {Rule: ledger.RuleClosed, At: at, Event: e, Source: source}}
	}
	apply(t, s, Batch{Definition: "a", Rejected: slices.Concat(refused(2, "log 7"), refused(1, "log 7"))})
	if done := apply(t, s, Batch{Definition: "a", Rejected: refused(1, "log 9")}); done.Rejected != 0 {
		t.Errorf("older: %+v", done)
	}
	row := func() Quarantined {
		t.Helper()
		rows := all(t, s.Quarantined(t.Context(), QuarantineQuery{Released: true}))
		if len(rows) != 2 {
			t.Fatalf("%+v", rows)
		}
		return rows[slices.IndexFunc(rows, func(r Quarantined) bool { return r.Whole != nil })]
	}
	r := row()
	if r.Whole.Revision != 2 {
		t.Errorf("%+v", r.Whole)
	}
	if _, err := s.Release(t.Context(), r.ID, at); err != nil {
		t.Fatal(err)
	}
	// What was dealt with is not dealt with any more when there is more of it.
	if done := apply(t, s, Batch{Definition: "a", Rejected: refused(3, "log 7")}); done.Rejected != 1 {
		t.Errorf("newer: %+v", done)
	}
	if r := row(); r.Whole.Revision != 3 || !r.Released.IsZero() {
		t.Errorf("%+v", r)
	}
}

func testIntervals(t *testing.T, s Store) {
	define(t, s, "a")
	apply(t, s, Batch{Definition: "a", Sessions: []ledger.Session{
		session("2", "bob", 1, 100), session("1", "ann", 1, 105), session("3", "ann", 1, 100),
	}})
	ask := func(q Query) (got []string) {
		q.Definition = "a"
		for _, r := range all(t, s.Intervals(t.Context(), q)) {
			got = append(got, fmt.Sprintf("%s %s %d-%d %s %s", r.User, r.Session, r.From, r.To, r.Device, r.Client.Type))
		}
		return got
	}
	within := interval.Interval{From: 110, To: 121}
	want := []string{"ann 1 105-115 d-ann web", "ann 3 120-130 d-ann web", "bob 2 120-130 d-bob web"}
	if got := ask(Query{Measure: ledger.Connected, Bounds: within}); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := ask(Query{Measure: ledger.Connected, Bounds: within, User: "bob"}); !slices.Equal(got, want[2:]) {
		t.Errorf("of bob: %q", got)
	}
	if got := ask(Query{Measure: ledger.Active, Bounds: within, User: "ann"}); !slices.Equal(got, want[:1]) {
		t.Errorf("active: %q", got)
	}
	bare := all(t, s.Intervals(t.Context(), Query{Definition: "a", Measure: ledger.Connected, Bounds: within, Bare: true}))
	if want := (Row{User: "ann", Interval: interval.Interval{From: 105, To: 115}}); len(bare) != 3 || bare[0] != want {
		t.Errorf("bare: %+v", bare)
	}
	// Whoever has seen enough stops, and the store is as before.
	for range s.Intervals(t.Context(), Query{Definition: "a", Measure: ledger.Connected, Bounds: always}) {
		break
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	failed := false
	for _, err := range s.Intervals(ctx, Query{Definition: "a", Measure: ledger.Connected, Bounds: always}) {
		failed = err != nil
	}
	if !failed {
		t.Error("a question that was cancelled ended without error")
	}
}

func testQuarantine(t *testing.T, s Store) {
	define(t, s, "a")
	define(t, s, "b")
	at := time.UnixMilli(1_700_000_000_123).UTC()
	e := &ledger.Event{At: 5, User: "ann", Device: "d", Session: "1", Kind: ledger.KindBeat}
	rejected := []ledger.Rejected{
		{Rule: ledger.RuleClosed, Reason: "beat after close", At: at, Event: e, Source: "f:1"},
		{Rule: ledger.RuleInput, Reason: "no time", At: at, Raw: ",ann,d,open", Source: "f:2"},
	}
	whole := session("9", "bob", 1, 0)
	rejected = append(rejected, ledger.Rejected{Rule: ledger.RuleLimit, At: at, Whole: &whole, Source: "f:3"})
	if done := apply(t, s, Batch{Definition: "a", Rejected: slices.Concat(rejected, rejected[:1])}); done.Rejected != 3 {
		t.Errorf("%+v", done)
	}
	later := slices.Clone(rejected)
	later[0].At = at.Add(time.Hour)
	if done := apply(t, s, Batch{Definition: "a", Rejected: later}); done.Rejected != 0 {
		t.Errorf("read again: %+v", done)
	}
	// What breaks a rule breaks the rule of a definition; what cannot be read cannot be read.
	if done := apply(t, s, Batch{Definition: "b", Rejected: rejected}); done.Rejected != 2 {
		t.Errorf("under another definition: %+v", done)
	}
	rows := all(t, s.Quarantined(t.Context(), QuarantineQuery{User: "ann"}))
	if len(rows) != 2 || !reflect.DeepEqual(rows[0].Event, e) || !rows[0].At.Equal(at) || rows[0].Source != "f:1" {
		t.Errorf("%+v", rows)
	}
	rows = all(t, s.Quarantined(t.Context(), QuarantineQuery{Rule: ledger.RuleInput}))
	if len(rows) != 1 || rows[0].Raw != ",ann,d,open" {
		t.Errorf("%+v", rows)
	}
}

func testRelease(t *testing.T, s Store) {
	define(t, s, "a")
	at := time.UnixMilli(1_700_000_000_123).UTC()
	long := session("1", "ann", 4, 100)
	withdrawn := long
	withdrawn.Intervals = nil
	refused := Batch{
		Definition: "a", Sessions: []ledger.Session{withdrawn},
		Rejected: []ledger.Rejected{{Rule: ledger.RuleLimit, At: at, Whole: &long}},
	}
	apply(t, s, refused)
	id := all(t, s.Quarantined(t.Context(), QuarantineQuery{}))[0].ID
	for range 2 { // the second time changes nothing
		r, err := s.Release(t.Context(), id, at)
		if err != nil || !r.Released.Equal(at) {
			t.Errorf("%+v, %v", r, err)
		}
	}
	apply(t, s, refused) // the source is read again, which changes nothing
	released := long
	released.Revision = 5
	if got := sessions(t, s, "a"); !reflect.DeepEqual(got, []ledger.Session{released}) {
		t.Errorf("%+v", got)
	}
	if rows := all(t, s.Quarantined(t.Context(), QuarantineQuery{})); len(rows) != 0 {
		t.Errorf("still there: %+v", rows)
	}
	if rows := all(t, s.Quarantined(t.Context(), QuarantineQuery{Released: true})); len(rows) != 1 {
		t.Errorf("away: %+v", rows)
	}
	if _, err := s.Release(t.Context(), "none", at); !errors.Is(err, ErrUnknown) {
		t.Errorf("%v", err)
	}
}

func testForget(t *testing.T, s Store) {
	at := time.UnixMilli(1_700_000_000_000)
	batch := Batch{Sessions: []ledger.Session{session("1", "ann", 1, 100), session("2", "bob", 1, 100)}, Rejected: []ledger.Rejected{
		{Rule: ledger.RuleClosed, Event: &ledger.Event{User: "ann"}}, {Rule: ledger.RuleClosed, Event: &ledger.Event{User: "bob"}},
	}}
	for _, version := range []string{"a", "b"} {
		define(t, s, version)
		batch.Definition = version
		apply(t, s, batch)
	}
	day := DailyKey{"a", "UTC", ledger.Connected}
	if err := s.PutDaily(t.Context(), day, 0, 9, seq(Daily{"ann", 1, 5, 6}, Daily{"bob", 1, 5, 6})); err != nil {
		t.Fatal(err)
	}
	if err := s.Audit(t.Context(), Audit{At: at, Action: "sessions", Subject: "ann"}); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Forget(t.Context(), "ann", at); n.Sessions != 2 || n.Rows <= 2 || err != nil {
		t.Errorf("%+v, %v", n, err)
	}
	if n, err := s.Forget(t.Context(), "ann", at); n != (Erased{}) || err != nil {
		t.Errorf("again: %+v, %v", n, err)
	}
	if n, err := s.Forgets(t.Context()); n != 1 || err != nil {
		t.Errorf("%d users, %v", n, err)
	}
	// Whoever is known only by what was refused was known.
	apply(t, s, Batch{Definition: "a", Rejected: []ledger.Rejected{{Rule: ledger.RuleInput, Raw: "x,eve,d"}}})
	for user, want := range map[string]Erased{"eve": {Rows: 1}, "zoe": {}} {
		if n, err := s.Forget(t.Context(), user, at); n != want || err != nil {
			t.Errorf("%s: %+v, %v", user, n, err)
		}
	}
	// A later import does not bring the user back, not even a newer revision.
	batch.Sessions[0].Revision = 9
	if done := apply(t, s, batch); done != (Applied{Forgotten: 2}) {
		t.Errorf("%+v", done)
	}
	for _, user := range []string{"ann", "bob"} {
		is, err := s.Forgotten(t.Context(), user)
		if is != (user == "ann") || err != nil {
			t.Errorf("%s: %v, %v", user, is, err)
		}
	}
	if left := dump(t, s); strings.Contains(left, `"ann"`) || !strings.Contains(left, `"bob"`) {
		t.Errorf("left of ann:\n%s", left)
	}
}

// dump is everything that a store tells.
func dump(t *testing.T, s Store) string {
	t.Helper()
	var parts []any
	for _, version := range []string{"a", "b"} {
		parts = append(parts, sessions(t, s, version),
			all(t, s.Daily(t.Context(), DailyKey{version, "UTC", ledger.Connected}, 0, 9)),
			all(t, s.Intervals(t.Context(), Query{Definition: version, Measure: ledger.Connected, Bounds: always})))
	}
	parts = append(parts, all(t, s.Quarantined(t.Context(), QuarantineQuery{Released: true})), all(t, s.Audits(t.Context())))
	text, err := json.Marshal(parts)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func seq(rows ...Daily) iter.Seq2[Daily, error] {
	return func(yield func(Daily, error) bool) {
		for _, r := range rows {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func testDaily(t *testing.T, s Store) {
	define(t, s, "a")
	k := DailyKey{"a", "Europe/Berlin", ledger.Connected}
	put := func(k DailyKey, from, to interval.Date, rows iter.Seq2[Daily, error]) error {
		return s.PutDaily(t.Context(), k, from, to, rows)
	}
	for _, err := range []error{
		put(k, 10, 13, seq(Daily{"ann", 10, 1, 2}, Daily{"ann", 12, 3, 4}, Daily{"bob", 11, 5, 6})),
		put(DailyKey{"a", "UTC", ledger.Connected}, 10, 13, seq(Daily{"eve", 10, 1, 1})),
		put(k, 11, 13, seq(Daily{"ann", 11, 7, 8})),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	broken := errors.New("broken")
	if err := put(k, 10, 13, func(yield func(Daily, error) bool) { yield(Daily{}, broken) }); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	want := []Daily{{"ann", 10, 1, 2}, {"ann", 11, 7, 8}}
	if got := all(t, s.Daily(t.Context(), k, 10, 13)); !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	if got := all(t, s.Daily(t.Context(), k, 11, 12)); !slices.Equal(got, want[1:]) {
		t.Errorf("%+v", got)
	}
}

func testAudit(t *testing.T, s Store) {
	want := []Audit{
		{At: time.UnixMilli(5).UTC(), Actor: "op", Action: "export", Detail: "csv"},
		{At: time.UnixMilli(4).UTC(), Actor: "op", Action: "sessions", Subject: "ann"},
	}
	for _, a := range want {
		if err := s.Audit(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	if got := all(t, s.Audits(t.Context())); !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}

func testPrune(t *testing.T, s Store) {
	define(t, s, "a")
	before := time.UnixMilli(200)
	apply(t, s, Batch{
		Definition: "a", Sessions: []ledger.Session{session("1", "ann", 1, 100), session("2", "ann", 1, 170)},
	})
	k := DailyKey{"a", "UTC", ledger.Connected}
	if err := s.PutDaily(t.Context(), k, -5, 5, seq(Daily{"ann", -2, 1, 1}, Daily{"ann", 0, 50, 50})); err != nil {
		t.Fatal(err)
	}
	for _, at := range []time.Time{before.Add(-1e6), before} {
		if err := s.Audit(t.Context(), Audit{At: at}); err != nil {
			t.Fatal(err)
		}
	}
	for _, kind := range []Kind{KindSessions, KindTotals, KindAudit} {
		if n, err := s.Prune(t.Context(), kind, before); n != 1 || err != nil {
			t.Errorf("%s: %d, %v", kind, n, err)
		}
	}
	if got := sessions(t, s, "a"); len(got) != 1 || got[0].ID != "2" || len(got[0].Intervals[ledger.Connected]) != 2 {
		t.Errorf("%+v", got)
	}
	// The day lost a session, so nobody computes it again.
	if err := s.PutDaily(t.Context(), k, -5, 5, seq(Daily{"ann", 0, 30, 30})); err != nil {
		t.Fatal(err)
	}
	apply(t, s, Batch{Definition: "a", Refresh: true, Sessions: []ledger.Session{session("4", "ann", 1, 1_000)}})
	if got := all(t, s.Daily(t.Context(), k, -5, 5)); !slices.Equal(got, []Daily{{"ann", 0, 50, 50}}) {
		t.Errorf("%+v", got)
	}
	if _, err := s.Prune(t.Context(), "all", before); !errors.Is(err, ErrUnknown) {
		t.Errorf("%v", err)
	}
}

// What was refused is as old as the refusal, not as the event: a history of years ago was
// refused when it was imported. With other words, it was refused anew.
func testPruneQuarantine(t *testing.T, s Store) {
	define(t, s, "a")
	refuse := func(reason string) Quarantined {
		t.Helper()
		apply(t, s, Batch{Definition: "a", Rejected: []ledger.Rejected{{Rule: ledger.RuleInput, At: time.UnixMilli(200), Raw: "line", Reason: reason}}})
		return all(t, s.Quarantined(t.Context(), QuarantineQuery{}))[0]
	}
	prune := func(before time.Time, want int64) {
		t.Helper()
		if n, err := s.Prune(t.Context(), KindQuarantine, before); n != want || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	began := time.Now().Truncate(time.Millisecond)
	first := refuse("no time")
	if first.Refused.Before(began) || first.Refused.After(time.Now()) || !first.At.Equal(time.UnixMilli(200)) {
		t.Errorf("%+v", first)
	}
	prune(first.Refused, 0)
	old := s.(*SQL)
	if _, err := old.db.Exec("update quarantine set refused = 300"); err != nil {
		t.Fatal(err)
	}
	if again := refuse("no time"); !again.Refused.Equal(time.UnixMilli(300)) {
		t.Errorf("with the same words: %v", again.Refused)
	}
	if anew := refuse("no zone"); anew.Refused.Before(began) {
		t.Errorf("with other words: %v", anew.Refused)
	}
	prune(began, 0)
	prune(time.Now().Add(time.Millisecond), 1)
}

func testConcurrent(t *testing.T, s Store) {
	define(t, s, "a")
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for n := range 5 {
				var list []ledger.Session
				for id := range 50 { // all writers write the same ones, in another order
					list = append(list, session(fmt.Sprint((id*[]int{1, 3, 7, 9}[w])%50), "ann", uint64(n+1), int64(n)))
				}
				if _, err := s.Apply(t.Context(), Batch{Definition: "a", Sessions: list}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	got := sessions(t, s, "a")
	for _, x := range got {
		if x.Revision != 5 || len(x.Intervals[ledger.Connected]) != 2 {
			t.Errorf("%+v", x)
		}
	}
	if len(got) != 50 {
		t.Errorf("%d sessions", len(got))
	}
}

// A long report holds up nobody, and sees the moment at which it began.
func testReadWhileWriting(t *testing.T, s Store) {
	define(t, s, "a")
	apply(t, s, Batch{Definition: "a", Sessions: []ledger.Session{session("1", "ann", 1, 100), session("2", "bob", 1, 100)}})
	n := 0
	for _, err := range s.Intervals(t.Context(), Query{Definition: "a", Measure: ledger.Connected, Bounds: always}) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 1 {
			apply(t, s, Batch{Definition: "a", Sessions: []ledger.Session{session("3", "eve", 1, 100)}})
		}
	}
	if n != 4 {
		t.Errorf("%d intervals", n)
	}
}

func testText(t *testing.T, s Store) {
	define(t, s, "a")
	odd := "x\x00\xff'\"; drop table sessions; --?"
	apply(t, s, Batch{Definition: "a", Rejected: []ledger.Rejected{{Rule: ledger.RuleInput, Raw: odd, Reason: odd, Source: odd}}})
	x := session("1", "o'neil ? $1", 1, 100)
	nul := session("2", "nul", 1, 200)
	nul.User = "nul\x00"
	apply(t, s, Batch{Definition: "a", Sessions: []ledger.Session{nul}, Daily: []Total{{"UTC", ledger.Connected, Daily{nul.User, 1, 1, 1}}}})
	if n, err := s.Forget(t.Context(), nul.User, time.UnixMilli(1)); n.Sessions != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	apply(t, s, Batch{Definition: "a", Sessions: []ledger.Session{x}})
	if got := sessions(t, s, "a"); !reflect.DeepEqual(got, []ledger.Session{x}) {
		t.Errorf("%+v", got)
	}
	if rows := all(t, s.Quarantined(t.Context(), QuarantineQuery{})); len(rows) != 1 || !strings.Contains(rows[0].Raw, "drop table") {
		t.Errorf("%+v", rows)
	}
}

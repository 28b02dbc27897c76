package store

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/access"
	"github.com/rollcall-io/rollcall/ledger/interval"
)

// Whatever is stored, corrected and released, the totals that are kept are those that
// would be computed now.
func testRefresh(t *testing.T, s Store) {
	rnd := rand.New(rand.NewPCG(5, 6))
	keys := []DailyKey{{"a", "Europe/Berlin", ledger.Connected}, {"a", "UTC", ledger.Connected}, {"a", "UTC", ledger.Active}}
	define(t, s, "a")
	define(t, s, "b")
	for _, k := range keys {
		if err := s.PutDaily(t.Context(), k, 0, 0, seq()); err != nil {
			t.Fatal(err)
		}
	}
	const hour = 3_600_000
	revision := uint64(0)
	for round := range 40 {
		batch := Batch{Definition: []string{"a", "a", "a", "b"}[round%4], Refresh: true}
		for range 1 + rnd.IntN(6) {
			revision++
			id := rnd.IntN(12)
			start := int64(20_530*24+rnd.IntN(200)) * hour
			x := session(fmt.Sprint(id), fmt.Sprint("u", id%3), revision, start)
			x.End = start + int64(1+rnd.IntN(60))*hour
			x.Intervals = map[ledger.Measure][]interval.Interval{ledger.Connected: {{From: start, To: x.End}}, ledger.Active: {{From: start, To: start + hour/2}}}
			if rnd.IntN(6) == 0 {
				x.End, x.Intervals = start, nil // withdrawn
			}
			batch.Sessions = append(batch.Sessions, x)
		}
		if round%10 == 9 {
			long := batch.Sessions[0]
			batch.Rejected = []ledger.Rejected{{Rule: ledger.RuleLimit, Whole: &long}}
			batch.Sessions = nil
		}
		apply(t, s, batch)
		for _, r := range all(t, s.Quarantined(t.Context(), QuarantineQuery{})) {
			if _, err := s.Release(t.Context(), r.ID, time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		for _, k := range keys {
			if got, want := all(t, s.Daily(t.Context(), k, 0, 100_000)), computed(t, s, k); !slices.Equal(got, want) {
				t.Fatalf("round %d, %v:\n%v, want\n%v", round, k, got, want)
			}
		}
	}
}

func computed(t *testing.T, s Store, k DailyKey) (days []Daily) {
	t.Helper()
	z, err := interval.LoadZone(k.Zone)
	if err != nil {
		t.Fatal(err)
	}
	lists := map[string][]interval.Interval{}
	for _, r := range all(t, s.Intervals(t.Context(), Query{Definition: k.Definition, Measure: k.Measure, Bounds: always})) {
		lists[r.User] = append(lists[r.User], r.Interval)
	}
	for _, user := range []string{"u0", "u1", "u2"} {
		days = Totals(days, user, lists[user], z)
	}
	return days
}

func testRules(t *testing.T, s Store) {
	if r, err := s.Rules(t.Context()); err != nil || !r.None() {
		t.Errorf("%+v, %v", r, err)
	}
	rules := access.Rules{
		Accounts: map[string]access.Account{"olga": {Role: access.Auditor}, "tom": {Role: access.Lead, Team: "support"}, "tim": {Role: access.Lead, Team: "none"}},
		Teams:    map[string][]string{"support": {"ann", "bob"}, "none": nil}, Minimum: 9, Zone: "Asia/Tokyo", Others: access.Analyst,
	}
	for range 2 {
		if err := s.SetRules(t.Context(), rules); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Rules(t.Context()); err != nil || !reflect.DeepEqual(got, rules) {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if _, err := s.Forget(t.Context(), "ann", time.Now()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got, err := s.Rules(t.Context()); err != nil || !slices.Equal(got.Teams["support"], []string{"bob"}) {
			t.Errorf("%+v, %v", got, err)
		}
		if err := s.SetRules(t.Context(), rules); err != nil { // does not bring the user back
			t.Fatal(err)
		}
	}
	rules.Others, rules.Teams, rules.Accounts = "", map[string][]string{}, map[string]access.Account{"olga": {Role: access.Auditor}}
	if err := s.SetRules(t.Context(), rules); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Rules(t.Context()); err != nil || !reflect.DeepEqual(got, rules) {
		t.Errorf("%+v, %v", got, err)
	}
}

// Every column of every table that the database has, now and in later versions, is
// searched: before for the user's name, so that a table that a test does not fill fails,
// and afterwards for what is left of it.
func testNothingLeft(t *testing.T, s Store) {
	const name = "zebedee-the-seventh"
	define(t, s, "a")
	long := session("2", name, 1, 100)
	batch := Batch{
		Definition: "a", Refresh: true, Sessions: []ledger.Session{session("1", name, 1, 100)},
		Rejected: []ledger.Rejected{
			{Rule: ledger.RuleClosed, Event: &ledger.Event{User: name}}, {Rule: ledger.RuleLimit, Whole: &long},
			{Rule: ledger.RuleInput, Raw: `{"user": "` + name + `", "time": oops`, Source: "f:1"}, {Rule: ledger.RuleInput, Raw: "no time, " + name + ",d,open", Source: "f:2"},
			{Rule: ledger.RuleInput, Raw: "x," + name + "-too,d,open", Source: "f:3"},
		},
	}
	if err := s.PutDaily(t.Context(), DailyKey{"a", "UTC", ledger.Connected}, 0, 9, seq()); err != nil {
		t.Fatal(err)
	}
	apply(t, s, batch)
	rules := access.Rules{Accounts: map[string]access.Account{"olga": {Role: access.Auditor}}, Teams: map[string][]string{"x": {name}}, Minimum: 5, Zone: "UTC"}
	if err := s.SetRules(t.Context(), rules); err != nil {
		t.Fatal(err)
	}
	if err := s.Audit(t.Context(), Audit{Action: "sessions", Subject: name}); err != nil {
		t.Fatal(err)
	}
	// Tables that never name a user; what a checkpoint holds is its reader's matter.
	nameless := []string{"accounts", "checkpoints", "definitions", "forgotten", "kept", "meta", "rebuilds"}
	for table, text := range dumpTables(t, s.(*SQL)) {
		if strings.Contains(text, name) == slices.Contains(nameless, table) {
			t.Errorf("table %s: the test fills it with the user, or it is known to name none: not so here\n%s", table, text)
		}
	}
	if _, err := s.Forget(t.Context(), name, time.Now()); err != nil {
		t.Fatal(err)
	}
	if done := apply(t, s, batch); done.Sessions != 0 || done.Rejected != 0 || done.Forgotten != 5 {
		t.Errorf("read again: %+v", done)
	}
	for table, text := range dumpTables(t, s.(*SQL)) {
		if strings.Contains(strings.ReplaceAll(text, name+"-too", ""), name) {
			t.Errorf("table %s still names the user:\n%s", table, text)
		}
	}
	if left := all(t, s.Quarantined(t.Context(), QuarantineQuery{})); len(left) != 1 || left[0].Source != "f:3" {
		t.Errorf("of somebody with a longer name: %+v", left)
	}
}

// dumpTables is the text of all tables.
func dumpTables(t *testing.T, s *SQL) map[string]string {
	t.Helper()
	list := "select name from sqlite_master where type = 'table' and name not like 'sqlite_%'"
	if s.dialect == postgres {
		list = "select table_name from information_schema.tables where table_schema = current_schema() and table_type = 'BASE TABLE'"
	}
	rows, err := s.db.QueryContext(t.Context(), list)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := collect[string](rows)
	if err != nil || len(tables) == 0 {
		t.Fatal(tables, err)
	}
	dump := map[string]string{}
	for _, table := range tables {
		dump[table] = dumpTable(t, s, table)
	}
	return dump
}

func dumpTable(t *testing.T, s *SQL, table string) string {
	t.Helper()
	rows, err := s.db.QueryContext(t.Context(), "select * from "+table)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for rows.Next() {
		cells := make([]sql.RawBytes, len(names))
		at := make([]any, len(names))
		for k := range cells {
			at[k] = &cells[k]
		}
		if err := rows.Scan(at...); err != nil {
			t.Fatal(err)
		}
		for _, c := range cells {
			fmt.Fprintf(&text, "%s|", c)
		}
		text.WriteByte('\n')
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

package store

import (
	"database/sql"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/access"
	"github.com/rollcall-io/rollcall/ledger/interval"
)

// On the first day three users, on the second two; a day that has not ended everywhere
// has all.
func fillViews(t *testing.T, s *SQL, lead string) {
	t.Helper()
	define(t, s, "a")
	rules := access.Rules{
		Accounts: map[string]access.Account{"olga": {Role: access.Auditor}, lead: {Role: access.Lead, Team: "support"}},
		Teams:    map[string][]string{"support": {"u1", "u3"}}, Minimum: 3, Zone: "UTC",
	}
	if err := s.SetRules(t.Context(), rules); err != nil {
		t.Fatal(err)
	}
	first := interval.DateOf(2026, 1, 1)
	today, err := interval.ParseDate(time.Now().UTC().Format(time.DateOnly))
	if err != nil {
		t.Fatal(err)
	}
	var rows []Daily
	for _, day := range []interval.Date{first, first + 1, today} {
		for n := range 3 {
			if day != first+1 || n != 2 {
				rows = append(rows, Daily{User: fmt.Sprint("u", n+1), Date: day, Union: 1000, Sum: 2000})
			}
		}
	}
	// Days of another zone would tell together with these what happened in an hour.
	for _, zone := range []string{"UTC", "Asia/Kathmandu"} {
		if err := s.PutDaily(t.Context(), DailyKey{"a", zone, ledger.Connected}, first, today+1, seq(rows...)); err != nil {
			t.Fatal(err)
		}
	}
}

const analystView = "select day || ' ' || users || ' ' || cast(union_seconds as integer) || ' ' || cast(sum_seconds as integer) from analyst_daily order by 1"

var analystRows = []string{"2026-01-01 3 3 6"}

func texts(t *testing.T, db *sql.DB, query string) []string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	list, err := collect[string](rows)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestSQLiteViews(t *testing.T) {
	s := openSQLite(t).(*SQL)
	fillViews(t, s, "tom")
	if got := texts(t, s.db, analystView); !slices.Equal(got, analystRows) {
		t.Errorf("%q", got)
	}
	// SQLite knows no accounts.
	if got := texts(t, s.db, "select user_id from lead_daily"); len(got) != 0 {
		t.Errorf("%q", got)
	}
}

//go:build postgres

package store

import (
	"crypto/rand"
	"database/sql"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// PostgreSQL itself holds analysts and leads to what they may see; the grants are those
// of docs/online-time.md.
func TestPostgresViews(t *testing.T) {
	place := postgresPlace(t)
	s, err := Open(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ann, tom := "ann_"+strings.ToLower(rand.Text()), "tom_"+strings.ToLower(rand.Text())
	fillViews(t, s, tom)
	u, err := url.Parse(place)
	if err != nil {
		t.Fatal(err)
	}
	schema := u.Query().Get("search_path")
	as := map[string]*sql.DB{}
	for account, view := range map[string]string{ann: "analyst_daily", tom: "lead_daily"} {
		for _, statement := range []string{
			"create role " + account + " login password 'x'",
			"grant usage on schema " + schema + " to " + account,
			"grant select on " + view + " to " + account,
		} {
			if _, err := s.db.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		t.Cleanup(func() {
			db, err := sql.Open("pgx", place)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if _, err := db.Exec("drop owned by " + account + "; drop role " + account); err != nil {
				t.Error(err)
			}
		})
		u.User = url.UserPassword(account, "x")
		db, err := sql.Open("pgx", u.String())
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		as[account] = db
	}
	if got := texts(t, as[ann], analystView); !slices.Equal(got, analystRows) {
		t.Errorf("%q", got)
	}
	if got := texts(t, as[tom], "select user_id || ' ' || day || ' ' || cast(union_seconds as integer) from lead_daily order by 1"); !slices.Equal(got, []string{"u1 2026-01-01 1", "u1 2026-01-02 1", "u3 2026-01-01 1"}) {
		t.Errorf("%q", got)
	}
	for account, db := range as {
		for _, table := range []string{"daily", "sessions", "intervals", "quarantine", "audit", "teams", "accounts", "meta"} {
			if _, err := db.ExecContext(t.Context(), "select * from "+table); err == nil || !strings.Contains(err.Error(), "permission denied") {
				t.Errorf("%s reads %s: %v", account, table, err)
			}
		}
	}
}

//go:build postgres

package main

import (
	"database/sql"
	"net/url"
	"os"
	"testing"
)

// The page shows the same on PostgreSQL.
func TestOnlineTimePageOnPostgres(t *testing.T) {
	place := os.Getenv("ROLLCALL_POSTGRES")
	if place == "" {
		t.Fatal("ROLLCALL_POSTGRES is not set; ROLLCALL_POSTGRES=$(.ci/postgres start)")
	}
	u, err := url.Parse(place)
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("pgx", place)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	const schema = "rollcall_page"
	for _, statement := range []string{"drop schema if exists " + schema + " cascade", "create schema " + schema} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	options := u.Query()
	options.Set("search_path", schema)
	u.RawQuery = options.Encode()
	followOnlineTime(t, u.String())
}

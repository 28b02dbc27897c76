//go:build postgres

package store

import (
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"sync/atomic"
	"testing"
)

var schemas atomic.Int64

// postgresPlace is a schema of its own, removed after the test.
func postgresPlace(t *testing.T) string {
	t.Helper()
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
	name := fmt.Sprintf("rollcall_test_%d_%d", os.Getpid(), schemas.Add(1))
	if _, err := db.ExecContext(t.Context(), "create schema "+name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := db.Exec("drop schema " + name + " cascade"); err != nil {
			t.Error(err)
		}
		db.Close()
	})
	options := u.Query()
	options.Set("search_path", name)
	u.RawQuery = options.Encode()
	return u.String()
}

func TestPostgres(t *testing.T) {
	conformance(t, func(t *testing.T) Store {
		s, err := Open(t.Context(), postgresPlace(t))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	})
}

func TestPostgresMigrations(t *testing.T) { testMigrations(t, postgresPlace) }

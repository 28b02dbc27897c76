// Package pgtest gives tests a PostgreSQL of their own: a schema of the server whose URL
// is in ROLLCALL_POSTGRES, which .ci/postgres prints. Without it such a test fails.
package pgtest

import (
	"crypto/rand"
	"database/sql"
	"net/url"
	"os"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
)

// Place is the URL of a schema that is removed after the test.
func Place(t testing.TB) string {
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
	name := "rollcall_test_" + strings.ToLower(rand.Text())
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

//go:build postgres

package e2e_test

import (
	"crypto/rand"
	"database/sql"
	"net/url"
	"os"
	"strings"
	"testing"
)

// ledgerPlace is a schema of its own, removed after the test: the tests of the ledger run
// on PostgreSQL then.
func ledgerPlace(t *testing.T) string {
	t.Helper()
	place := os.Getenv("ROLLCALL_POSTGRES")
	u, err := url.Parse(place)
	if err != nil || place == "" {
		t.Fatalf("ROLLCALL_POSTGRES is %q; ROLLCALL_POSTGRES=$(.ci/postgres start): %v", place, err)
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

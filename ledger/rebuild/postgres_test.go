//go:build postgres

package rebuild_test

import (
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
)

// The same on PostgreSQL, in a schema of its own; its URL comes from ROLLCALL_POSTGRES.
func TestKilledOnPostgres(t *testing.T) {
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
	schema := fmt.Sprintf("rollcall_rebuild_%d", os.Getpid())
	if _, err := db.ExecContext(t.Context(), "create schema "+schema); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if db, err := sql.Open("pgx", place); err == nil {
			db.Exec("drop schema " + schema + " cascade")
			db.Close()
		}
	})
	options := u.Query()
	options.Set("search_path", schema)
	u.RawQuery = options.Encode()
	testKilled(t, u.String())
}

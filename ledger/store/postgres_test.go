//go:build postgres

package store

import (
	"testing"

	"github.com/rollcall-io/rollcall/internal/pgtest"
)

func postgresPlace(t *testing.T) string { return pgtest.Place(t) }

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

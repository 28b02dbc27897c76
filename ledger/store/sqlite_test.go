package store

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func sqlitePlace(t *testing.T) string { return filepath.Join(t.TempDir(), "a #?dir", "ledger.db") }

func openSQLite(t *testing.T) Store {
	s, err := Open(t.Context(), sqlitePlace(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestSQLite(t *testing.T) { conformance(t, openSQLite) }

func TestSQLiteMigrations(t *testing.T) { testMigrations(t, sqlitePlace) }

// Nobody else on the machine reads who was online.
func TestSQLiteFileIsPrivate(t *testing.T) {
	at := sqlitePlace(t)
	s, err := Open(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, name := range []string{at, at + "-wal"} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info, err)
		}
	}
}

func TestPlaces(t *testing.T) {
	for _, place := range []string{"", "mysql://x", "nats://127.0.0.1", "postgres://a:secret@x:port/"} {
		if _, err := Open(t.Context(), place); !errors.Is(err, ErrURL) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", place, err)
		}
	}
}

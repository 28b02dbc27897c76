//go:build postgres

package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/rollcall-io/rollcall/internal/pgtest"
)

// docs/online-time.md shows the same on PostgreSQL.
func TestOnlineTimePageOnPostgres(t *testing.T) { followOnlineTime(t, pgtest.Place(t)) }

// The same commands say the same on PostgreSQL.
func TestLedgerOnPostgres(t *testing.T) {
	place := pgtest.Place(t)
	file, dir := writeTrace(t, history), filepath.Join(t.TempDir(), "data")
	ask := func(args ...string) string { return ledgerSays(t, dir, append(args, "--store", place)...) }
	ask("import", file, "--cap", "0")
	ask("import", file, "--cap", "0")
	rows := ask("report", "--by", "user,day", "--zone", "Europe/Berlin", "--format", "csv", "--definition", "1,cap=0s")
	for _, want := range []string{"ann,2026-07-29,1800.000\n", "bob,2026-07-29,600.000\n", "bob,2026-07-30,1800.000\n"} {
		if !strings.Contains(rows, want) {
			t.Errorf("no %q in\n%s", want, rows)
		}
	}
	if exported := ask("export", "--definition", "1,cap=0s"); strings.Count(exported, "\nann,") != 2 {
		t.Error(exported)
	}
	if list := ask("quarantine", "list", "--user", "bob"); strings.Count(list, "bob") != 3 {
		t.Error(list)
	}
	if got := ask("sessions", "ann", "--format", "csv", "--definition", "1,cap=0s"); strings.Count(got, "\n") != 3 {
		t.Error(got)
	}
	ask("forget", "bob")
	if list := ask("quarantine", "list", "--user", "bob"); strings.Count(list, "bob") != 0 {
		t.Error(list)
	}
}

//go:build !postgres

package e2e_test

import (
	"path/filepath"
	"testing"
)

// ledgerPlace is where the ledger of a test is.
func ledgerPlace(t *testing.T) string { return filepath.Join(t.TempDir(), "ledger.db") }

//go:build postgres

package e2e_test

import (
	"testing"

	"github.com/rollcall-io/rollcall/internal/pgtest"
)

// ledgerPlace is where the ledger of a test is: on PostgreSQL, with this tag.
func ledgerPlace(t *testing.T) string { return pgtest.Place(t) }

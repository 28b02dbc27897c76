//go:build postgres

package rebuild_test

import (
	"testing"

	"github.com/rollcall-io/rollcall/internal/pgtest"
)

// The same on PostgreSQL, in a schema of its own.
func TestKilledOnPostgres(t *testing.T) { testKilled(t, pgtest.Place(t)) }

//go:build postgres

package main

import (
	"testing"

	"github.com/rollcall-io/rollcall/internal/pgtest"
)

func TestLedgerRunIsKilledOnPostgres(t *testing.T) { killLedgers(t, pgtest.Place(t)) }

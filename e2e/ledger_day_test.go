//go:build !race

package e2e_test

// A day takes minutes under the race detector, which finds no more in it than in the
// ten minutes of TestLedgerOfACutEdge. For the same reason the traces and the three
// hundred devices for each way of leaving go without it.

import (
	"testing"
	"time"

	"github.com/rollcall-io/rollcall/e2e"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/ledger"
)

// TestLedgerOfADay plays a day of the trace through the whole fabric. The ledger that
// followed it live and the one that is built from the streams afterwards are equal.
func TestLedgerOfADay(t *testing.T) {
	events := readTrace(t, "testdata/irc-netsplit-1d.csv")
	lab.Bubble(t, func(t *testing.T) {
		f := e2e.New(t, e2e.Options{Shards: 2})
		f.StartKeeper()
		stop := keepBooks(t, f)
		leave := playTrace(t, f, events)
		f.At(f.Now() + 5*time.Minute)
		leave()
		live := stop()
		rebuilt := rebuild(t, f)
		rebuilt.mustEqual(live)
		rebuilt.mustEqual(rebuildCrashing(t, f, 1))
		t.Logf("%d sessions, %d rows live, %d heartbeats, connected %s, active %s, in quarantine %d", len(live.rows), live.revised,
			live.beats, live.total(ledger.Connected), live.total(ledger.Active), len(live.rejected))
	})
}

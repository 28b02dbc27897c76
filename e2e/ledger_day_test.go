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
	"github.com/rollcall-io/rollcall/ledger/live"
	rebuilder "github.com/rollcall-io/rollcall/ledger/rebuild"
)

// TestLedgerOfADay plays a day of the trace through the whole fabric. The ledger that
// followed it live, the one that is built from the streams afterwards, and the one that is
// rebuilt into another store are equal.
func TestLedgerOfADay(t *testing.T) {
	zones := []string{"UTC", "Asia/Kolkata", "America/New_York"} // midnight at 0, 18:30 and 5 UTC
	events := e2e.ReadTrace(t, "testdata/irc-netsplit-1d.csv")
	lab.Bubble(t, func(t *testing.T) {
		f := e2e.New(t, e2e.Options{Shards: 2})
		f.StartKeeper()
		s := openLedger(t)
		f.StartLedger(&e2e.Database{Store: s}, live.Config{Definition: onlineTime, Zones: zones, Interval: time.Minute})
		leave := f.Play(events)
		f.At(f.Now() + 5*time.Minute)
		leave()
		settle(f)
		kept := stored(t, s, "1")
		rebuilt := rebuild(t, f, onlineTime)
		rebuilt.mustEqual(kept)
		rebuildStored(t, rebuilder.Stream(f.JS, f.Names.Names, plainly)).mustEqual(kept)
		mustAddUp(t, s, "1", zones...)
		t.Logf("%d sessions, %d heartbeats, connected %s, active %s, in quarantine %d", len(kept.rows), rebuilt.beats,
			kept.total(ledger.Connected), kept.total(ledger.Active), len(kept.rejected))
	})
}

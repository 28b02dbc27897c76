package e2e_test

import (
	"testing"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/e2e"
	"github.com/rollcall-io/rollcall/edge"
)

// speaker connects a device of ann that speaks only when the story says so.
func (f *stage) speaker(g *e2e.Edge, device string) *edge.Conn {
	f.T.Helper()
	conn, err := g.Node.Connect("ann", device, active)
	if err != nil {
		f.T.Fatal(err)
	}
	return conn
}

// wantSeen fails unless ann is shown offline and last seen at that second.
func (f *stage) wantSeen(v *e2e.Viewer, at time.Duration) {
	f.T.Helper()
	s, _ := v.State("ann")
	if s.View.Status != rollcall.StatusOffline || s.View.LastSeenMinute != f.Minute(at) {
		f.T.Errorf("at %s ann is %s, last seen %s; want offline, last seen %s", f.Now(), s.View.Status,
			s.View.LastSeenMinute.Time().Format(time.TimeOnly), f.Minute(at).Time().Format(time.TimeOnly))
	}
	if seen := f.Since(rollcall.Micros(f.ViewOf("ann").Seen)); seen != at {
		f.T.Errorf("the keeper says last seen at %s, want %s", seen, at)
	}
}

// A device that last spoke at 170 is found offline in the minute after next: last seen
// is when it spoke, not when that was noticed.
func TestScenario39LastSeenIsWhenItSpoke(t *testing.T) {
	scenario(t, e2e.Options{}, func(t *testing.T, f *stage) {
		v := f.StartViewer("vera", "ann")
		phone := f.speaker(f.StartEdge("g1"), "phone")
		for seq := range uint32(6) {
			f.At(20*second + time.Duration(seq)*30*second)
			phone.Beat(seq + 1)
		}
		spoke := f.Now()
		f.At(260 * second)
		if got := v.Status("ann"); got != rollcall.StatusOnline {
			t.Fatalf("ann is %s at 260, want still online", got)
		}
		f.At(280 * second)
		f.wantSeen(v, spoke)
	})
}

// Last seen never goes back: not when the device that spoke longer ago is the last to
// leave, not over a restart of keeper and fanout, not with the crash of an edge.
func TestScenario40LastSeenNeverGoesBack(t *testing.T) {
	scenario(t, e2e.Options{}, func(t *testing.T, f *stage) {
		v := f.StartViewer("vera", "ann")
		g1, g2 := f.StartEdge("g1"), f.StartEdge("g2")
		phone, laptop := f.speaker(g1, "phone"), f.speaker(g2, "laptop")
		for seq := range uint32(7) {
			f.At(time.Duration(seq+1) * 30 * second)
			laptop.Beat(seq + 1)
			if f.Now() <= 180*second {
				phone.Beat(seq + 1)
			}
		}
		f.At(240 * second)
		laptop.Close()
		f.At(290 * second) // the phone, silent since 180, is found last
		f.wantSeen(v, 240*second)

		f.keeper.Kill()
		f.fanout.Kill()
		f.At(300 * second)
		f.keeper, f.fanout = f.StartKeeper(), f.StartFanout()
		f.At(320 * second)
		f.wantSeen(v, 240*second)

		f.At(600 * second)
		phone = f.speaker(g1, "phone")
		f.At(601 * second)
		phone.Close() // a goodbye is a sign of life
		f.At(700 * second)
		f.wantSeen(v, 601*second)

		f.At(800 * second)
		f.speaker(g2, "laptop")
		f.At(801 * second)
		g2.Kill() // it has said nothing since the laptop came
		f.At(801*second + f.Params.Bounds().EdgeCrash.Latest)
		f.wantSeen(v, 800*second)
	})
}

package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/rollcall-io/rollcall/e2e"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// A device on g1 loses its network for six seconds and comes back on g2; g1 notices
// after its timeout: nothing is published, and g2 keeps the lease.
func TestScenario06RoamingToAnotherEdge(t *testing.T) {
	for _, told := range []bool{true, false} {
		t.Run(fmt.Sprintf("g1 is told %v", told), func(t *testing.T) {
			scenario(t, e2e.Options{}, func(t *testing.T, f *stage) {
				v := f.StartViewer("vera", "ann")
				g1, g2 := f.StartEdge("g1"), f.StartEdge("g2")
				older := f.Connect(g1, "ann", "phone")
				f.At(100 * second)
				older.Silence()
				if !told {
					g1.Link.Cut() // or the keeper would tell it, long before its timeout
				}
				f.At(106 * second)
				f.Connect(g2, "ann", "phone")
				f.At(185 * second)
				g1.Link.Heal()
				f.At(400 * second)
				v.Want("ann online@0")
				f.wantLease("g2")
				if told {
					wantOne(t, "superseded on g1", g1.Superseded(), older)
					return
				}
				wantOne(t, "dead on g1", g1.Dead(), older)
				if got := f.keeper.Stats().RejectedStale; got != 1 {
					t.Errorf("rejected_stale = %d, want 1 for the late close", got)
				}
			})
		})
	}
}

// The new connection is stored before the close of the old one, or the other way
// round: the same result, and no event.
func TestScenario07OpenAndCloseInEitherOrder(t *testing.T) {
	var results []*wire.UserRecord
	for _, slow := range []string{"g1", "g2"} {
		t.Run(slow+" is slow", func(t *testing.T) {
			scenario(t, e2e.Options{}, func(t *testing.T, f *stage) {
				v := f.StartViewer("vera", "ann")
				edges := map[string]*e2e.Edge{"g1": f.StartEdge("g1"), "g2": f.StartEdge("g2")}
				older := f.Connect(edges["g1"], "ann", "phone")
				f.At(100 * second)
				edges[slow].Link.Delay(2 * second)
				older.Close()
				f.Connect(edges["g2"], "ann", "phone")
				f.At(300 * second)
				v.Want("ann online@0")
				f.wantLease("g2")
				results = append(results, withoutSequences(f.UserOf("ann")))
			})
		})
	}
	if len(results) == 2 && !proto.Equal(results[0], results[1]) {
		t.Errorf("in one order %v\nin the other %v", results[0], results[1])
	}
}

// withoutSequences leaves out of a record what only counts messages, the process ids,
// which differ from run to run, and the last sign of life of a connection that was
// replaced, which nobody sees.
func withoutSequences(r *wire.UserRecord) *wire.UserRecord {
	r.Sequence, r.Shown.Version, r.Seen = 0, 0, 0
	for _, ep := range r.Endpoints {
		ep.Current.Incarnation = 0
	}
	return r
}

// g1 was cut off when the device connected, and stores that open 40 s later. The
// device has gone to g2 meanwhile, and g2 stays current.
func TestScenario08LateOpenOfAnOlderConnection(t *testing.T) {
	scenario(t, e2e.Options{}, func(t *testing.T, f *stage) {
		v := f.StartViewer("vera", "ann")
		g1, g2 := f.StartEdge("g1"), f.StartEdge("g2")
		f.At(95 * second)
		g1.Link.Cut()
		f.At(100 * second)
		older := f.Connect(g1, "ann", "phone")
		f.At(110 * second)
		f.Connect(g2, "ann", "phone")
		f.At(140 * second)
		g1.Link.Heal()
		f.At(150 * second)
		f.wantLease("g2")
		wantOne(t, "superseded on g1", g1.Superseded(), older)
		f.At(400 * second)
		v.Want("ann online@110")
		f.wantLease("g2")
		if s := f.keeper.Stats(); s.RejectedStale != 1 || s.Mismatches != 0 {
			t.Errorf("rejected_stale = %d, mismatches = %d, want 1 and 0", s.RejectedStale, s.Mismatches)
		}
	})
}

// Heartbeats of the old connection arrive after the new one has opened, on the same
// edge and on another that does not know better: the old one stays dead.
func TestScenario09HeartbeatsOfTheOldConnection(t *testing.T) {
	scenario(t, e2e.Options{}, func(t *testing.T, f *stage) {
		v := f.StartViewer("vera", "ann")
		g1, g2 := f.StartEdge("g1"), f.StartEdge("g2")
		first := f.Connect(g1, "ann", "phone")
		f.At(50 * second)
		second1 := f.Connect(g1, "ann", "phone")
		if first.Beat(100) {
			t.Error("a replaced connection took a heartbeat")
		}
		f.At(100 * second)
		g1.Link.Cut()
		f.Connect(g2, "ann", "phone")
		for at := 110; at <= 160; at += 10 {
			f.At(time.Duration(at) * second)
			if !second1.Beat(uint32(at)) {
				t.Errorf("the old connection refused a heartbeat at %d, before g1 could know", at)
			}
		}
		g1.Link.Heal()
		f.At(300 * second) // past a renewal
		if second1.Beat(1000) {
			t.Error("a superseded connection took a heartbeat")
		}
		f.wantLease("g2")
		v.Want("ann online@0")
	})
}

// A device closes in the middle of opening, wherever the open is on its way to the
// store, a second away in each direction: nothing is left behind.
func TestScenario10ClosedWhileOpening(t *testing.T) {
	for _, tc := range []struct {
		name  string
		after time.Duration
		want  []string
	}{
		{"waiting behind another frame", 0, nil},
		{"in flight", 500 * time.Millisecond, []string{"ann online@101", "ann offline@123"}},
		{"stored", 1500 * time.Millisecond, []string{"ann online@101", "ann offline@123"}},
		{"acknowledged", 10 * second, []string{"ann online@101", "ann offline@131"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			scenario(t, e2e.Options{Shards: 1}, func(t *testing.T, f *stage) {
				v := f.StartViewer("vera", "ann")
				g := f.StartEdge("g1")
				f.At(100 * second)
				g.Link.Delay(second)
				if tc.after == 0 {
					bob := f.Connect(g, "bob", "phone")
					f.Wait()
					defer bob.Close()
				}
				phone := f.Connect(g, "ann", "phone")
				if tc.after > 0 {
					f.At(100*second + tc.after)
				}
				phone.Close()
				f.At(400 * second)
				v.Want(tc.want...)
				if record := f.UserOf("ann"); record != nil && record.Endpoints[0].Current != nil {
					t.Errorf("left behind: %v", record)
				}
				if s := g.Stats(); s.PairsDropped != uint64(1-min(len(tc.want), 1)) || s.Resyncs != 0 {
					t.Errorf("%d pairs never told, %d rosters", s.PairsDropped, s.Resyncs)
				}
			})
		})
	}
}

// The debounce runs when the device returns, leaves and returns again: one timer, no
// event. It begins anew with the last leave.
func TestScenario11OneDebounce(t *testing.T) {
	scenario(t, e2e.Options{}, func(t *testing.T, f *stage) {
		v := f.StartViewer("vera", "ann")
		g := f.StartEdge("g1")
		phone := f.Connect(g, "ann", "phone")
		f.At(100 * second)
		phone.Close()
		f.At(110 * second)
		phone = f.Connect(g, "ann", "phone")
		f.At(115 * second)
		phone.Close()
		f.At(134 * second) // past the first timer, within the second
		phone = f.Connect(g, "ann", "phone")
		f.At(300 * second)
		v.Want("ann online@0")
		phone.Close()
		f.At(400 * second)
		v.Want("ann online@0", "ann offline@320")
	})
}

// A laptop's lid closes, opens for two seconds and closes: at most one online and one
// offline event, and none of either within the debounce.
func TestScenario12LidOpensForAMoment(t *testing.T) {
	for open, want := range map[time.Duration][]string{
		110 * second: {"ann online@0", "ann offline@132"},
		150 * second: {"ann online@0", "ann offline@120", "ann online@150", "ann offline@172"},
	} {
		t.Run("at "+open.String(), func(t *testing.T) {
			scenario(t, e2e.Options{}, func(t *testing.T, f *stage) {
				v := f.StartViewer("vera", "ann")
				g := f.StartEdge("g1")
				laptop := f.Connect(g, "ann", "laptop")
				f.At(100 * second)
				laptop.Close()
				f.At(open)
				laptop = f.Connect(g, "ann", "laptop")
				f.At(open + 2*second)
				laptop.Close()
				f.At(400 * second)
				v.Want(want...)
			})
		})
	}
}

//go:build !race

package e2e_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/e2e"
)

var evidence = flag.String("evidence", "", "write the table of detection latencies to this file")

// leavers is how many devices leave in each way.
const leavers = 300

// TestDetectionLatency lets devices leave at random moments, each way in a fabric
// of its own, and holds what a viewer sees against the bounds.
func TestDetectionLatency(t *testing.T) {
	ways := []struct {
		way   rollcall.Way
		leave func(*testing.T, *e2e.Fabric) map[string]time.Duration // when each user left
	}{
		{rollcall.WayClose, leaveOneByOne((*e2e.Device).Close)},
		{rollcall.WayHalfOpen, leaveOneByOne((*e2e.Device).Silence)},
		{rollcall.WayEdgeCrash, leaveWithTheirEdge(false)},
		{rollcall.WayEdgeRestart, leaveWithTheirEdge(true)},
	}
	table := make(map[string]latency)
	for _, w := range ways {
		t.Run(w.way.String(), func(t *testing.T) {
			bubble(t, e2e.Options{}, func(t *testing.T, f *e2e.Fabric) {
				v := f.StartAudience(30*second, names("u", leavers)...)
				left := w.leave(t, f)
				f.At(f.Now() + 200*second)
				bound, _ := f.Params.Bounds().Of(w.way)
				table[w.way.String()] = measure(t, v, left, bound)
			})
		})
	}
	if *evidence != "" && !t.Failed() {
		writeEvidence(t, *evidence, map[string]any{
			"what":   fmt.Sprintf("seconds from leaving until a viewer was told, %d devices each, default parameters, virtual time", leavers),
			"params": rollcall.Default(), "ways": table,
		})
	}
}

type latency struct {
	Min      float64 `json:"min"`
	Median   float64 `json:"median"`
	Max      float64 `json:"max"`
	Earliest float64 `json:"bound_earliest"`
	Bound    float64 `json:"bound_latest"`
	Devices  int     `json:"devices"`
}

func measure(t *testing.T, v *e2e.Audience, left map[string]time.Duration, bound rollcall.Window) latency {
	var all []time.Duration
	for user, at := range left {
		rows := v.RowsOf(user)
		if len(rows) != 2 || rows[1].Status != rollcall.StatusOffline {
			t.Fatalf("%s: %v, want online and offline", user, rows)
		}
		d := rows[1].At - at
		if !bound.Contains(d) {
			t.Errorf("%s: offline after %s, the bound is %v", user, d, bound)
		}
		all = append(all, d)
	}
	slices.Sort(all)
	l := latency{all[0].Seconds(), all[len(all)/2].Seconds(), all[len(all)-1].Seconds(),
		bound.Earliest.Seconds(), bound.Latest.Seconds(), len(all)}
	t.Logf("%+v", l)
	// Spread out: moments that are random must not be noticed in step.
	if spread := bound.Latest - bound.Earliest; spread > 0 && all[len(all)-1]-all[0] < spread/2 {
		t.Errorf("all latencies between %s and %s, want them spread over %s", all[0], all[len(all)-1], spread)
	}
	return l
}

func leaveOneByOne(leave func(*e2e.Device)) func(*testing.T, *e2e.Fabric) map[string]time.Duration {
	return func(t *testing.T, f *e2e.Fabric) map[string]time.Duration {
		g := f.StartEdge("g1")
		random := rand.New(rand.NewPCG(7, 7))
		left := make(map[string]time.Duration)
		type departure struct {
			at     time.Duration
			user   string
			device *e2e.Device
		}
		var plan []departure
		for _, user := range names("u", leavers) {
			f.At(f.Now() + time.Duration(random.IntN(100))*time.Millisecond)
			at := 120*second + time.Duration(random.IntN(300_000))*time.Millisecond
			plan = append(plan, departure{at, user, f.Connect(g, user, "phone")})
		}
		slices.SortFunc(plan, func(a, b departure) int { return int(a.at - b.at) })
		for _, d := range plan {
			f.At(d.at)
			leave(d.device)
			left[d.user] = f.Now()
		}
		return left
	}
}

// leaveWithTheirEdge kills edges with ten devices each, and may start them again,
// without their devices.
func leaveWithTheirEdge(restart bool) func(*testing.T, *e2e.Fabric) map[string]time.Duration {
	const perEdge = 10
	return func(t *testing.T, f *e2e.Fabric) map[string]time.Duration {
		random := rand.New(rand.NewPCG(8, 8))
		left := make(map[string]time.Duration)
		users := names("u", leavers)
		var edges []*e2e.Edge
		for i := range leavers / perEdge {
			g := f.StartEdge(fmt.Sprintf("g%02d", i))
			edges = append(edges, g)
			for _, u := range users[i*perEdge : (i+1)*perEdge] {
				f.Connect(g, u, "phone")
			}
		}
		f.At(120 * second)
		for i, g := range edges {
			f.At(f.Now() + time.Duration(random.IntN(10_000))*time.Millisecond)
			g.Kill()
			if restart {
				f.At(f.Now() + 5*second)
				f.StartEdge(fmt.Sprintf("g%02d", i))
			}
			for _, u := range users[i*perEdge : (i+1)*perEdge] {
				left[u] = f.Now()
			}
		}
		return left
	}
}

func writeEvidence(t *testing.T, path string, v any) {
	t.Helper()
	b, err := json.MarshalIndent(v, "", "  ")
	if err == nil {
		err = os.WriteFile(path, append(b, '\n'), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

package bench

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall"
)

// tiny is a run that shows that everything works, and measures nothing.
func tiny(only string) Config {
	p := rollcall.Worker()
	p.Heartbeat, p.Renewal = 500*time.Millisecond, time.Second
	return Config{
		Duration: 200 * time.Millisecond, Opens: 200, Viewers: 20, Targets: 5, Connections: 50,
		StormUsers: 60, StormViewers: 10, StormTargets: 30, stormRounds: 1, Only: []string{only}, Renewals: p,
		GrowFrom: 100, GrowTo: 100, growthParams: p,
	}
}

// Every measure sees all that it sent arrive, and has a figure for it.
func TestRun(t *testing.T) {
	for _, test := range []struct {
		only  string
		holds func(Figures) bool
	}{
		{"changes", func(f Figures) bool { return f.Changes.Delivered.Median > 0 && f.Changes.Core.Median > 0 }},
		{"opens", func(f Figures) bool { return f.Opens.Visible.Median > 0 && f.Opens.KVWrites >= 2 }},
		{"storm", func(f Figures) bool {
			s := f.Storm
			// Four shards, each told a first change and the rest, and the rest of 60 users in a
			// busy moment.
			return s.PerViewer >= 4 && s.BurstEach > 1 && s.Burst.Median > 0 && s.Core.Median > 0 && s.HeapPeak > 0 && s.Bound.Max > 0
		}},
		{"renewals", func(f Figures) bool { return f.Renewals.Renewed >= 50 && f.Renewals.Beats > 0 }},
		{"latency", func(f Figures) bool { return f.Latency.Visible.Samples == 10 && f.Latency.Visible.P50 > 0 }},
		{"growth", func(f Figures) bool {
			g := f.Growth
			for _, c := range g.Connections {
				if c.Renewed == 0 || c.PerRenewal != 1 || c.BeatBytes == 0 {
					return false
				}
			}
			return len(g.Owners) == 3 && len(g.Connections) == 1 && g.Owners[2].Frames > 0 && g.Owners[2].Busy.Median > 0
		}},
		{"heartbeats", func(f Figures) bool { return f.Heartbeats.PerSecond.Median > 0 }},
	} {
		t.Run(test.only, func(t *testing.T) {
			t.Parallel()
			report, err := Run(t.Context(), tiny(test.only))
			if err != nil {
				t.Fatal(err)
			}
			if !test.holds(report.Figures) || len(report.Ratios) == 0 && test.only != "growth" {
				t.Errorf("report %+v", report)
			}
		})
	}
}

// A run that is interrupted ends at once and leaves nothing behind.
func TestInterrupted(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ctx, interrupt := context.WithCancel(t.Context())
	cfg := tiny("changes")
	cfg.Progress = func(string) { interrupt() }
	if _, err := Run(ctx, cfg); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v, want that it was cancelled", err)
	}
	left, err := os.ReadDir(os.TempDir())
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestConfig(t *testing.T) {
	for name, cfg := range map[string]Config{
		"unknown measure":     {Only: []string{"opens", "closes"}},
		"negative size":       {Viewers: -1},
		"negative duration":   {Duration: -time.Second},
		"more than a viewer":  {Targets: 10_001},
		"shrinking":           {GrowFrom: 10, GrowTo: 9},
		"more than there are": {StormUsers: 10, StormTargets: 11},
	} {
		if _, err := Run(t.Context(), cfg); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}

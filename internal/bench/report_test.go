package bench

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files")

// invented is a report with every figure.
func invented() Report {
	rate := func(median float64) Rate { return Rate{median, []float64{median - 1, median, median + 1}} }
	cfg, err := Config{Duration: 10 * time.Second}.withDefaults()
	if err != nil {
		panic(err)
	}
	f := Figures{
		Opens: &Opens{Visible: rate(20_000), KVWrites: 2, LogWrites: 0.001, JetStream: rate(80_000)},
		Changes: &Changes{
			Offered: rate(1_250_000), Allowed: 1_000_000, Delivered: rate(700_000), Messages: rate(56_000), Bytes: 1981, Core: rate(224_000),
		},
		Storm: &Storm{
			PerViewer: 8, ChangesEach: 25, Bytes: 4000,
			Told: Spread{3, 300, 310, 310}, Written: Spread{3, 330, 350, 350}, Bound: Spread{3, 700, 710, 710}, BoundUsed: 0.5, BoundKept: true,
			Waves: rate(60_000), HeapBefore: 150_000_000, HeapPeak: 250_000_000, RSSPeak: 400_000_000,
			Burst: rate(90_000), BurstEach: 50, BurstBytes: 8000, Core: rate(100_000), BurstShare: 0.9,
			BurstDue: Spread{3, 20, 30, 30}, BurstBusy: rate(40), CoreBusy: rate(32),
		},
		Latency: &Latency{
			Visible:   Spread{Samples: 300, P50: 0.5, P99: 1.75, Max: 2.5},
			JetStream: Spread{Samples: 300, P50: 0.125, P99: 1.25, Max: 3},
			Core:      Spread{Samples: 300, P50: 0.1, P99: 0.5, Max: 1},
		},
		Renewals:   &Renewals{Renewed: 40_000, KVWrites: 16, PerThousand: 0.4, Beats: 48_000, BytesPerBeat: 3.9, BeatsInterval: 2.85},
		Heartbeats: &Heartbeats{PerSecond: rate(40_000_000), Nanoseconds: 25, Target: 333_333},
	}
	r := newReport(cfg, "2.15.3", f)
	r.At = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	r.Machine.Cores, r.Machine.OS, r.Machine.Arch, r.Machine.Go, r.Machine.Client = 2, "linux", "amd64", "go1.26", "1.55.0"
	return r
}

// golden compares with testdata/name, or writes it with -update.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; run with -update and look at the change. Got:\n%s", path, got)
	}
}

func TestTable(t *testing.T) {
	var out bytes.Buffer
	if err := invented().WriteTable(&out); err != nil {
		t.Fatal(err)
	}
	golden(t, "table.golden", out.Bytes())
}

// Whoever reads the document finds the same keys in every run.
func TestJSON(t *testing.T) {
	out, err := json.MarshalIndent(invented(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "report.golden.json", append(out, '\n'))
}

// What was not measured is neither in the table nor in the document.
func TestPartsOfAReport(t *testing.T) {
	whole := invented()
	part := newReport(Config{}, "", Figures{Heartbeats: whole.Figures.Heartbeats})
	if len(part.Ratios) != 1 || part.Ratios["heartbeats_to_target"] != 120.0001 {
		t.Errorf("ratios %v, want heartbeats_to_target alone, 120", part.Ratios)
	}
	if lines := part.lines(); len(lines) != 1 {
		t.Errorf("%d lines, want one", len(lines))
	}
	out, err := json.Marshal(part.Figures)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(out, []byte("opens")) {
		t.Errorf("the document tells of opens: %s", out)
	}
}

// A broken bound is not only a number.
func TestBrokenBound(t *testing.T) {
	r := invented()
	if note := r.boundBroken(); note != "" {
		t.Errorf("a bound that was kept: %q", note)
	}
	r.Figures.Storm.BoundKept = false
	if r.boundBroken() == "" {
		t.Error("no warning of a bound that was not kept")
	}
}

// A figure that the window limits says so.
func TestPaced(t *testing.T) {
	r := invented()
	if note := r.paced(); note != "" {
		t.Errorf("at 70 %% of what the window allows: %q", note)
	}
	r.Figures.Changes.Allowed = 750_000
	r.Ratios = r.Figures.ratios()
	if r.paced() == "" {
		t.Error("at 93 % of what the window allows there is no warning")
	}
}

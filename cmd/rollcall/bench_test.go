package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/rollcall-io/rollcall/internal/bench"
)

// Results go to stdout and nothing else does, so that the document can be piped.
func TestBenchJSON(t *testing.T) {
	var out, progress bytes.Buffer
	code := run(t.Context(), []string{"bench", "--json", "--only", "latency,heartbeats", "--duration", "100ms", "--connections", "20"},
		console{&out, &progress})
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, &progress)
	}
	var report bench.Report
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatalf("stdout is not one document: %v\n%s", err, &out)
	}
	if report.Figures.Latency == nil || report.Figures.Heartbeats == nil || report.Figures.Opens != nil {
		t.Errorf("figures %+v, want latency and heartbeats", report.Figures)
	}
	if !strings.Contains(progress.String(), "heartbeats:") {
		t.Errorf("progress on stderr reads %q", &progress)
	}
}

func TestBenchTable(t *testing.T) {
	var out, progress bytes.Buffer
	code := run(t.Context(), []string{"bench", "--only", "heartbeats", "--connections", "20"}, console{&out, &progress})
	if code != 0 || !strings.Contains(out.String(), "heartbeats taken by one core") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, &out, &progress)
	}
}

func TestBenchAskedWrongly(t *testing.T) {
	for _, args := range [][]string{
		{"--only", "closes"},
		{"--only", "storm", "--storm-users", "10", "--storm-targets", "11"},
	} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), append([]string{"bench"}, args...), console{&out, &errs}); code != exitUsage {
			t.Errorf("%v: exit code %d, want that of a wrong question: %s", args, code, &errs)
		}
	}
}

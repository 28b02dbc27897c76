package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/definition"
	"github.com/rollcall-io/rollcall/ledger/store"
)

// An auditor rebuilds what a running fabric holds, from its streams and from its archive,
// under the same rules and under others, and compares.
func TestLedgerRebuildAndReconcile(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	url := up(t, "--data", data, "--set", "debounce=1")
	if code, _, errs := command(t, "replay", "-s", url, writeTrace(t, smallTrace), "--settle", "2s"); code != 0 {
		t.Fatalf("replay: %d, %s", code, errs)
	}
	settled := time.Now().Add(12 * time.Second) // see lateness below
	// A store of its own, so that the figures are those of this test.
	place := filepath.Join(t.TempDir(), "own.db")
	ask := func(args ...string) (int, string, string) {
		t.Helper()
		return command(t, append(append([]string{"ledger"}, args...), "--dir", data, "--store", place)...)
	}
	today := time.Now().UTC()
	period := []string{"--from", today.AddDate(0, 0, -1).Format(time.DateOnly), "--to", today.AddDate(0, 0, 2).Format(time.DateOnly)}
	rules := func(version, grace string) string {
		path := filepath.Join(t.TempDir(), version+".yaml")
		// Figures are final a little after that. It must be more than heartbeats take to be stored, on a busy machine too.
		text := fmt.Sprintf("version: %s\ngap_cap: 1s\ngrace: %s\nlateness: 10s\n", version, grace)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	rebuild := func(args ...string) (version, errs string) {
		t.Helper()
		code, out, errs := ask(append(append([]string{"rebuild", "-s", url}, period...), args...)...)
		m := regexp.MustCompile(`under (\S+): (\d+) events read, (\d+) sessions new`).FindStringSubmatch(errs)
		if code != 0 || out != "" || m == nil || m[3] == "0" {
			t.Fatalf("rebuild %v: %d, %q, %s", args, code, out, errs)
		}
		return m[1], errs
	}

	usual := rules("usual", "1s")
	time.Sleep(time.Until(settled))
	if version, errs := rebuild("--definition", usual); version != "usual" || !strings.Contains(errs, "100% read") || !strings.Contains(errs, "counting days") {
		t.Errorf("%s: %s", version, errs)
	}
	if version, _ := rebuild("--definition", usual); !strings.HasPrefix(version, "usual+rebuilt-2") {
		t.Errorf("the same rules again: %s", version)
	}
	if code, out, errs := ask("reconcile", "--definition", "usual"); code != 0 || !strings.Contains(errs, "agree within 1s") || strings.Count(out, "\n") != 1 {
		t.Errorf("the same rules: %d, %s, %s", code, out, errs)
	}
	if code, _, errs := ask("archive", "-s", url, "--once"); code != 0 {
		t.Fatalf("archive: %d, %s", code, errs)
	}
	version, _ := rebuild("--source", "archive", "--definition", usual)
	// The last minute of an archive may still be under way, so that may be nothing.
	if code, _, errs := ask("reconcile", "--definition", "usual"); code != 0 && !strings.Contains(errs, "nothing to compare") {
		t.Errorf("the same rules, from the archive: %d, %s", code, errs)
	}

	narrow := rules("narrow", "10ms")
	if version, _ := rebuild("--definition", narrow); version != "narrow" {
		t.Errorf("other rules: %s", version)
	}
	code, out, errs := ask("reconcile", "--definition", "usual", "--against", "narrow", "--threshold", "0.1", "--measure", "connected", "--format", "csv")
	if code != 1 || !strings.Contains(errs, "figures differ") || !strings.Contains(errs, "whose rules differ") || !matches(`ann,`+today.Format("2006-")+`.*,,,connected,\d+\.\d+,\d+\.\d+,\d+\.\d+`, out) {
		t.Errorf("other rules: %d, %s, %s", code, out, errs)
	}
	code, out, errs = ask("report", "--definition", "usual", "--against", "narrow", "--by", "user", "--format", "csv", "--from", period[1])
	if code != 0 || !strings.HasPrefix(out, "user,seconds,against,difference\n") || !matches(`(?m)^ann,\d+\.\d+,\d+\.\d+,-\d+\.\d+$`, out) ||
		strings.Count(errs, "WARNING") != 2 || !strings.Contains(errs, "figures of narrow are those of "+period[1]+"T00:00:00Z to ") {
		t.Errorf("side by side: %d, %s, %s", code, out, errs)
	}
	if code, _, errs := ask("report", "--definition", "usual", "--against", "9"); code != 2 || !strings.Contains(errs, `no figures of definition "9"`) {
		t.Errorf("beside nothing: %d, %s", code, errs)
	}
	if _, list, _ := ask("quarantine", "list"); strings.Count(list, "\n") != 1 {
		t.Errorf("other rules are no reason for quarantine:\n%s", list)
	}

	// Live figures that the raw events do not have.
	text := fmt.Sprintf("%s,eve,d,open\n%s,eve,d,close\n", today.Add(-2*time.Hour).Format(time.RFC3339), today.Add(-time.Hour).Format(time.RFC3339))
	if code, _, errs := ask("import", writeTrace(t, text), "--definition", usual); code != 0 {
		t.Fatalf("import: %d, %s", code, errs)
	}
	code, out, errs = ask("reconcile", "--format", "json")
	if code != 1 || !strings.Contains(out, `"seconds": 3600.000`) || !strings.Contains(out, `"against": 0.000`) || strings.Contains(out, "ann") ||
		!strings.Contains(errs, "quarantine list --rule live_differs_from_rebuilt") {
		t.Errorf("eve is live only: %d, %s, %s", code, out, errs)
	}
	for range 2 { // compared again, they are the same rows
		if _, list, _ := ask("quarantine", "list", "--rule", ledger.RuleRebuilt); !matches("live_differs_from_rebuilt +"+regexp.QuoteMeta(version)+" +eve +of the session, under usual and", list) ||
			strings.Count(list, "eve") < 2 || strings.Count(list, "eve") > 3 {
			t.Errorf("quarantine:\n%s", list)
		}
		ask("reconcile")
	}
}

// While a rebuild is not finished, whoever asks for its figures is told.
func TestLedgerRebuildUnfinished(t *testing.T) {
	dir := ledgerOf(t, history)
	s, err := store.Open(t.Context(), filepath.Join(dir, "ledger.db"))
	if err != nil {
		t.Fatal(err)
	}
	d := definition.Default()
	d.Version = "half"
	bounds := store.Rebuild{Definition: "half", Source: "stream"}
	bounds.Bounds.To = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	if err := s.BeginRebuild(t.Context(), d, bounds); err != nil {
		t.Fatal(err)
	}
	s.Close()
	code, _, errs := command(t, "ledger", "report", "--dir", dir, "--definition", "half")
	if code != 0 || !strings.Contains(errs, "WARNING: figures of half are missing: its rebuild of 1970-01-01 to before 2026-12-01 (UTC) from the stream is not finished") {
		t.Errorf("%d, %s", code, errs)
	}
	if code, _, errs := command(t, "ledger", "report", "--dir", dir, "--definition", "half", "--from", "2026-12-01"); code != 0 || errs != "" {
		t.Errorf("outside of it: %d, %s", code, errs)
	}
	if code, _, errs := command(t, "ledger", "report", "--dir", dir); code != 0 || !strings.Contains(errs, "figures of definition 1, ") {
		t.Errorf("by default: %d, %s", code, errs)
	}
	if code, _, errs := command(t, "ledger", "reconcile", "--dir", dir, "--against", "half"); code != 2 || !strings.Contains(errs, "not finished") {
		t.Errorf("compared: %d, %s", code, errs)
	}
}

// A comparison of nothing is not green, and says until when figures are final, and why.
func TestLedgerReconcileTooEarly(t *testing.T) {
	dir := ledgerOf(t, history)
	s, err := store.Open(t.Context(), filepath.Join(dir, "ledger.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	d := definition.Default()
	d.Lateness = time.Hour
	d.Version = "1+rebuilt"
	day := time.Date(2026, 7, 29, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		ends time.Duration // of the source, after the day's beginning
		code int
		says []string
	}{
		{time.Minute, 1, []string{"final until 2026-07-28T23:00:00Z", "source ended at 2026-07-29T00:01:00Z", "1h0m0s (lateness)", "change the 1m0s before (gap_cap)", "nothing to compare: no figures of this period are final yet", "over for 1h1m0s"}},
		{2 * time.Hour, 1, []string{"final until 2026-07-29T00:59:00Z", "nothing to compare: neither has a session in 2026-07-29T00:00:00Z to 2026-07-29T00:59:00Z"}},
		{12 * time.Hour, 1, []string{"final until 2026-07-29T10:59:00Z", "figures differ"}}, // the rebuild holds none of the sessions
	} {
		r := store.Rebuild{Definition: d.Version, Source: "stream", Ends: day.Add(c.ends), Finished: time.Now()}
		r.Bounds.From, r.Bounds.To = day.UnixMilli(), day.AddDate(0, 0, 1).UnixMilli()
		if err := s.BeginRebuild(t.Context(), d, r); err != nil {
			t.Fatal(err)
		}
		if err := s.EndRebuild(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		code, _, errs := command(t, "ledger", "reconcile", "--dir", dir, "--against", d.Version)
		for _, says := range c.says {
			if code != c.code || !strings.Contains(errs, says) {
				t.Errorf("%v: %d, no %q in %s", c.ends, code, says, errs)
			}
		}
	}
}

func TestLedgerRebuildAskedWrongly(t *testing.T) {
	dir := ledgerOf(t, history)
	for _, c := range []struct{ args, says string }{
		{"rebuild", "missing flags: --from"},
		{"rebuild --from 2026-12-02 --to 2026-12-01", "is after"},
		{"rebuild --from 2026-12-02 --to 2026-12-02", "is no time"},
		{"rebuild --from 2999-01-01", "is after"},
		{"rebuild --from monday", "neither a day"},
		{"rebuild --from 2026-12-01 --zone Mars/Base", "unknown time zone"},
		{"rebuild --from 2026-12-01 --source tape", "must be one of"},
		{"reconcile", "no finished rebuild of definition 1"},
		{"reconcile --against 9", `no figures of definition "9"`},
		{"reconcile --measure joy", "no measure"},
		{"reconcile --threshold soon", "is no time"},
	} {
		code, _, errs := command(t, append(append([]string{"ledger"}, strings.Fields(c.args)...), "--dir", dir)...)
		if code != 2 || !strings.Contains(errs, c.says) {
			t.Errorf("%s: %d, %q", c.args, code, errs)
		}
	}
	if code, _, errs := command(t, "ledger", "rebuild", "--dir", dir, "--from", "2026-01-01", "--source", "archive"); code != 1 || !strings.Contains(errs, "archive") {
		t.Errorf("no archive: %d, %s", code, errs)
	}
}

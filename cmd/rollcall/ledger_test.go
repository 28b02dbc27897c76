package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/rollcall-io/rollcall/ledger/report"
	"github.com/rollcall-io/rollcall/ledger/store"
)

// A history with two tabs, a night, an application that left the foreground, and lines
// that say nothing.
const history = `time,user,device,event
2026-07-29T10:00:00Z,ann,tab1,open
2026-07-29T10:10:00Z,ann,tab2,open
2026-07-29T10:20:00Z,ann,tab2,close
2026-07-29T10:30:00Z,ann,tab1,close
2026-07-29T21:50:00Z,bob,phone,open
2026-07-29T22:20:00Z,bob,phone,background
2026-07-29T22:30:00Z,bob,phone,close
2026-07-29T22:31:00Z,bob,phone,beat
2026-07-29,bob,phone,open
2026-07-29T10:00:00Z,bob,phone,dance
`

// ledgerOf imports a history into a new ledger and gives its directory.
func ledgerOf(t *testing.T, text string, args ...string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "data")
	code, out, errs := command(t, append([]string{"ledger", "import", writeTrace(t, text), "--dir", dir}, args...)...)
	if code != 0 || out != "" || !strings.Contains(errs, "events under definition") {
		t.Fatalf("import: %d, %q, %q", code, out, errs)
	}
	return dir
}

// ledger runs a command on a ledger that must succeed.
func ledgerSays(t *testing.T, dir string, args ...string) string {
	t.Helper()
	code, out, errs := command(t, append(append([]string{"ledger"}, args...), "--dir", dir)...)
	if code != 0 {
		t.Fatalf("%v: %d, %s", args, code, errs)
	}
	return out
}

func TestLedgerReports(t *testing.T) {
	dir := ledgerOf(t, history, "--cap", "0")
	for _, c := range []struct{ args, want string }{
		{"report --by user --format csv", "user,seconds\nann,1800.000\nbob,2400.000\n"},
		{"report --by user --format csv --union", "user,seconds\nann,1800.000\nbob,2400.000\n"},
		{"report --by user --sum --format csv", "user,seconds\nann,2400.000\nbob,2400.000\n"},
		{"report --by user,day --zone Europe/Berlin --format csv", "user,day,seconds\nann,2026-07-29,1800.000\nbob,2026-07-29,600.000\nbob,2026-07-30,1800.000\n"},
		{"report --by day --by user --format csv --from 2026-07-29T22:00:00Z --to 2026-07-30", "day,user,seconds\n2026-07-29,bob,1800.000\n"},
		{"report --by week --format csv", "week,seconds\n2026-W31,4200.000\n"},
		{"report --by month --measure foreground --format json", "[\n  {\"month\": \"2026-07\", \"seconds\": 3600.000}\n]\n"},
		{"report --by all", "seconds\n4200.000\n"},
		{"report", "user  seconds\nann   1800.000\nbob   2400.000\n"},
	} {
		if got := ledgerSays(t, dir, strings.Fields(c.args)...); got != c.want {
			t.Errorf("%s:\n%swant\n%s", c.args, got, c.want)
		}
	}
	// Device ids are behind the key.
	devices := ledgerSays(t, dir, "report", "--by", "device", "--format", "csv")
	if strings.Count(devices, "\n") != 4 || strings.Contains(devices, "tab") || strings.Contains(devices, "phone") {
		t.Errorf("devices:\n%s", devices)
	}
	if info, err := os.Stat(filepath.Join(dir, "device.key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestLedgerAskedWrongly(t *testing.T) {
	dir := ledgerOf(t, history)
	for _, c := range []struct{ args, says string }{
		{"report --by hour", "cannot count by"},
		{"report --measure joy", "no measure"},
		{"report --zone Mars/Base", "unknown time zone"},
		{"report --from yesterday", "neither a day"},
		{"report --definition 9", "no figures of definition"},
		{"report --union --sum", "can't be used together"},
		{"report --format xml", "must be one of"},
		{"quarantine list --rule nonsense", `no rule "nonsense"; there are end_before_start, session_too_long, `},
		{"quarantine show zz", "nothing in quarantine"},
		{"quarantine release zz", "nothing in quarantine"},
		{"retention", "say what to remove"},
		{"retention --sessions=-1d", "must not be negative"},
		{"report --store mysql://x", "neither a path"},
		{"totals --from 2026-07-29T10:00:00Z", "whole days"},
	} {
		code, _, errs := command(t, append(append([]string{"ledger"}, strings.Fields(c.args)...), "--dir", dir)...)
		if code != 2 || !strings.Contains(errs, c.says) {
			t.Errorf("%s: %d, %q", c.args, code, errs)
		}
	}
	file := writeTrace(t, history)
	if code, _, errs := command(t, "ledger", "import", file, "--dir", dir, "--cap", "10"); code != 2 || !strings.Contains(errs, "grace 30s above cap 10s") {
		t.Errorf("grace above cap: %d, %q", code, errs)
	}
	if code, _, errs := command(t, "ledger", "report", "--dir", filepath.Join(dir, "none")); code != 1 || !strings.Contains(errs, "no ledger in") {
		t.Errorf("no ledger: %d, %q", code, errs)
	}
}

// Other rules give other figures beside the old ones, and the same version cannot mean
// two things.
func TestLedgerDefinitions(t *testing.T) {
	dir := ledgerOf(t, "0,ann,d,open\n30,ann,d,beat\n120,ann,d,beat\n", "--grace", "0")
	file := writeTrace(t, "0,ann,d,open\n30,ann,d,beat\n120,ann,d,beat\n")
	rules := filepath.Join(t.TempDir(), "wide.yaml")
	write := func(text string) {
		if err := os.WriteFile(rules, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("version: wide\ngap_cap: 120s\ngrace: 0s\n")
	ledgerSays(t, dir, "import", file, "--definition", rules)
	for version, want := range map[string]string{"1,grace=0s": "30.000", "wide": "120.000", "": "120.000"} {
		args := []string{"report", "--by", "all", "--format", "csv"}
		if version != "" {
			args = append(args, "--definition", version)
		}
		if got := ledgerSays(t, dir, args...); got != "seconds\n"+want+"\n" {
			t.Errorf("%q: %s", version, got)
		}
	}
	if got := ledgerSays(t, dir, "definitions"); strings.Index(got, `version: "wide"`) > strings.Index(got, `version: "1,grace=0s"`) || !strings.Contains(got, "gap_cap: 2m0s") {
		t.Error(got)
	}
	for text, says := range map[string]string{
		"version: wide\ngap_cap: 90s\n":            "names another definition",
		"version: wide\ngap_cpa: 90s\n":            "line 2: field gap_cpa not found",
		"version: odd\ngap_cap: 10s\ngrace: 20s\n": "grace 20s above cap 10s",
	} {
		write(text)
		if code, _, errs := command(t, "ledger", "import", file, "--dir", dir, "--definition", rules); code != 2 || !strings.Contains(errs, says) {
			t.Errorf("%q: %d, %q", text, code, errs)
		}
	}
	// Labels of the application are measures of its definition.
	write("version: labelled\nlabels: [streaming]\n")
	ledgerSays(t, dir, "import", file, "--definition", rules)
	for _, question := range []string{"report", "export", "totals"} {
		ledgerSays(t, dir, question, "--measure", "streaming")
		if code, _, errs := command(t, "ledger", question, "--measure", "streaming", "--definition", "wide", "--dir", dir); code != 2 || !strings.Contains(errs, `no measure "streaming"`) {
			t.Errorf("%s of a label that the definition has not: %d, %q", question, code, errs)
		}
	}
	rebuilt(t, dir, "wide+rebuilt")
	if code, _, errs := command(t, "ledger", "definitions", "drop", "wide", "--dir", dir); code != 2 || !strings.Contains(errs, `not only rebuilds have written this version: "wide"`) {
		t.Errorf("live figures dropped: %d, %q", code, errs)
	}
	ledgerSays(t, dir, "definitions", "drop", "wide+rebuilt")
	if got := ledgerSays(t, dir, "definitions"); strings.Contains(got, "rebuilt") || !strings.Contains(got, `"wide"`) {
		t.Error(got)
	}
	write(ledgerSays(t, dir, "definitions", "--template"))
	ledgerSays(t, dir, "import", file, "--definition", rules)
}

func TestLedgerImportedTwice(t *testing.T) {
	dir := ledgerOf(t, history, "--cap", "0")
	before := ledgerSays(t, dir, "report", "--by", "user,device,day", "--sum", "--format", "csv")
	code, _, errs := command(t, "ledger", "import", writeTrace(t, history), "--dir", dir, "--cap", "0")
	if code != 0 || !strings.Contains(errs, "0 sessions new or corrected, 0 refused, 6 known before") {
		t.Errorf("%d, %q", code, errs)
	}
	if after := ledgerSays(t, dir, "report", "--by", "user,device,day", "--sum", "--format", "csv"); after != before {
		t.Errorf("%s, then %s", before, after)
	}
}

// A file of which nothing can be taken is no success, not even the second time, when the
// quarantine has it all.
func TestLedgerImportOfNothing(t *testing.T) {
	dir := t.TempDir()
	for text, code := range map[string]int{"x,y\n0,ann,d,dance\n": 1, "0,ann,d,close\n": 1, "0,ann,d,dance\n0,ann,d,open\n": 0, "": 0, "time,user,device,event\n": 0} {
		file := writeTrace(t, text)
		for range 2 {
			if got, _, errs := command(t, "ledger", "import", file, "--dir", dir); got != code || strings.Contains(errs, "nothing in the file could be taken") != (code == 1) {
				t.Errorf("%q: %d, %q", text, got, errs)
			}
		}
	}
}

// Daily totals, once kept, follow imports and releases, and an import twice is one.
func TestLedgerTotalsAreKept(t *testing.T) {
	dir := ledgerOf(t, history, "--cap", "0")
	ledgerSays(t, dir, "totals", "--zone", "Europe/Berlin")
	long := "2026-01-01T00:00:00Z,eve,d,open\n2026-01-20T00:00:00Z,eve,d,close\n"
	more := writeTrace(t, "2026-07-29T10:25:00Z,ann,tab3,open\n2026-07-29T10:40:00Z,ann,tab3,close\n"+long)
	for range 2 {
		ledgerSays(t, dir, "import", more, "--cap", "0")
	}
	kept := func() (lines []string) {
		s, err := store.Open(t.Context(), filepath.Join(dir, "ledger.db"))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		key := store.DailyKey{Definition: "1,cap=0s", Zone: "Europe/Berlin", Measure: "connected"}
		for d, err := range s.Daily(t.Context(), key, 0, 100_000) {
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, fmt.Sprint(d.User, " ", d.Date, " ", d.Union/1000, " ", d.Sum/1000))
		}
		return lines
	}
	want := []string{"ann 2026-07-29 2400 3300", "bob 2026-07-29 600 600", "bob 2026-07-30 1800 1800"}
	if got := kept(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	var row struct{ ID string }
	if err := json.Unmarshal([]byte(ledgerSays(t, dir, "quarantine", "list", "--user", "eve", "--format", "json")), &row); err != nil {
		t.Fatal(err)
	}
	ledgerSays(t, dir, "quarantine", "release", row.ID)
	if got := kept(); len(got) != 3+20 || got[3] != "eve 2026-01-01 82800 82800" || got[22] != "eve 2026-01-20 3600 3600" {
		t.Errorf("%q", got)
	}
}

func TestLedgerQuarantine(t *testing.T) {
	dir := ledgerOf(t, history+"2026-01-01T00:00:00Z,eve,d,open\n2026-01-20T00:00:00Z,eve,d,close\n", "--cap", "0")
	list := ledgerSays(t, dir, "quarantine", "list")
	for _, want := range []string{
		`trace.csv:10 +bob +time "2026-07-29"`, `trace.csv:11 +bob +event "dance"`, `beat_after_close +trace.csv:9 +bob`, `session_too_long +trace.csv:12 +eve`,
	} {
		if !matches(want, list) {
			t.Errorf("no %q in\n%s", want, list)
		}
	}
	if got := ledgerSays(t, dir, "report", "--by", "user", "--format", "csv"); strings.Contains(got, "eve") {
		t.Errorf("counted before its release: %s", got)
	}
	var row struct {
		ID, User string
		Session  map[string]any
	}
	if err := json.Unmarshal([]byte(ledgerSays(t, dir, "quarantine", "list", "--user", "eve", "--format", "json")), &row); err != nil || row.User != "eve" {
		t.Fatalf("%+v, %v", row, err)
	}
	if shown := ledgerSays(t, dir, "quarantine", "show", row.ID); !strings.Contains(shown, row.ID) || row.Session == nil {
		t.Error(shown)
	}
	ledgerSays(t, dir, "quarantine", "release", row.ID)
	if got := ledgerSays(t, dir, "report", "--by", "user", "--format", "csv"); !strings.Contains(got, "eve,1641600.000\n") {
		t.Errorf("after its release: %s", got)
	}
	if left := ledgerSays(t, dir, "quarantine", "list"); strings.Contains(left, row.ID) {
		t.Errorf("still listed: %s", left)
	}
}

// Whoever is forgotten is in no file of the ledger, and no import brings the user back.
func TestLedgerForgets(t *testing.T) {
	const name = "zebedee-the-seventh"
	dir := ledgerOf(t, strings.ReplaceAll(history, "bob", name), "--cap", "0")
	ledgerSays(t, dir, "sessions", name)
	ledgerSays(t, dir, "totals", "--zone", "Europe/Berlin")
	for _, says := range []string{"", name + `" was forgotten before`} {
		if code, _, errs := command(t, "ledger", "forget", name, "--dir", dir); code != 0 || !strings.Contains(errs, says) || strings.Contains(errs, "had nothing of") {
			t.Errorf("%d, no %q in %q", code, says, errs)
		}
	}
	if code, _, errs := command(t, "ledger", "forget", "zebede", "--dir", dir); code != 0 || !strings.Contains(errs, `the tables had nothing of "zebede"; whatever comes under this name is left out`) {
		t.Errorf("misspelt: %d, %q", code, errs)
	}
	code, _, errs := command(t, "ledger", "import", writeTrace(t, strings.ReplaceAll(history, "bob", name)), "--dir", dir, "--cap", "0")
	if code != 0 || !strings.Contains(errs, "4 of forgotten users left out") {
		t.Errorf("%d, %q", code, errs)
	}
	if got := ledgerSays(t, dir, "report", "--by", "user", "--format", "csv"); got != "user,seconds\nann,1800.000\n" {
		t.Error(got)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		raw, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(raw, []byte(name)) {
			t.Errorf("%s still names the user", f.Name())
		}
	}
	if notes := ledgerSays(t, dir, "audit"); !matches(`forget +[0-9a-f]{64}`, notes) || !matches(`sessions +[0-9a-f]{64}`, notes) {
		t.Error(notes)
	}
}

func TestLedgerExports(t *testing.T) {
	dir := ledgerOf(t, history, "--cap", "0")
	text := ledgerSays(t, dir, "export", "--from", "2026-07-29T22:00:00Z")
	if !strings.Contains(text, ",connected,2026-07-29T22:00:00.000Z,2026-07-29T22:30:00.000Z,1800.000\n") || strings.Count(text, "\n") != 2 {
		t.Errorf("%s", text)
	}
	path := filepath.Join(t.TempDir(), "out.parquet")
	ledgerSays(t, dir, "export", "--format", "parquet", "--out", path)
	rows, err := parquet.ReadFile[report.Exported](path)
	if err != nil || len(rows) != 3 || rows[0].User != "ann" || rows[0].To-rows[0].From != 1_800_000 {
		t.Errorf("%+v, %v", rows, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	ledgerSays(t, dir, "sessions", "ann")
	notes := ledgerSays(t, dir, "audit")
	for _, want := range []string{`export +- +connected of definition 1,cap=0s from 2026-07-29T22:00:00Z as csv`, `export +- +connected .* as parquet`, `sessions +ann`, `import +- +trace.csv under 1,cap=0s`} {
		if !matches(want, notes) {
			t.Errorf("no %q in\n%s", want, notes)
		}
	}
}

func TestLedgerSessions(t *testing.T) {
	dir := ledgerOf(t, history, "--cap", "0")
	var rows []struct {
		Start, End, Ended     string
		Connected, Foreground float64
	}
	if err := json.Unmarshal([]byte(ledgerSays(t, dir, "sessions", "bob", "--zone", "Europe/Berlin", "--format", "json")), &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 1 || rows[0].Start != "2026-07-29T23:50:00.000+02:00" || rows[0].Ended != "close" || rows[0].Connected != 2400 || rows[0].Foreground != 1800 {
		t.Errorf("%+v", rows)
	}
	if got := ledgerSays(t, dir, "sessions", "ann", "--format", "csv", "--from", "2026-07-29T10:25:00Z"); strings.Count(got, "\n") != 2 {
		t.Errorf("%s", got)
	}
	if got := ledgerSays(t, dir, "sessions", "nobody"); strings.Count(got, "\n") != 1 {
		t.Errorf("%s", got)
	}
}

func TestLedgerRetention(t *testing.T) {
	dir := ledgerOf(t, "0,ann,d,open\n9,ann,d,close\n"+history)
	ledgerSays(t, dir, "retention", "--sessions", "9000d", "--quarantine", "9000d", "--audit", "1h")
	if got := ledgerSays(t, dir, "sessions", "ann", "--format", "csv"); strings.Count(got, "\n") != 3 {
		t.Errorf("%s", got)
	}
	code, _, errs := command(t, "ledger", "retention", "--dir", dir, "--sessions", "90")
	if code != 2 || !strings.Contains(errs, `"90" has no unit`) {
		t.Errorf("%d, %s", code, errs)
	}
}

func TestLedgerProgress(t *testing.T) {
	var b strings.Builder
	for n := range 300_000 {
		fmt.Fprintf(&b, "%d,u%d,d,beat\n", n/100*30, n%100)
	}
	dir := filepath.Join(t.TempDir(), "data")
	code, _, errs := command(t, "ledger", "import", writeTrace(t, b.String()), "--dir", dir)
	if code != 0 || !matches(`\d+ lines read, \d+%`, errs) || !matches(`\d+ of 300000 lines counted`, errs) || !strings.Contains(errs, "100 sessions new") {
		t.Errorf("%d, %s", code, errs)
	}
}

func TestLapses(t *testing.T) {
	got := map[string]lapse{}
	for _, text := range []string{"0", "60", "1.5", "2m", "90d"} {
		var l lapse
		if err := l.UnmarshalText([]byte(text)); err != nil {
			t.Error(err)
		}
		got[text] = l
	}
	if want := map[string]lapse{"0": 0, "60": 60e9, "1.5": 15e8, "2m": 120e9, "90d": 90 * 86400e9}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v", got)
	}
	for _, text := range []string{"", "d", "x", "1e300", "NaN"} {
		if err := new(lapse).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is a time", text)
		}
	}
}

func matches(pattern, text string) bool { return regexp.MustCompile(pattern).MatchString(text) }

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/rollcall-io/rollcall/ledger/definition"
	"github.com/rollcall-io/rollcall/ledger/store"
)

// asks makes the next commands those of another account, as sudo does.
func asks(t *testing.T, account string) { t.Setenv("SUDO_USER", account) }

const house = `auditors: [olga]
analysts: [ann]
leads: {tom: support}
minimum: 2
zone: Europe/Berlin
teams: {support: team.txt}
`

// guardedLedger has rules, and a team of bob alone.
func guardedLedger(t *testing.T, text string) (dir string) {
	t.Helper()
	asks(t, "olga")
	dir = ledgerOf(t, text, "--cap", "0")
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	for name, text := range map[string]string{rules: house, filepath.Join(filepath.Dir(rules), "team.txt"): "bob\nzoe\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ledgerSays(t, dir, "access", "set", rules)
	return dir
}

// A decision on a command: for whom it is beside auditors, and what the audit says when
// it was used. All of it is tried.
type decision struct {
	args            string // {id} is a session in quarantine
	lead, analyst   bool
	action, subject string // of the note; none if nothing is told of users
	// needs is what an auditor's try would need beside a store; others are tried.
	needs string
	// service is a command that tells nothing to whoever starts it.
	service bool
}

var decisions = map[string]decision{
	"run":                {service: true},
	"import":             {args: "import {file} --cap 0", action: "import"},
	"report":             {args: "report --by day", lead: true, analyst: true},
	"sessions":           {args: "sessions bob", lead: true, action: "sessions", subject: "bob"},
	"export":             {args: "export", lead: true, action: "export"},
	"totals":             {args: "totals", action: "totals"},
	"definitions show":   {args: "definitions", lead: true, analyst: true},
	"definitions drop":   {args: "definitions drop 1+rebuilt", action: "drop"},
	"quarantine list":    {args: "quarantine list", action: "quarantine"},
	"quarantine show":    {args: "quarantine show {id}", action: "quarantine", subject: "eve"},
	"quarantine release": {args: "quarantine release {id}", action: "release", subject: "eve"},
	"forget":             {args: "forget gus", action: "forget"},
	"retention":          {args: "retention --totals 9000d", action: "retention"},
	"audit":              {args: "audit"},
	"access show":        {args: "access show", lead: true, analyst: true},
	"access set":         {args: "access set {rules}", action: "access"},
	"access template":    {args: "access template", lead: true, analyst: true},
	"archive":            {service: true},
	"rebuild":            {args: "rebuild --from 2026-07-29 --source archive", needs: "raw events"},
	"reconcile":          {args: "reconcile --against 1,cap=0s", action: "reconcile"},
}

// A command that nobody decided on fails here.
func TestEveryLedgerCommandIsDecidedOn(t *testing.T) {
	long := "2026-01-01T00:00:00Z,eve,d,open\n2026-01-20T00:00:00Z,eve,d,close\n"
	dir := guardedLedger(t, history+long)
	rules := filepath.Join(t.TempDir(), "same.yaml")
	if err := os.WriteFile(rules, []byte(ledgerSays(t, dir, "access", "show")), 0o600); err != nil {
		t.Fatal(err)
	}
	var row struct{ ID string }
	if err := json.Unmarshal([]byte(ledgerSays(t, dir, "quarantine", "list", "--user", "eve", "--format", "json")), &row); err != nil {
		t.Fatal(err)
	}
	rebuilt(t, dir, "1+rebuilt")
	fill := strings.NewReplacer("{file}", writeTrace(t, history+long), "{id}", row.ID, "{rules}", rules)
	for _, name := range ledgerCommands(t) {
		d, ok := decisions[name]
		if !ok {
			t.Errorf("nobody decided who may use 'ledger %s' and what the audit says of it", name)
			continue
		}
		if d.service != unattended(name) {
			t.Errorf("'ledger %s' is a service, or is none", name)
		}
		if d.service {
			continue
		}
		args := append([]string{"ledger"}, strings.Fields(fill.Replace(d.args))...)
		if name != "access template" { // which opens no store
			args = append(args, "--dir", dir)
		}
		for account, may := range map[string]bool{"ann": d.analyst, "tom": d.lead, "eva": name == "access template"} {
			asks(t, account)
			code, out, errs := command(t, args...)
			if may != (code == 0) || !may && (out != "" || !strings.Contains(errs, "denied")) {
				t.Errorf("%s as %s: %d, %q, %q", name, account, code, out, errs)
			}
			asks(t, "olga")
			if !may && !matches(account+` as \S+ +denied .* `+name+`\n`, ledgerSays(t, dir, "audit")) {
				t.Errorf("%s as %s was refused, of which the audit says nothing", name, account)
			}
		}
		if d.needs != "" {
			continue
		}
		before := ledgerSays(t, dir, "audit")
		if code, _, errs := command(t, args...); code != 0 {
			t.Errorf("%s: %d, %s", name, code, errs)
		}
		noted := strings.TrimPrefix(ledgerSays(t, dir, "audit"), before)
		if d.action == "" && noted != "" || d.action != "" && !matches(`olga as \S+ +`+d.action+` +`+d.subject, noted) {
			t.Errorf("%s: the audit says %q", name, noted)
		}
	}
	for name := range decisions {
		if !slices.Contains(ledgerCommands(t), name) {
			t.Errorf("there is no command %q any more", name)
		}
	}
}

// rebuilt makes a version as a rebuild does.
func rebuilt(t *testing.T, dir, version string) {
	t.Helper()
	s, err := store.Open(t.Context(), filepath.Join(dir, "ledger.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	d := definition.Default()
	d.Version = version
	if err := s.BeginRebuild(t.Context(), d, store.Rebuild{Definition: version}); err != nil {
		t.Fatal(err)
	}
}

func ledgerCommands(t *testing.T) (names []string) {
	t.Helper()
	parser, err := kong.New(&cli{}, kong.Vars{"version": ""})
	if err != nil {
		t.Fatal(err)
	}
	for _, leaf := range parser.Model.Leaves(false) {
		if strings.HasPrefix(leaf.FullPath(), " ledger ") || strings.Contains(leaf.FullPath(), " ledger ") {
			names = append(names, commandOf(leaf))
		}
	}
	if len(names) < 10 {
		t.Fatalf("only %v", names)
	}
	return names
}

// Options can make a command one that looks at a single user.
func TestLooksAtSingleUsersAreNoted(t *testing.T) {
	dir := guardedLedger(t, history)
	for args, want := range map[string]string{
		"report --by user":                             `olga as \S+ +report +- +connected of definition 1,cap=0s by user\n`,
		"report --by day,device":                       `olga as \S+ +report +- +\S+ of definition 1,cap=0s by day,device`,
		"report --by day --user bob --from 2026-01-01": `olga as \S+ +report +bob +\S+ of definition 1,cap=0s from 2026-01-01 by day`,
		"quarantine list --user bob":                   `olga as \S+ +quarantine +bob +list`,
		"export --format parquet -o ":                  `olga as \S+ +export +- +connected of definition 1,cap=0s as parquet`,
	} {
		if strings.HasSuffix(args, "-o ") {
			args += filepath.Join(t.TempDir(), "x.parquet")
		}
		ledgerSays(t, dir, strings.Fields(args)...)
		if notes := ledgerSays(t, dir, "audit"); !matches(want, notes) {
			t.Errorf("%s: no %q in\n%s", args, want, notes)
		}
	}
	asks(t, "tom")
	ledgerSays(t, dir, "report", "--by", "day")
	asks(t, "olga")
	if notes := ledgerSays(t, dir, "audit"); !matches(`tom as \S+ +report +- +\S+ of definition 1,cap=0s by day`, notes) {
		t.Error(notes)
	}
}

// An analyst sees groups, a lead the team, both days and no instants.
func TestLedgerRoles(t *testing.T) {
	dir := guardedLedger(t, history)
	ledgerSays(t, dir, "report")
	for _, c := range []struct {
		account, args string
		code          int
		says          string // on either output
	}{
		// Two users on the 29th in Berlin; on the 30th only bob.
		{"ann", "report --by day --format csv", 0, "day,seconds\n2026-07-29,2400.000\n"},
		{"ann", "report --by day --against 1,cap=0s --format csv", 0, "day,seconds,against,difference\n2026-07-29,2400.000,2400.000,0.000\n"},
		{"tom", "report --against 1,cap=0s --format csv", 0, "user,seconds,against,difference\nbob,2400.000,2400.000,0.000\n"},
		{"ann", "report --by all", 0, "seconds\n2400.000\n"},
		{"ann", "report --by day --from 2026-07-30", 0, "day  seconds\n"},
		{"ann", "report --by user", 2, "not of a user or a device"},
		{"ann", "report --by day,device", 2, "not of a user or a device"},
		{"ann", "report --by day --user bob", 1, "an analyst sees no single user"},
		{"ann", "report --by day --zone Asia/Kathmandu", 1, "counts days of Europe/Berlin"},
		{"ann", "report --by day --from 2026-07-29T22:00:00.001Z", 1, "counts whole days"},
		{"ann", "report --by day --role auditor", 1, "ann is analyst, not auditor"},
		{"ann", "access show", 0, "ann: analyst; groups of at least 2 users, days of Europe/Berlin"},
		{"tom", "report --by user,day --format csv", 0, "user,day,seconds\nbob,2026-07-29,600.000\nbob,2026-07-30,1800.000\n"},
		{"tom", "report --by day --user bob --format csv", 0, "2026-07-29,600.000\n"},
		{"tom", "report --by day --user ann", 1, "ann is not in the team support"},
		{"tom", "report --from 2026-07-29T22:00:00.001Z", 1, "counts whole days"},
		{"tom", "report --zone UTC", 1, "counts days of Europe/Berlin"},
		{"tom", "report --role lead --team other", 0, "bob"},
		{"tom", "sessions bob --format csv", 0, ",2026-07-29,2026-07-30,close,2400.000,1800.000,0.000\n"},
		{"tom", "sessions ann", 1, "ann is not in the team support"},
		{"tom", "access show", 0, "tom: lead of support; 2 users, days of Europe/Berlin"},
		{"olga", "report --role boss", 2, `no role "boss"`},
		{"eva", "report --by day", 1, "eva has no role"},
		{"olga", "report --by day --role analyst --format csv", 0, "day,seconds\n2026-07-29,2400.000\n"},
		{"olga", "report --role lead --team support --format csv", 0, "user,seconds\nbob,2400.000\n"},
		{"olga", "report --role lead --team none", 1, "no team"},
	} {
		asks(t, c.account)
		code, out, errs := command(t, append(append([]string{"ledger"}, strings.Fields(c.args)...), "--dir", dir)...)
		if code != c.code || !strings.Contains(out+errs, c.says) {
			t.Errorf("%s: %s: %d\n%s%s", c.account, c.args, code, out, errs)
		}
	}
	asks(t, "tom")
	exported := ledgerSays(t, dir, "export")
	if !strings.HasSuffix(exported, ",connected,2026-07-28T22:00:00.000Z,2026-07-30T22:00:00.000Z,2400.000\n") || strings.Count(exported, "\n") != 2 {
		t.Error(exported)
	}
	// What is going on today is nobody's but the auditor's: it would tell when.
	asks(t, "olga")
	ledgerSays(t, dir, "import", writeTrace(t, nowOnline()), "--cap", "0")
	for account, want := range map[string]bool{"olga": true, "tom": false} {
		asks(t, account)
		if got := ledgerSays(t, dir, "report", "--by", "user"); strings.Contains(got, "zoe") != want {
			t.Errorf("%s sees\n%s", account, got)
		}
	}
}

func TestAccessSetWrongly(t *testing.T) {
	dir := guardedLedger(t, history)
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	for text, says := range map[string]string{
		"auditors: [root2]":                     "olga would be no auditor",
		"auditors: [olga]\nanalyst: [x]":        "line 2: field analyst not found",
		"auditors: [olga]\nteams: {a: not.txt}": "not.txt: no such file",
		"auditors: [olga]\nminimum: 1":          "a group of one is a user",
	} {
		if err := os.WriteFile(rules, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, _, errs := command(t, "ledger", "access", "set", rules, "--dir", dir); code != 2 || !strings.Contains(errs, says) {
			t.Errorf("%q: %d, %s", text, code, errs)
		}
	}
	if shown := ledgerSays(t, dir, "access", "show"); !strings.Contains(shown, "- bob") {
		t.Errorf("the rules have changed: %s", shown)
	}
}

// nowOnline is a user who came a minute ago.
func nowOnline() string {
	now := time.Now().Add(-time.Minute).Unix()
	return fmt.Sprintf("%d,zoe,d,open\n%d,zoe,d,close\n", now, now+1)
}

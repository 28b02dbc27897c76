package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/store"
)

type ledgerQuarantineCmd struct {
	List    quarantineListCmd    `cmd:"" help:"List what was refused."`
	Show    quarantineShowCmd    `cmd:"" help:"Show a row whole."`
	Release quarantineReleaseCmd `cmd:"" help:"Mark a row as dealt with; a whole session counts from then on."`
}

func (ledgerQuarantineCmd) Help() string {
	return `What breaks a rule is kept here with the rule's name, and counts nothing until it is released. Releasing a session lets it count.
Releasing a line or an event only takes it off the list: correct it in its source and import that again.`
}

type quarantineListCmd struct {
	books
	Rule   string `placeholder:"NAME" help:"Only this rule."`
	User   string `help:"Only of this user."`
	All    bool   `help:"Those that were released too."`
	Format string `default:"table" enum:"table,json" help:"table, or json with one object a line."`
}

func (c *quarantineListCmd) Run(ctx context.Context, std console) error {
	if known := ledger.Rules(); c.Rule != "" && !slices.Contains(known, c.Rule) {
		return fmt.Errorf("%w: no rule %q; there are %s", errUsage, c.Rule, strings.Join(known, ", "))
	}
	s, err := c.open(ctx, false)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := note(ctx, s, "quarantine", c.User, "list"); err != nil {
		return err
	}
	rows := s.Quarantined(ctx, store.QuarantineQuery{Rule: c.Rule, User: c.User, Released: c.All})
	if c.Format == "json" {
		lines := json.NewEncoder(std.out)
		for r, err := range rows {
			if err != nil {
				return err
			}
			if err := lines.Encode(shownOf(r)); err != nil {
				return err
			}
		}
		return nil
	}
	table := columnsOf(std, "ID", "RULE", "SOURCE", "USER", "REASON")
	for r, err := range rows {
		if err != nil {
			return err
		}
		fmt.Fprintln(table, strings.Join([]string{r.ID, r.Rule, dash(r.Source), dash(r.User), dash(r.Reason)}, "\t"))
	}
	return table.Flush()
}

// dash stands for nothing in a table.
func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

type quarantineShowCmd struct {
	ID string `arg:"" help:"The row, as list tells."`
	books
}

func (c *quarantineShowCmd) Run(ctx context.Context, std console) error {
	s, err := c.open(ctx, false)
	if err != nil {
		return err
	}
	defer s.Close()
	r, err := noteQuarantined(ctx, s, "quarantine", c.ID)
	if err != nil {
		return err
	}
	return printQuarantined(std, r)
}

// noteQuarantined finds a row and notes that somebody looks at it.
func noteQuarantined(ctx context.Context, s *opened, action, id string) (store.Quarantined, error) {
	for r, err := range s.Quarantined(ctx, store.QuarantineQuery{ID: id, Released: true}) {
		if err != nil {
			return r, err
		}
		return r, note(ctx, s, action, r.User, id)
	}
	return store.Quarantined{}, fmt.Errorf("%w: nothing in quarantine under %q", errUsage, id)
}

type quarantineReleaseCmd struct {
	ID string `arg:"" help:"The row, as list tells."`
	books
}

func (c *quarantineReleaseCmd) Run(ctx context.Context, std console) error {
	s, err := c.open(ctx, false)
	if err != nil {
		return err
	}
	defer s.Close()
	if _, err := noteQuarantined(ctx, s, "release", c.ID); err != nil {
		return err
	}
	r, err := s.Release(ctx, c.ID, time.Now())
	if err != nil {
		return wrongly(err)
	}
	return printQuarantined(std, r)
}

func printQuarantined(std console, r store.Quarantined) error {
	out := json.NewEncoder(std.out)
	out.SetIndent("", "  ")
	return out.Encode(shownOf(r))
}

// shownOf is a row of the quarantine as JSON.
func shownOf(r store.Quarantined) map[string]any {
	row := map[string]any{"id": r.ID, "rule": r.Rule, "reason": r.Reason, "at": r.At, "refused": r.Refused, "source": r.Source, "definition": r.Definition}
	for name, value := range map[string]string{"user": r.User, "line": r.Raw} {
		if value != "" {
			row[name] = value
		}
	}
	switch {
	case r.Whole != nil:
		row["session"] = r.Whole
	case r.Event != nil && r.Raw == "":
		row["event"] = r.Event
	}
	if !r.Released.IsZero() {
		row["released"] = r.Released
	}
	return row
}

type ledgerForgetCmd struct {
	User string `arg:"" help:"The user."`
	shelf
}

func (c *ledgerForgetCmd) Help() string {
	return `Removes the user's sessions, intervals, totals and quarantine under every definition, and the user's events from the archive. The
store remembers a keyed hash of the name, so that later imports, rebuilds and archiving leave the user out; the audit keeps what it
says of the user under that hash. What the streams of a running fabric hold of the user goes with their retention. If it fails on the
way, run it again.`
}

func (c *ledgerForgetCmd) Run(ctx context.Context, std console) error {
	s, err := c.open(ctx, true)
	if err != nil {
		return err
	}
	defer s.Close()
	before, err := s.Forgotten(ctx, c.User)
	if err != nil {
		return err
	}
	// The note comes first and loses the name with the rest.
	if err := note(ctx, s, "forget", c.User, ""); err != nil {
		return err
	}
	gone, err := s.Forget(ctx, c.User, time.Now())
	if err != nil {
		return err
	}
	fmt.Fprintf(std.err, "forgotten: %d sessions\n", gone.Sessions)
	switch {
	case gone.Rows > 0:
	case before:
		fmt.Fprintf(std.err, "%q was forgotten before\n", c.User)
	default: // a name that was misspelt, for one
		fmt.Fprintf(std.err, "the tables had nothing of %q; whatever comes under this name is left out from now on\n", c.User)
	}
	return c.forgetArchived(ctx, std, c.User)
}

// An age is a lapse with a unit: 90 is not taken for seconds where days were meant, since what
// was removed does not come back.
type age time.Duration

func (a *age) UnmarshalText(text []byte) error {
	if n, err := strconv.ParseFloat(string(text), 64); err == nil && n != 0 {
		return fmt.Errorf("%q has no unit; an age is written like 90d or 36h", text)
	}
	return (*lapse)(a).UnmarshalText(text)
}

type ledgerRetentionCmd struct {
	shelf
	Sessions   *age `placeholder:"AGE" help:"Remove sessions that ended longer ago, such as 90d, with intervals; their daily totals stay."`
	Totals     *age `placeholder:"AGE" help:"Remove daily totals of days that ended longer ago."`
	Quarantine *age `placeholder:"AGE" help:"Remove what was refused longer ago."`
	Audit      *age `placeholder:"AGE" help:"Remove notes of who did what that are older."`
	Events     *age `placeholder:"AGE" help:"Remove archived hours that ended longer ago."`
}

func (c *ledgerRetentionCmd) Run(ctx context.Context, std console) error {
	if c.Sessions == nil && c.Totals == nil && c.Quarantine == nil && c.Audit == nil && c.Events == nil {
		return fmt.Errorf("%w: say what to remove: --sessions, --totals, --quarantine, --audit, --events", errUsage)
	}
	if c.Events != nil && *c.Events < 0 {
		return fmt.Errorf("%w: --events must not be negative", errUsage)
	}
	s, err := c.open(ctx, false)
	if err != nil {
		return err
	}
	defer s.Close()
	now := time.Now()
	for _, kind := range []struct {
		kind store.Kind
		age  *age
	}{{store.KindSessions, c.Sessions}, {store.KindTotals, c.Totals}, {store.KindQuarantine, c.Quarantine}, {store.KindAudit, c.Audit}} {
		if kind.age == nil {
			continue
		}
		if *kind.age < 0 {
			return fmt.Errorf("%w: --%s must not be negative", errUsage, kind.kind)
		}
		n, err := s.Prune(ctx, kind.kind, now.Add(-time.Duration(*kind.age)))
		if err != nil {
			return err
		}
		if err := note(ctx, s, "retention", "", fmt.Sprintf("%s older than %v: %d", kind.kind, time.Duration(*kind.age), n)); err != nil {
			return err
		}
		fmt.Fprintf(std.err, "%s: %d removed\n", kind.kind, n)
	}
	if c.Events == nil {
		return nil
	}
	return c.pruneArchived(ctx, std, s, time.Duration(*c.Events))
}

type ledgerAuditCmd struct{ books }

func (c *ledgerAuditCmd) Run(ctx context.Context, std console) error {
	s, err := c.open(ctx, false)
	if err != nil {
		return err
	}
	defer s.Close()
	table := columnsOf(std, "AT", "ACTOR", "ACTION", "SUBJECT", "DETAIL")
	for a, err := range s.Audits(ctx) {
		if err != nil {
			return err
		}
		fmt.Fprintln(table, strings.Join([]string{a.At.Format(time.RFC3339), a.Actor, a.Action, dash(a.Subject), dash(a.Detail)}, "\t"))
	}
	return table.Flush()
}

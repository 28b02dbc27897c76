package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kong"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/access"
	"github.com/rollcall-io/rollcall/ledger/definition"
	"github.com/rollcall-io/rollcall/ledger/interval"
	"github.com/rollcall-io/rollcall/ledger/live"
	"github.com/rollcall-io/rollcall/ledger/report"
	"github.com/rollcall-io/rollcall/ledger/store"
)

type ledgerCmd struct {
	Run         ledgerRunCmd         `cmd:"" help:"Follow a running fabric."`
	Import      ledgerImportCmd      `cmd:"" help:"Read a history from elsewhere."`
	Archive     ledgerArchiveCmd     `cmd:"" help:"Write the raw events of a fabric to Parquet files."`
	Report      ledgerReportCmd      `cmd:"" help:"Show how long users were online, by user, device, client or day."`
	Sessions    ledgerSessionsCmd    `cmd:"" help:"Show the sessions of a user."`
	Export      ledgerExportCmd      `cmd:"" help:"Write all intervals of a measure to a file."`
	Totals      ledgerTotalsCmd      `cmd:"" help:"Store the daily totals of every user, for those who ask with SQL."`
	Rebuild     ledgerRebuildCmd     `cmd:"" help:"Compute a period again from the raw events, under the same definition or another."`
	Reconcile   ledgerReconcileCmd   `cmd:"" help:"Compare the figures of two definitions, such as live ones and a rebuild."`
	Definitions ledgerDefinitionsCmd `cmd:"" help:"Show the rules that figures were computed under; drop those of a rebuild."`
	Quarantine  ledgerQuarantineCmd  `cmd:"" help:"Show and release what broke a rule."`
	Forget      ledgerForgetCmd      `cmd:"" help:"Remove a user for good."`
	Retention   ledgerRetentionCmd   `cmd:"" help:"Remove what is older than it may become."`
	Audit       ledgerAuditCmd       `cmd:"" help:"Show who exported what and looked at whom."`
	Access      ledgerAccessCmd      `cmd:"" help:"Say who may ask what: analysts, team leads, auditors."`
}

func (ledgerCmd) Help() string {
	return `Online time: how long users were connected, in the foreground, active. Figures name the definition that they were
computed under; those of several stand side by side.`
}

// books is where the ledger is.
type books struct {
	Dir   string `default:"rollcall-data" type:"path" help:"Data directory (default ${default})."`
	Store string `env:"ROLLCALL_LEDGER" placeholder:"URL" help:"postgres://… or the path of a SQLite file (default: ledger.db in the data directory)."`

	command string // such as "quarantine list"
}

// eyes are those with which an auditor looks.
type eyes struct {
	Role access.Role `placeholder:"ROLE" help:"See what an analyst or a lead sees; for auditors."`
	Team string      `placeholder:"NAME" help:"The team of --role lead."`
}

// AfterApply keeps the name of the command, which is what rules are about.
func (b *books) AfterApply(parsed *kong.Context) error {
	b.command = commandOf(parsed.Selected())
	return nil
}

// commandOf is the name of a command below "rollcall ledger".
func commandOf(n *kong.Node) string {
	if n.Parent.Name == "ledger" {
		return n.Name
	}
	return commandOf(n.Parent) + " " + n.Name
}

func (b books) place() string {
	if b.Store != "" {
		return b.Store
	}
	return filepath.Join(b.Dir, "ledger.db")
}

// opened is a store with the one who asks it.
type opened struct {
	*store.SQL
	reader access.Reader
}

// open opens the store for whoever may use this command; one that is only read must be
// there.
func (b books) open(ctx context.Context, create bool) (*opened, error) {
	return b.openAs(ctx, create, eyes{})
}

func (b books) openAs(ctx context.Context, create bool, e eyes) (*opened, error) {
	place := b.place()
	if !create && !strings.Contains(place, "://") {
		if _, err := os.Stat(place); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("no ledger in %s; 'rollcall up', 'rollcall ledger run' and 'rollcall ledger import' make one", place)
		}
	}
	s, err := store.Open(ctx, place)
	if err != nil {
		return nil, wrongly(err)
	}
	o := &opened{SQL: s}
	if err := o.admit(ctx, b.command, e); err != nil {
		s.Close()
		return nil, err
	}
	return o, nil
}

// admit finds out who asks, and whether for this command.
func (o *opened) admit(ctx context.Context, command string, e eyes) error {
	if unattended(command) {
		return nil
	}
	rules, err := o.Rules(ctx)
	if err != nil {
		return err
	}
	if o.reader, err = rules.Reader(account(), e.Role, e.Team); err == nil && !serves(command, o.reader.Role) {
		err = fmt.Errorf("%w: 'ledger %s' is not for the role %s", access.ErrDenied, command, o.reader.Role)
	}
	return wrongly(o.denied(ctx, command, "", err))
}

// denied notes what was asked for in vain.
func (o *opened) denied(ctx context.Context, command, subject string, err error) error {
	if errors.Is(err, access.ErrDenied) {
		return errors.Join(err, note(ctx, o.SQL, "denied", subject, command))
	}
	return err
}

// account is who asks. Under sudo it is the one who called it: so a service account can
// be the only one that reads the store.
func account() string {
	if caller := os.Getenv("SUDO_USER"); caller != "" {
		return caller
	}
	return effective()
}

// effective is the account under which the command runs.
func effective() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "?"
}

// wrongly marks errors that are the caller's.
func wrongly(err error) error {
	for _, mark := range []error{store.ErrURL, store.ErrDefinition, store.ErrInUse, store.ErrUnknown, definition.ErrInvalid, report.ErrQuery, interval.ErrZone, access.ErrInvalid, live.ErrConfig} {
		if errors.Is(err, mark) {
			return fmt.Errorf("%w: %w", errUsage, err)
		}
	}
	return err
}

// note writes an audit row: who did what.
func note(ctx context.Context, s store.Store, action, subject, detail string) error {
	actor := account()
	if as := effective(); as != actor {
		actor += " as " + as
	}
	return s.Audit(ctx, store.Audit{At: time.Now(), Actor: actor, Action: action, Subject: subject, Detail: detail})
}

// asking is what every question needs.
type asking struct {
	books
	eyes
	Definition string `placeholder:"VERSION" help:"The definition whose figures are asked for (default: the one used last)."`
	Zone       string `placeholder:"ZONE" help:"Time zone of days, such as Europe/Berlin (default: that of the rules of access, else UTC)."`
	From       string `placeholder:"TIME" help:"Only what is not before a day or instant, such as 2026-07-29 or 2026-07-29T08:00:00Z."`
	To         string `placeholder:"TIME" help:"Only what is before a day or instant."`
}

// question opens the store and reads the options.
func (a asking) question(ctx context.Context, std console) (s *opened, d ledger.Definition, q report.Query, err error) {
	if s, err = a.openAs(ctx, false, a.eyes); err != nil {
		return nil, d, q, err
	}
	q.Zone, q.Bounds, err = a.days(s.reader)
	if err == nil {
		d, err = a.choose(ctx, s, std)
	}
	if err != nil {
		return nil, d, q, errors.Join(s.denied(ctx, a.command, "", err), s.Close())
	}
	q.Definition = d.Version
	if err := warn(ctx, s, q, std); err != nil {
		return nil, d, q, errors.Join(err, s.Close())
	}
	return s, d, q, nil
}

// days are the zone and the bounds. Who may see no instants asks for whole days of one
// zone that have ended: the difference of two zones, of two hours, or of a minute and the
// next, would tell them.
func (a asking) days(r access.Reader) (z *interval.Zone, bounds interval.Interval, err error) {
	if z, err = interval.LoadZone(cmp.Or(a.Zone, r.Zone, "UTC")); err != nil {
		return z, bounds, wrongly(err)
	}
	if bounds, err = report.ParseBounds(z, a.From, a.To); err != nil || r.Exact() {
		return z, bounds, wrongly(err)
	}
	switch {
	case r.Zone != "" && z.Name() != r.Zone:
		err = fmt.Errorf("%w: the role %s counts days of %s", access.ErrDenied, r.Role, r.Zone)
	case !report.WholeDays(z, bounds):
		err = fmt.Errorf("%w: the role %s counts whole days; --from and --to must be days", access.ErrDenied, r.Role)
	}
	bounds.To = min(bounds.To, z.Start(z.Date(time.Now().UnixMilli())))
	bounds.From = min(bounds.From, bounds.To)
	return z, bounds, err
}

// spell says for the audit what was asked for.
func (a asking) spell(q report.Query) string {
	text := cmp.Or(string(q.Measure), "all") + " of definition " + q.Definition
	if a.From != "" {
		text += " from " + a.From
	}
	if a.To != "" {
		text += " to " + a.To
	}
	return text
}

// choose finds the definition that is asked for.
func (a asking) choose(ctx context.Context, s store.Store, std console) (d ledger.Definition, err error) {
	known, err := s.Definitions(ctx)
	if err != nil {
		return d, err
	}
	switch {
	case a.Definition != "":
		return definitionOf(ctx, s, a.Definition)
	case len(known) == 0:
		return d, errors.New("the ledger is empty")
	case len(known) > 1:
		fmt.Fprintf(std.err, "figures of definition %s, the one used last of %d; see --definition\n", known[0].Version, len(known))
	}
	return known[0].Definition, nil
}

// definitionOf finds the definition of a version.
func definitionOf(ctx context.Context, s store.Store, version string) (d ledger.Definition, err error) {
	known, err := s.Definitions(ctx)
	if err != nil {
		return d, err
	}
	for _, k := range known {
		if k.Version == version {
			return k.Definition, nil
		}
	}
	return d, fmt.Errorf("%w: no figures of definition %q", errUsage, version)
}

// measureOf checks the name of a measure.
func measureOf(name string, d ledger.Definition) (ledger.Measure, error) {
	known := []string{string(ledger.Connected), string(ledger.Foreground), string(ledger.Active)}
	known = append(known, d.Labels...)
	if !slices.Contains(known, name) {
		return "", fmt.Errorf("%w: no measure %q; there are %s", errUsage, name, strings.Join(known, ", "))
	}
	return ledger.Measure(name), nil
}

// A lapse is a duration in seconds, in Go's notation, or in days.
type lapse time.Duration

func (l *lapse) UnmarshalText(text []byte) error {
	s := string(text)
	unit := time.Second
	if days, ok := strings.CutSuffix(s, "d"); ok {
		s, unit = days, 24*time.Hour
	}
	if n, err := strconv.ParseFloat(s, 64); err == nil && n*float64(unit) < float64(1<<62) && n*float64(unit) > -float64(1<<62) {
		*l = lapse(n * float64(unit))
		return nil
	}
	d, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is no time such as 90, 1m30s or 30d", text)
	}
	*l = lapse(d)
	return nil
}

// columnsOf starts a table.
func columnsOf(std console, names ...string) *tabwriter.Writer {
	table := tabwriter.NewWriter(std.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, strings.Join(names, "\t"))
	return table
}

package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/access"
	"github.com/rollcall-io/rollcall/ledger/definition"
	"github.com/rollcall-io/rollcall/ledger/interval"
	"github.com/rollcall-io/rollcall/ledger/report"
	"github.com/rollcall-io/rollcall/ledger/store"
)

type ledgerReportCmd struct {
	asking
	By      []string `default:"user" placeholder:"COLUMN" help:"user, device, client, version, channel, region, day, week, month; several with commas (default ${default}); 'all' for one figure."`
	Measure string   `default:"connected" help:"connected, foreground, active, or a label of the definition (default ${default})."`
	Union   bool     `xor:"how" help:"Count what several sessions of a user share once (the default)."`
	Sum     bool     `xor:"how" help:"Count every session for itself."`
	User    string   `placeholder:"NAME" help:"Only this user."`
	Against string   `placeholder:"VERSION" help:"Another definition, whose figures stand beside these."`
	Format  string   `default:"table" enum:"table,csv,json" help:"table, csv or json."`
}

func (c *ledgerReportCmd) Help() string {
	return `Rows carry the columns of --by, in that order, and seconds, with three decimals. Days, weeks (ISO 8601) and months are those of
--zone, and begin when they do there, also where midnight does not exist. Only what lies in [from, to) counts. With --against, rows
have 'against' and 'difference' too: the seconds under that definition, and how many more they are.

An analyst sees groups of users: where one would be too small, its version, region, channel or client reads 'other'.
A lead sees the users of the own team. Both see whole days that have ended.`
}

func (c *ledgerReportCmd) Run(ctx context.Context, std console) error {
	var by []report.Column
	if !slices.Equal(c.By, []string{"all"}) {
		var err error
		if by, err = report.ParseColumns(c.By); err != nil {
			return wrongly(err)
		}
	}
	s, d, q, err := c.question(ctx, std)
	if err != nil {
		return err
	}
	defer s.Close()
	q.By, q.Sum, q.User = by, c.Sum, c.User
	if q.Measure, err = measureOf(c.Measure, d); err != nil {
		return err
	}
	from, err := c.source(ctx, s, &q)
	if err != nil {
		return err
	}
	rows, err := report.Run(ctx, from, q)
	if err != nil {
		return wrongly(err)
	}
	if c.Against != "" {
		return c.beside(ctx, std, s, from, q, rows)
	}
	return report.Write(std.out, c.Format, by, rows)
}

// beside asks the same of another definition.
func (c *ledgerReportCmd) beside(ctx context.Context, std console, s *opened, from report.Source, q report.Query, rows []report.Row) error {
	d, err := definitionOf(ctx, s, c.Against)
	if err != nil {
		return err
	}
	if _, err := measureOf(c.Measure, d); err != nil {
		return err
	}
	q.Definition = d.Version
	if err := warn(ctx, s, q, std); err != nil {
		return err
	}
	others, err := report.Run(ctx, from, q)
	if err != nil {
		return wrongly(err)
	}
	var columns []string
	for _, c := range q.By {
		columns = append(columns, string(c))
	}
	columns = append(columns, "seconds", "against", "difference")
	return printRows(std, c.Format, columns, len(q.By), func(yield func([]string, error) bool) {
		for _, b := range report.Beside(rows, others) {
			if !yield(append(b.Keys, report.Seconds(b.Here), report.Seconds(b.There), report.Seconds(b.There-b.Here)), nil) {
				return
			}
		}
	})
}

// source is what the reader may see of the store. Whatever tells of single users is noted.
func (c *ledgerReportCmd) source(ctx context.Context, s *opened, q *report.Query) (from report.Source, err error) {
	if c.User != "" {
		if err := s.reader.Sees(c.User); err != nil {
			return nil, s.denied(ctx, c.command, c.User, err)
		}
	}
	single := c.User != "" || slices.Contains(q.By, report.User) || slices.Contains(q.By, report.Device)
	switch from = s; s.reader.Role {
	case access.Analyst:
		q.Minimum = s.reader.Minimum
	case access.Lead:
		from, single = report.Only(s, s.reader.Users), true
	}
	if single {
		detail := c.spell(*q) + " by " + strings.Join(c.By, ",")
		if c.Against != "" {
			detail += " against " + c.Against
		}
		err = note(ctx, s, "report", c.User, detail)
	}
	return from, err
}

type ledgerSessionsCmd struct {
	User string `arg:"" help:"The user."`
	asking
	Format string `default:"table" enum:"table,csv,json" help:"table, csv or json."`
}

// sessionColumns are what is shown of a session.
var sessionColumns = []string{"session", "device", "start", "end", "ended", "connected", "foreground", "active"}

func (c *ledgerSessionsCmd) Help() string {
	return `A lead sees on which days sessions of the own team began and ended, and how long they were.`
}

func (c *ledgerSessionsCmd) Run(ctx context.Context, std console) error {
	s, _, q, err := c.question(ctx, std)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.reader.Sees(c.User); err != nil {
		return s.denied(ctx, c.command, c.User, err)
	}
	if err := note(ctx, s, "sessions", c.User, c.spell(q)); err != nil {
		return err
	}
	show, err := sessionRow(q.Zone, s.reader.Exact())
	if err != nil {
		return err
	}
	rows := sessionRows(s.Sessions(ctx, store.Query{Definition: q.Definition, User: c.User, Bounds: q.Bounds}), show)
	return printRows(std, c.Format, sessionColumns, 5, rows)
}

// printRows writes rows as a table, as CSV, or as a JSON list of objects, in which all
// columns from the numbers on are such.
func printRows(std console, format string, columns []string, numbers int, rows iter.Seq2[[]string, error]) error {
	switch format {
	case "csv":
		out := csv.NewWriter(std.out)
		out.Write(columns)
		for row, err := range rows {
			if err != nil {
				return err
			}
			out.Write(row)
		}
		out.Flush()
		return out.Error()
	case "json":
		list := []map[string]any{}
		for row, err := range rows {
			if err != nil {
				return err
			}
			one := map[string]any{}
			for k, name := range columns {
				if one[name] = row[k]; k >= numbers {
					one[name] = json.Number(row[k])
				}
			}
			list = append(list, one)
		}
		out := json.NewEncoder(std.out)
		out.SetIndent("", "  ")
		return out.Encode(list)
	}
	table := columnsOf(std, columns...)
	for row, err := range rows {
		if err != nil {
			return err
		}
		for k, cell := range row {
			row[k] = dash(cell)
		}
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	return table.Flush()
}

func sessionRows(sessions iter.Seq2[ledger.Session, error], show func(ledger.Session) []string) iter.Seq2[[]string, error] {
	return func(yield func([]string, error) bool) {
		for x, err := range sessions {
			if !yield(show(x), err) {
				return
			}
		}
	}
}

// sessionRow shows sessions in local time. Who may not know when sees the days, and no
// ids, which betray when a session began.
func sessionRow(z *interval.Zone, exact bool) (func(ledger.Session) []string, error) {
	local, err := time.LoadLocation(z.Name())
	if err != nil {
		return nil, err
	}
	at := func(ms int64) string { return time.UnixMilli(ms).In(local).Format("2006-01-02T15:04:05.000Z07:00") }
	if !exact {
		at = func(ms int64) string { return z.Date(ms).String() }
	}
	return func(x ledger.Session) []string {
		id := x.ID
		if !exact {
			id = "-"
		}
		row := []string{id, x.Device, at(x.Start), at(x.End), endedBy(x.Ended)}
		for _, m := range []ledger.Measure{ledger.Connected, ledger.Foreground, ledger.Active} {
			row = append(row, report.Seconds(interval.Total(x.Intervals[m])))
		}
		return row
	}, nil
}

func endedBy(k ledger.Kind) string {
	switch k {
	case ledger.KindClose:
		return "close"
	case ledger.KindTimeout:
		return "timeout"
	case ledger.KindLogout:
		return "logout"
	}
	return "open"
}

type ledgerExportCmd struct {
	asking
	Measure string `default:"connected" help:"connected, foreground, active, or a label of the definition (default ${default})."`
	Format  string `default:"csv" enum:"csv,parquet" help:"csv or parquet."`
	Out     string `short:"o" default:"-" placeholder:"FILE" help:"Where to write; standard output by default."`
}

func (c *ledgerExportCmd) Help() string {
	return `Each row is an interval of a session, from its first instant to the one after its last. A lead sees the own team: from and to
are then the beginning and end of the days, seconds say how long, and sessions have no names.`
}

func (c *ledgerExportCmd) Run(ctx context.Context, std console) error {
	if c.Format == "parquet" && c.Out == "-" && isTerminal(std.out) {
		return fmt.Errorf("%w: Parquet is nothing to look at; say where to write it with --out", errUsage)
	}
	s, d, q, err := c.question(ctx, std)
	if err != nil {
		return err
	}
	defer s.Close()
	if q.Measure, err = measureOf(c.Measure, d); err != nil {
		return err
	}
	// The note comes first: no data leaves without it.
	if err := note(ctx, s, "export", "", c.spell(q)+" as "+c.Format); err != nil {
		return err
	}
	form := report.ExportForm{Format: c.Format, Measure: q.Measure, Bounds: q.Bounds}
	from := report.Source(s)
	if !s.reader.Exact() {
		form.Days, from = q.Zone, report.Only(s, s.reader.Users)
	}
	rows := from.Intervals(ctx, store.Query{Definition: q.Definition, Measure: q.Measure, Bounds: q.Bounds})
	var n int64
	err = writeOut(c.Out, std, func(w io.Writer) (err error) {
		n, err = report.Export(w, form, rows)
		return err
	})
	if err == nil {
		fmt.Fprintf(std.err, "%d intervals\n", n)
	}
	return err
}

// writeOut writes to a file that only its owner can read, which is there whole or not at
// all, or to standard output.
func writeOut(path string, std console, write func(io.Writer) error) error {
	if path == "-" {
		return write(std.out)
	}
	part := path + ".part"
	file, err := os.OpenFile(part, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(write(file), file.Close()); err != nil {
		os.Remove(part)
		return err
	}
	return os.Rename(part, path)
}

type ledgerTotalsCmd struct {
	asking
	Measure string `default:"connected" help:"connected, foreground, active, or a label of the definition (default ${default})."`
}

func (c *ledgerTotalsCmd) Help() string {
	return `Computes the table 'daily' for a definition, zone and measure. From then on imports and releases from quarantine keep it true.`
}

func (c *ledgerTotalsCmd) Run(ctx context.Context, std console) error {
	s, d, q, err := c.question(ctx, std)
	if err != nil {
		return err
	}
	defer s.Close()
	if q.Measure, err = measureOf(c.Measure, d); err != nil {
		return err
	}
	// Whole days only: a part of a day would replace what is known of all of it.
	from, to := q.Zone.Date(q.Bounds.From), q.Zone.Date(q.Bounds.To-1)+1
	if q.Bounds.From != q.Zone.Start(from) && c.From != "" || c.To != "" && q.Bounds.To != q.Zone.Start(to) {
		return fmt.Errorf("%w: totals are of whole days; --from and --to must be days", errUsage)
	}
	if err := note(ctx, s, "totals", "", c.spell(q)+" in "+q.Zone.Name()); err != nil {
		return err
	}
	key := store.DailyKey{Definition: q.Definition, Zone: q.Zone.Name(), Measure: q.Measure}
	return s.PutDaily(ctx, key, from, to, report.Daily(ctx, s, q))
}

type ledgerDefinitionsCmd struct {
	Show definitionsShowCmd `cmd:"" default:"withargs" help:"Show all of them, the one used last first (default)."`
	Drop definitionsDropCmd `cmd:"" help:"Remove a version that only rebuilds have written, with its figures."`
}

type definitionsShowCmd struct {
	books
	Template bool `help:"Print the default definition as a file to start from."`
}

func (c *definitionsShowCmd) Run(ctx context.Context, std console) error {
	if c.Template {
		_, err := std.out.Write(definition.File())
		return err
	}
	s, err := c.open(ctx, false)
	if err != nil {
		return err
	}
	defer s.Close()
	known, err := s.Definitions(ctx)
	if err != nil {
		return err
	}
	for k, d := range known {
		if k > 0 {
			fmt.Fprintln(std.out)
		}
		fmt.Fprintf(std.out, "# %s\n%s\n", d.Hash, bytes.TrimSpace(definition.Canonical(d.Definition)))
	}
	return nil
}

type definitionsDropCmd struct {
	Version string `arg:"" help:"The version, such as 1+rebuilt-20261201T101228Z."`
	books
}

func (c *definitionsDropCmd) Help() string {
	return `Removes the definition, its sessions, intervals and daily totals, and what was refused under it. A version that an import or a running
ledger has used is refused: its raw events may be gone. What a comparison with the version found stays in quarantine.`
}

func (c *definitionsDropCmd) Run(ctx context.Context, std console) error {
	s, err := c.open(ctx, false)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := note(ctx, s, "drop", "", "definition "+c.Version); err != nil {
		return err
	}
	n, err := s.Drop(ctx, c.Version)
	if err != nil {
		return wrongly(err)
	}
	fmt.Fprintf(std.err, "dropped %s: %d sessions\n", c.Version, n)
	return nil
}

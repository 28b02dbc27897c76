package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/schollz/progressbar/v3"

	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/archive"
	"github.com/rollcall-io/rollcall/ledger/definition"
	"github.com/rollcall-io/rollcall/ledger/interval"
	"github.com/rollcall-io/rollcall/ledger/pseudonym"
	"github.com/rollcall-io/rollcall/ledger/rebuild"
	"github.com/rollcall-io/rollcall/ledger/report"
	"github.com/rollcall-io/rollcall/ledger/store"
	"github.com/rollcall-io/rollcall/subjects/identity"
)

type ledgerRebuildCmd struct {
	shelf
	From       string   `required:"" placeholder:"DAY" help:"First day of the period, such as 2026-11-01; or an instant."`
	To         string   `placeholder:"DAY" help:"The day after its last (default: today, so that yesterday is the last)."`
	Definition string   `type:"existingfile" placeholder:"FILE" help:"Definition as YAML (default: the one used last); 'rollcall ledger definitions --template' prints one."`
	Source     string   `default:"stream" enum:"stream,archive" help:"stream: what the fabric still holds; archive: what was archived (default ${default})."`
	Zone       []string `default:"UTC" placeholder:"ZONE" help:"Time zones of daily totals, such as Europe/Berlin; days of --from and --to are those of the first (default ${default})."`
	Into       string   `placeholder:"VERSION" help:"The name of the figures (default: the definition's version, or VERSION+rebuilt-TIME if there are figures under it)."`
	remote
}

func (c *ledgerRebuildCmd) Help() string {
	return `Computes a period again from the raw events, beside the figures that are there: under another definition, or under the same one to see
whether the figures are right ('rollcall ledger reconcile'). Sessions that touch the period come out whole; daily totals are
those of its days. It may be interrupted at any point: run again with the same period, definition and source, it goes on where it
was, and until then 'report' warns that figures are missing. Users who were forgotten stay so.

The streams hold what the fabric's retention says, 48 h unless chosen otherwise; a period that begins before needs the archive. A version
made by a rebuild is never the one that 'report' takes by default: name it with --definition. --into adds to figures that are there, if
their rules are the same, such as the days before a definition came into use.`
}

func (c *ledgerRebuildCmd) Run(ctx context.Context, std console) error {
	zones, bounds, err := c.period()
	if err != nil {
		return err
	}
	s, err := c.open(ctx, true)
	if err != nil {
		return err
	}
	defer s.Close()
	d, err := c.definition(ctx, s)
	if err != nil {
		return wrongly(err)
	}
	source, done, err := c.source(ctx, std)
	if err != nil {
		return err
	}
	defer done()
	if err := note(ctx, s, "rebuild", "", fmt.Sprintf("%s under %s, from the %s", spell(bounds, zones[0]), d.Version, c.Source)); err != nil {
		return err
	}
	sum, err := rebuild.Run(ctx, rebuild.Config{
		Store: s, Source: source, Definition: d, Bounds: bounds, Zones: zones, Into: c.Into, Progress: rebuildProgress(std),
	})
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w; run it again with the same options, it goes on where it was", errInterrupted)
	case errors.Is(err, rebuild.ErrGone):
		return fmt.Errorf("%w: %w; begin later, or rebuild from the archive", errUsage, err)
	case errors.Is(err, rebuild.ErrAhead):
		return fmt.Errorf("%w: %w", errUsage, err)
	case err != nil:
		return wrongly(err)
	}
	c.say(std, spell(bounds, zones[0]), sum)
	return nil
}

// period reads the options that say what is rebuilt. It must be the same when a rebuild
// that was interrupted is run again, so it does not end now.
func (c *ledgerRebuildCmd) period() (zones []*interval.Zone, bounds interval.Interval, err error) {
	for _, name := range c.Zone {
		z, err := interval.LoadZone(name)
		if err != nil {
			return nil, bounds, wrongly(err)
		}
		zones = append(zones, z)
	}
	to := c.To
	if to == "" {
		to = zones[0].Date(time.Now().UnixMilli()).String()
	}
	if bounds, err = report.ParseBounds(zones[0], c.From, to); err != nil {
		return nil, bounds, wrongly(err)
	}
	if bounds.Empty() {
		return nil, bounds, fmt.Errorf("%w: from %s to %s is no time; --to is the day after the last one", errUsage, c.From, to)
	}
	return zones, bounds, nil
}

func (c *ledgerRebuildCmd) definition(ctx context.Context, s store.Store) (d ledger.Definition, err error) {
	if c.Definition != "" {
		return readDefinition(c.Definition)
	}
	known, err := s.Definitions(ctx)
	if err != nil {
		return d, err
	}
	if len(known) > 0 && !known[0].Rebuilt {
		return known[0].Definition, nil
	}
	return definition.Default(), nil
}

// source opens where the raw events come from; done closes it.
func (c *ledgerRebuildCmd) source(ctx context.Context, std console) (source rebuild.Source, done func(), err error) {
	if c.Source == "archive" {
		a, err := archive.Open(c.archive())
		if err != nil {
			return nil, nil, err
		}
		return rebuild.Archive(a), func() {}, nil
	}
	key, err := pseudonym.Load(filepath.Join(c.Dir, "device.key"))
	if err != nil {
		return nil, nil, err
	}
	if dir := filepath.Join(c.Dir, keysInData); c.Keys == "" {
		if _, err := os.Stat(dir); err == nil { // of the fabric whose data this is
			c.Keys = dir
		}
	}
	host, _ := os.Hostname()
	nc, err := c.connectAs(std, "ledger", party{role: identity.Ledger, ids: []string{host}, anyName: true, does: "read raw events"})
	if err != nil {
		return nil, nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		nc.Close()
		return nil, nil, err
	}
	f, err := fabric.Lookup(ctx, js, c.Prefix)
	if err != nil {
		nc.Close()
		return nil, nil, err
	}
	return rebuild.Stream(js, f.Names, key.Device), nc.Close, nil
}

func (c *ledgerRebuildCmd) say(std console, period string, sum rebuild.Summary) {
	fmt.Fprintf(std.err, "%s under %s: %d events read, %d sessions new or corrected, %d refused", period, sum.Version, sum.Events, sum.Sessions, sum.Rejected)
	if sum.Forgotten > 0 {
		fmt.Fprintf(std.err, ", %d of forgotten users left out", sum.Forgotten)
	}
	if sum.Resumed {
		fmt.Fprint(std.err, ", going on with one that was interrupted")
	}
	fmt.Fprintln(std.err)
	if sum.Begins != 0 {
		fmt.Fprintf(std.err, "the %s begins at %s: sessions that began before may be cut or missing\n", c.Source, spellTime(sum.Begins))
	}
	if sum.Ends != 0 {
		fmt.Fprintf(std.err, "the %s ends at %s: what is stored later, and may belong into the period, is not counted\n", c.Source, spellTime(sum.Ends))
	}
	fmt.Fprintf(std.err, "figures:    rollcall ledger report --definition %s\ncomparison: rollcall ledger reconcile --against %[1]s\n", sum.Version)
}

// spell writes a period: as days of the zone, if it is of whole ones.
func spell(b interval.Interval, z *interval.Zone) string {
	from, to := z.Date(b.From), z.Date(b.To)
	if z.Start(from) != b.From || z.Start(to) != b.To {
		return spellTime(b.From) + " to " + spellTime(b.To)
	}
	return fmt.Sprintf("%s to before %s (%s)", from, to, z.Name())
}

func spellTime(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }

// rebuildProgress shows how far a rebuild is: a bar for those who watch, else a line now
// and then.
func rebuildProgress(std console) func(rebuild.Progress) {
	const parts = 1000
	if isTerminal(std.err) {
		bar := progressbar.NewOptions(parts, progressbar.OptionSetWriter(std.err), progressbar.OptionSetDescription("reading"),
			progressbar.OptionSetWidth(30), progressbar.OptionClearOnFinish(), progressbar.OptionSetPredictTime(true))
		return func(p rebuild.Progress) {
			if p.Totals {
				bar.Describe("counting days")
			}
			bar.Set(min(int(p.Share*parts), parts-1)) // the days come after what was read
		}
	}
	tenths, counting := 0, false
	return func(p rebuild.Progress) {
		if now := int(p.Share * 10); now > tenths {
			tenths = now
			fmt.Fprintf(std.err, "%d%% read: %d events, %d sessions\n", int(p.Share*100+.5), p.Events, p.Rows)
		}
		if p.Totals && !counting {
			counting = true
			fmt.Fprintln(std.err, "counting days")
		}
	}
}

// warn says which figures of a question may be missing.
func warn(ctx context.Context, s store.Store, q report.Query, std console) error {
	doubt, err := doubtOf(ctx, s, q)
	if doubt != "" {
		fmt.Fprintln(std.err, "WARNING:", doubt)
	}
	return err
}

// doubtOf says why figures of a question may be missing; empty if all are there.
func doubtOf(ctx context.Context, s store.Store, q report.Query) (string, error) {
	made, err := s.Rebuilds(ctx)
	if err != nil {
		return "", err
	}
	var whole []interval.Interval
	for _, r := range made {
		switch overlap := r.Bounds.Clip(q.Bounds); {
		case r.Definition != q.Definition:
		case !r.Finished.IsZero():
			whole = append(whole, interval.Interval{From: r.Bounds.From, To: min(r.Bounds.To, r.Ends.UnixMilli())})
		case !overlap.Empty():
			return fmt.Sprintf("figures of %s are missing: its rebuild of %s from the %s is not finished; run it again, it goes on where it was",
				q.Definition, spell(r.Bounds, q.Zone), r.Source), nil
		}
	}
	everything := q.Bounds.From == interval.Earliest && q.Bounds.To == interval.Latest // that there is
	if len(whole) == 0 || everything {
		return "", nil
	}
	known, err := s.Definitions(ctx)
	for _, k := range known {
		if whole = interval.Union(whole); k.Version == q.Definition && k.Rebuilt && !interval.Within([]interval.Interval{q.Bounds}, whole) {
			var periods []string
			for _, b := range whole {
				periods = append(periods, spell(b, q.Zone))
			}
			return fmt.Sprintf("figures of %s are those of %s only", q.Definition, strings.Join(periods, ", ")), err
		}
	}
	return "", err
}

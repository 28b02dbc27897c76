package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/interval"
	"github.com/rollcall-io/rollcall/ledger/rebuild"
	"github.com/rollcall-io/rollcall/ledger/reconcile"
	"github.com/rollcall-io/rollcall/ledger/report"
	"github.com/rollcall-io/rollcall/ledger/store"
)

type ledgerReconcileCmd struct {
	asking
	Against   string   `placeholder:"VERSION" help:"The definition to compare with (default: the newest rebuild of the same rules)."`
	Measure   []string `placeholder:"MEASURE" help:"Only these (default: all of the definition)."`
	Threshold lapse    `default:"1s" help:"How far figures may be apart (default ${default})."`
	Format    string   `default:"table" enum:"table,csv,json" help:"table, csv or json."`
}

func (c *ledgerReconcileCmd) Help() string {
	return `Compares the figures of two definitions, by user and day and by session, and lists what is further apart than the threshold: both
figures, and the time that only one of the two has. Exits with 1 if there is any, or if there was nothing to compare. Between live figures and a rebuild under the same
rules there should be none; what there is goes to quarantine too, as live_differs_from_rebuilt. The period is that of the
rebuild, unless --from and --to say otherwise, without its end where that may still have changed after the rebuild.`
}

// What reconcile found. A comparison of nothing is no success: a nightly one that begins
// too early would be green for ever.
var (
	errApart   = errors.New("figures differ")
	errNothing = errors.New("nothing to compare")
)

func (c *ledgerReconcileCmd) Run(ctx context.Context, std console) error {
	s, d, q, err := c.question(ctx, std)
	if err != nil {
		return err
	}
	defer s.Close()
	query := reconcile.Query{Zone: q.Zone, Threshold: time.Duration(c.Threshold).Milliseconds()}
	for _, name := range c.measures(d) {
		m, err := measureOf(name, d)
		if err != nil {
			return err
		}
		query.Measures = append(query.Measures, m)
	}
	made, err := s.Rebuilds(ctx)
	if err != nil {
		return err
	}
	there, bounds, err := c.against(ctx, s, made, d, q.Bounds, std)
	if err != nil {
		return err
	}
	query.Bounds = bounds
	for _, version := range []string{d.Version, there.Version} {
		doubt, err := doubtOf(ctx, s, report.Query{Definition: version, Bounds: bounds, Zone: q.Zone})
		if err != nil {
			return err
		}
		if doubt != "" {
			return fmt.Errorf("%w: %s", errUsage, doubt)
		}
	}
	if err := note(ctx, s, "reconcile", "", d.Version+" and "+there.Version); err != nil {
		return err
	}
	r := reconciling{s: s, here: d.Version, there: there.Version, keep: rebuild.SameRules(d, there)}
	err = printRows(std, c.Format, reconcileColumns, 5, r.rows(ctx, query))
	what := fmt.Sprintf("%v, %s, under %s and %s", time.Duration(c.Threshold), spell(bounds, q.Zone), r.here, r.there)
	switch {
	case err != nil:
		return err
	case r.compared == 0:
		return fmt.Errorf("%w: neither has a session in %s, under %s and %s", errNothing, spell(bounds, q.Zone), r.here, r.there)
	case r.apart == 0:
		fmt.Fprintf(std.err, "%d days and sessions agree within %s\n", r.compared, what)
		return nil
	case r.keep:
		what += "; 'rollcall ledger quarantine list --rule " + ledger.RuleRebuilt + "' keeps them"
	default:
		what += ", whose rules differ"
	}
	return fmt.Errorf("%w: %d of %d days and sessions by more than %s", errApart, r.apart, r.compared, what)
}

// against finds what to compare with, and the period, and says so if not all of it can be
// compared yet.
func (c *ledgerReconcileCmd) against(ctx context.Context, s store.Store, made []store.Rebuild, d ledger.Definition, bounds interval.Interval, std console) (ledger.Definition, interval.Interval, error) {
	whole := c.From == "" && c.To == ""
	for _, r := range made {
		there, err := definitionOf(ctx, s, r.Definition)
		if err != nil {
			return d, bounds, err
		}
		wanted := c.Against == r.Definition || c.Against == "" && r.Definition != d.Version && rebuild.SameRules(d, there)
		if wanted && !r.Finished.IsZero() && (whole || interval.Within([]interval.Interval{bounds}, []interval.Interval{r.Bounds})) {
			if whole {
				bounds = r.Bounds
			}
			if final := rebuild.Final(r, there); final < bounds.To {
				fmt.Fprintf(std.err, "figures of %s are final until %s: its source ended at %s, and events may come late by %v (lateness) and change the %v before (gap_cap)\n",
					r.Definition, spellTime(final), spellTime(r.Ends.UnixMilli()), there.Lateness, there.Gaps.Cap)
				bounds.To = final
			}
			if bounds.Empty() {
				err = fmt.Errorf("%w: no figures of this period are final yet; rebuild it again when it has been over for %v", errNothing, there.Lateness+there.Gaps.Cap)
			}
			return there, bounds, err
		}
	}
	if c.Against == "" {
		return d, bounds, fmt.Errorf("%w: no finished rebuild of definition %s in this period; 'rollcall ledger rebuild' makes one", errUsage, d.Version)
	}
	there, err := definitionOf(ctx, s, c.Against)
	return there, bounds, err
}

func (c *ledgerReconcileCmd) measures(d ledger.Definition) []string {
	if len(c.Measure) > 0 {
		return c.Measure
	}
	return append([]string{string(ledger.Connected), string(ledger.Foreground), string(ledger.Active)}, d.Labels...)
}

// reconcileColumns are what is shown of a difference.
var reconcileColumns = []string{"user", "day", "device", "session", "measure", "seconds", "against", "apart"}

// reconciling is a comparison under way.
type reconciling struct {
	s               store.Store
	here, there     string
	keep            bool // in quarantine
	compared, apart int
}

// rows compares, and keeps what it finds.
func (r *reconciling) rows(ctx context.Context, q reconcile.Query) iter.Seq2[[]string, error] {
	const batchSize = 1000
	stopped := errors.New("stopped")
	return func(yield func([]string, error) bool) {
		batch := store.Batch{Definition: r.here}
		store := func() error {
			_, err := r.s.Apply(ctx, batch)
			batch.Rejected = nil
			return err
		}
		pairs := r.s.Pairs(ctx, r.there, storeQuery(r.here, q.Bounds))
		compared, err := reconcile.Compare(pairs, q, func(of []reconcile.Difference) error {
			r.apart++
			for _, d := range of {
				day := ""
				if d.Session == "" {
					day = d.Date.String()
				}
				if !yield([]string{d.User, day, d.Device, d.Session, string(d.Measure), report.Seconds(d.Here), report.Seconds(d.There), report.Seconds(d.Apart)}, nil) {
					return stopped
				}
			}
			if !r.keep {
				return nil
			}
			if batch.Rejected = append(batch.Rejected, reconcile.Rejected(of, r.here, r.there)); len(batch.Rejected) < batchSize {
				return nil
			}
			return store()
		})
		r.compared = compared
		if errors.Is(err, stopped) {
			return
		}
		if err == nil && len(batch.Rejected) > 0 {
			err = store()
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

func storeQuery(version string, bounds interval.Interval) store.Query {
	return store.Query{Definition: version, Bounds: bounds}
}

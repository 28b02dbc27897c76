package rebuild

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/definition"
	"github.com/rollcall-io/rollcall/ledger/interval"
	"github.com/rollcall-io/rollcall/ledger/report"
	"github.com/rollcall-io/rollcall/ledger/store"
)

// Store is what a rebuild needs of a [store.Store].
type Store interface {
	Definitions(ctx context.Context) ([]store.Defined, error)
	BeginRebuild(ctx context.Context, d ledger.Definition, r store.Rebuild) error
	EndRebuild(ctx context.Context, r store.Rebuild) error
	Rebuilds(ctx context.Context) ([]store.Rebuild, error)
	Checkpoint(ctx context.Context, definition, source string) (store.Checkpoint, error)
	Apply(ctx context.Context, b store.Batch) (store.Applied, error)
	Intervals(ctx context.Context, q store.Query) iter.Seq2[store.Row, error]
	PutDaily(ctx context.Context, k store.DailyKey, from, to interval.Date, totals iter.Seq2[store.Daily, error]) error
}

// Config says what to rebuild.
type Config struct {
	Store      Store
	Source     Source
	Definition ledger.Definition
	// Bounds are the period.
	Bounds interval.Interval
	// Zones are those of the daily totals.
	Zones []*interval.Zone
	// Into is the version that the figures get; by default a new one.
	Into string
	// Every is how often the place in the source is stored. More often costs time, less
	// often costs more of it after a crash. The default is ten seconds.
	Every time.Duration
	// Now is the clock, which names versions; the default is time.Now.
	Now func() time.Time
	// Progress, if not nil, is told now and then how far it is, never twice at once.
	Progress func(Progress)
}

// Progress is how far a rebuild is.
type Progress struct {
	Share  float64 // of the raw events that has been read, from 0 to 1
	Events int64   // read, heartbeats included
	Rows   int64   // sessions handed to the store
	Totals bool    // everything has been read, daily totals are being counted
}

// Summary is what a rebuild did.
type Summary struct {
	Version string // under which the figures stand
	Resumed bool   // one that was interrupted went on
	// Begins is when the source begins, in ms, if that is so late that sessions which began
	// before may be cut or missing; else 0.
	Begins int64
	// Ends is when it ends, if what is stored later may belong into the period; else 0.
	Ends      int64
	Events    int64 // read, heartbeats included
	Sessions  int   // new or corrected in the store
	Rejected  int   // new in quarantine
	Forgotten int   // sessions and refusals of users who were forgotten
}

var (
	// ErrConfig is a rebuild that makes no sense; the wrapping says why.
	ErrConfig = errors.New("rebuild: invalid configuration")

	// ErrGone is a period whose raw events the source does not have any more.
	ErrGone = errors.New("rebuild: raw events are gone")

	// ErrAhead is a period of which the source has nothing yet.
	ErrAhead = errors.New("rebuild: no raw events of this period yet")

	// ErrPlace is a place in a source that cannot be used, as after an upgrade. Reading begins
	// again then.
	ErrPlace = errors.New("rebuild: unusable place")
)

func (c *Config) check() error {
	if err := definition.Validate(c.Definition); err != nil {
		return err
	}
	if c.Bounds.Empty() {
		return fmt.Errorf("%w: the period is empty", ErrConfig)
	}
	if c.Every == 0 {
		c.Every = 10 * time.Second
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return nil
}

// Run rebuilds a period, or goes on with a rebuild of it that was interrupted.
func Run(ctx context.Context, c Config) (Summary, error) {
	if err := c.check(); err != nil {
		return Summary{}, err
	}
	r := &run{Config: c, parts: c.Source.Parts()}
	r.shares = make([]float64, len(r.parts))
	if err := r.begin(ctx); err != nil {
		return r.summary, err
	}
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for k, p := range r.parts {
		group.Go(func() error { return r.read(within, k, p) })
	}
	if err := group.Wait(); err != nil {
		return r.summary, err
	}
	if err := r.totals(ctx); err != nil {
		return r.summary, err
	}
	r.rebuild.Finished = c.Now()
	return r.summary, c.Store.EndRebuild(ctx, r.rebuild)
}

// begin notes that the version is not finished from now on.
func (r *run) begin(ctx context.Context) error {
	version, resumed, err := r.version(ctx)
	if err != nil {
		return err
	}
	reach, err := r.Source.Reach(ctx)
	if err != nil {
		return err
	}
	if reach.To <= r.Bounds.From {
		held := "holds nothing yet"
		if reach.To > 0 {
			held = "ends at " + time.UnixMilli(reach.To).UTC().Format(time.RFC3339)
		}
		return fmt.Errorf("%w: the %s %s", ErrAhead, r.Source.Name(), held)
	}
	if reach.Trimmed && reach.From > r.Bounds.From {
		// One that was interrupted may have read what is gone now.
		r.gone = fmt.Errorf("%w: the %s begins at %s", ErrGone, r.Source.Name(), time.UnixMilli(reach.From).UTC().Format(time.RFC3339))
		if !resumed {
			return r.gone
		}
	}
	if reach.From > window(r.Definition, r.Bounds).From {
		r.summary.Begins = reach.From
	}
	if reach.To < r.Bounds.To+r.Definition.Lateness.Milliseconds() {
		r.summary.Ends = reach.To
	}
	r.Definition.Version = version
	r.summary.Version, r.summary.Resumed = version, resumed
	r.rebuild = store.Rebuild{Definition: version, Bounds: r.Bounds, Source: r.Source.Name(), Ends: time.UnixMilli(reach.To), Started: r.Now()}
	return r.Store.BeginRebuild(ctx, r.Definition, r.rebuild)
}

// totals counts the local days that lie in the period as a whole.
func (r *run) totals(ctx context.Context) error {
	measures := []ledger.Measure{ledger.Connected, ledger.Foreground, ledger.Active}
	for _, label := range r.Definition.Labels {
		measures = append(measures, ledger.Measure(label))
	}
	r.told(func(p *Progress) { p.Totals = true })
	for _, z := range r.Zones {
		from, to := Days(z, r.Bounds)
		for _, m := range measures {
			q := report.Query{
				Definition: r.Definition.Version, Measure: m, Zone: z, Bounds: interval.Interval{From: z.Start(from), To: z.Start(to)},
			}
			key := store.DailyKey{Definition: q.Definition, Zone: z.Name(), Measure: m}
			if err := r.Store.PutDaily(ctx, key, from, to, report.Daily(ctx, r.Store, q)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Days are the local days that lie in the bounds as a whole: from, and before to.
func Days(z *interval.Zone, bounds interval.Interval) (from, to interval.Date) {
	from, to = z.Date(bounds.From), z.Date(bounds.To)
	if z.Start(from) < bounds.From {
		from++
	}
	return from, max(from, to)
}

package rebuild_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/definition"
	"github.com/rollcall-io/rollcall/ledger/interval"
	"github.com/rollcall-io/rollcall/ledger/rebuild"
	"github.com/rollcall-io/rollcall/ledger/store"
)

// On random histories and periods, what a rebuild stores is what building everything at
// once gives: whole sessions that touch the period, and the refusals in it.
func TestLikeNaive(t *testing.T) {
	seeds := uint64(12)
	if testing.Short() {
		seeds = 4
	}
	for seed := range seeds {
		rnd := rand.New(rand.NewPCG(seed, 1))
		list := history(rnd, 6, 6*day)
		d := usual
		d.Limit = time.Duration(1+rnd.IntN(24)) * time.Hour
		bounds := interval.Interval{From: rnd.Int64N(3 * day)}
		bounds.To = bounds.From + 1 + rnd.Int64N(3*day)
		s := open(t)
		done := run(t, rebuild.Config{Store: s, Source: split(list, 3), Definition: d, Bounds: bounds, Zones: zones(t, "UTC"), Every: time.Hour, Now: slow(300)})
		if done.Version != "1" || done.Resumed {
			t.Errorf("%+v", done)
		}
		want := naive(t, d, list, bounds)
		kept(t, s, "1").mustBe(t, want)
		if len(want.rows) == 0 || len(want.rejected) == 0 {
			t.Errorf("seed %d shows nothing: %d rows, %d refused", seed, len(want.rows), len(want.rejected))
		}
	}
}

// Daily totals are those of the days that lie in the period as a whole, in every zone.
func TestDailyTotals(t *testing.T) {
	list := history(rand.New(rand.NewPCG(3, 3)), 4, 5*day)
	bounds := interval.Interval{From: day + 7*hour, To: 4*day + 3*hour}
	s := open(t)
	run(t, rebuild.Config{Store: s, Source: tape{list}, Definition: usual, Bounds: bounds, Zones: zones(t, "UTC", "Asia/Tokyo")})
	for _, z := range zones(t, "UTC", "Asia/Tokyo") {
		want := map[store.Daily]bool{}
		byUser := map[string][]interval.Interval{}
		for _, x := range naive(t, usual, list, always).rows {
			byUser[x.User] = append(byUser[x.User], x.Intervals[ledger.Active]...)
		}
		from, to := interval.Date(2), interval.Date(4)
		if z.Name() == "Asia/Tokyo" { // nine hours ahead
			from = 2
		}
		for user, set := range byUser {
			for _, p := range z.Totals(nil, interval.Union(slices.Clone(set)), interval.Day) {
				if p.Date >= from && p.Date < to {
					want[store.Daily{User: user, Date: p.Date, Union: p.Total}] = true
				}
			}
		}
		got := all(t, s.Daily(t.Context(), store.DailyKey{Definition: "1", Zone: z.Name(), Measure: ledger.Active}, 0, 100))
		for _, d := range got {
			d.Sum = 0
			if !want[d] {
				t.Errorf("%s: %+v", z.Name(), d)
			}
		}
		if len(got) != len(want) || len(want) == 0 {
			t.Errorf("%s: %d totals, want %d", z.Name(), len(got), len(want))
		}
	}
}

// Figures of the same rules stand beside the live ones under a name that says what they
// are, and are not those asked for by default.
func TestVersions(t *testing.T) {
	s := open(t)
	list := tape{history(rand.New(rand.NewPCG(4, 4)), 2, day)}
	now := time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)
	c := rebuild.Config{
		Store: s, Source: list, Definition: usual, Bounds: interval.Interval{From: 0, To: day},
		Now: func() time.Time { now = now.Add(time.Second); return now },
	}
	if err := s.Define(t.Context(), usual); err != nil {
		t.Fatal(err)
	}
	first := run(t, c)
	if !strings.HasPrefix(first.Version, "1+rebuilt-20261201T0900") || rebuild.Base(first.Version) != "1" {
		t.Errorf("%+v", first)
	}
	if second := run(t, c); second.Version == first.Version || second.Resumed {
		t.Errorf("after %q: %+v", first.Version, second)
	}
	c.Now = func() time.Time { return now }
	third := run(t, c).Version
	for _, n := range []string{".2", ".3"} { // two more in the same second
		if done := run(t, c); done.Version != third+n {
			t.Errorf("after %s: %+v", third, done)
		}
	}
	wide := c
	wide.Definition.Version, wide.Definition.Gaps.Cap = "wide", 2*time.Minute
	if done := run(t, wide); done.Version != "wide" {
		t.Errorf("%+v", done)
	}
	known, err := s.Definitions(t.Context())
	if err != nil || len(known) != 7 || known[0].Version != "1" || known[0].Rebuilt {
		t.Errorf("%+v, %v", known, err)
	}
	for _, k := range known[1:] {
		if !k.Rebuilt || rebuild.SameRules(k.Definition, usual) != (k.Version != "wide") {
			t.Errorf("%+v", k)
		}
	}
	// More of a period under a name that is there, but only by the same rules.
	wide.Into, wide.Bounds = "wide", interval.Interval{From: day, To: 2 * day}
	if done := run(t, wide); done.Version != "wide" || done.Resumed {
		t.Errorf("%+v", done)
	}
	wide.Definition.Idle *= 2
	if _, err := rebuild.Run(t.Context(), wide); !errors.Is(err, store.ErrDefinition) {
		t.Errorf("other rules under a known name: %v", err)
	}
	c.Into = "not a name"
	if _, err := rebuild.Run(t.Context(), c); !errors.Is(err, definition.ErrInvalid) {
		t.Errorf("%v", err)
	}
	c.Bounds = interval.Interval{From: 5, To: 5}
	if _, err := rebuild.Run(t.Context(), c); !errors.Is(err, rebuild.ErrConfig) {
		t.Errorf("%v", err)
	}
}

// errKilled ends a rebuild amid its work.
var errKilled = errors.New("killed")

// A mortal store dies at its nth write, before or after it was done. What it has done
// until then stays.
type mortal struct {
	*store.SQL
	left  *int
	after bool
}

func (m mortal) write(do func() error) error {
	*m.left--
	switch {
	case *m.left > 0:
		return do()
	case *m.left == 0 && m.after:
		return errors.Join(do(), errKilled)
	}
	return errKilled
}

func (m mortal) BeginRebuild(ctx context.Context, d ledger.Definition, r store.Rebuild) error {
	return m.write(func() error { return m.SQL.BeginRebuild(ctx, d, r) })
}

func (m mortal) EndRebuild(ctx context.Context, r store.Rebuild) error {
	return m.write(func() error { return m.SQL.EndRebuild(ctx, r) })
}

func (m mortal) Apply(ctx context.Context, b store.Batch) (done store.Applied, err error) {
	err = m.write(func() error { done, err = m.SQL.Apply(ctx, b); return err })
	return done, err
}

// TestKilledAtEveryWrite: whichever write a rebuild dies at, before or after it, the
// version is unfinished until it is run again, and then is as if nothing had happened.
func TestKilledAtEveryWrite(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 7))
	list, bounds := history(rnd, 2, 2*day), interval.Interval{From: 6 * hour, To: 40 * hour}
	want := naive(t, usual, list, bounds)
	for _, after := range []bool{false, true} {
		for n := 1; ; n++ {
			s := open(t)
			left := n
			c := rebuild.Config{
				Store: mortal{s, &left, after}, Source: tape{list}, Definition: usual, Bounds: bounds, Zones: zones(t, "UTC"),
				Every: time.Hour, Now: slow(500),
			}
			_, err := rebuild.Run(t.Context(), c)
			if err == nil {
				if n < 8 {
					t.Errorf("only %d writes", n)
				}
				break
			}
			if !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
			ended := after && left == 0 && finished(t, s)
			c.Store = s
			done := run(t, c)
			if begun := n > 1 || after; !ended && (done.Resumed != begun || done.Version != "1") {
				t.Errorf("write %d: %+v", n, done)
			}
			if !finished(t, s) {
				t.Errorf("write %d: not finished", n)
			}
			kept(t, s, "1").mustBe(t, want)
		}
	}
}

// slow is a clock by which a checkpoint is due at every n-th look.
func slow(n int) func() time.Time {
	at, mu := time.Unix(0, 0), sync.Mutex{}
	return func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		at = at.Add(time.Hour / time.Duration(n))
		return at
	}
}

func finished(t *testing.T, s store.Store) bool {
	t.Helper()
	list, err := s.Rebuilds(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return !slices.ContainsFunc(list, func(r store.Rebuild) bool { return r.Finished.IsZero() })
}

// Who was forgotten does not come back, whenever that was.
func TestForgotten(t *testing.T) {
	s := open(t)
	c := rebuild.Config{
		Store: s, Source: tape{history(rand.New(rand.NewPCG(5, 5)), 3, 2*day)}, Definition: usual, Bounds: interval.Interval{From: 0, To: 2 * day},
		Zones: zones(t, "UTC"),
	}
	if _, err := s.Forget(t.Context(), "u1", time.Now()); err != nil {
		t.Fatal(err)
	}
	if done := run(t, c); done.Forgotten == 0 {
		t.Errorf("%+v", done)
	}
	if _, err := s.Forget(t.Context(), "u2", time.Now()); err != nil {
		t.Fatal(err)
	}
	c.Into = "1"
	run(t, c)
	users := map[string]bool{}
	for _, x := range kept(t, s, "1").rows {
		users[x.User] = true
	}
	for _, d := range all(t, s.Daily(t.Context(), store.DailyKey{Definition: "1", Zone: "UTC", Measure: ledger.Connected}, 0, 9)) {
		users[d.User] = true
	}
	if !users["u0"] || len(users) != 1 {
		t.Errorf("figures of %v", users)
	}
}

// Who is forgotten amid a rebuild is not in the place that it stores, nor in its figures,
// whether it goes on or is interrupted.
func TestForgottenMeanwhile(t *testing.T) {
	list := history(rand.New(rand.NewPCG(15, 5)), 3, 2*day)
	bounds := interval.Interval{From: 0, To: 2 * day}
	want := naive(t, usual, slices.DeleteFunc(slices.Clone(list), func(a arrival) bool { return a.User == "u1" }), bounds)
	for _, interrupted := range []bool{true, false} {
		s := open(t)
		c := rebuild.Config{Store: s, Source: tape{list}, Definition: usual, Bounds: bounds, Every: time.Hour, Now: slow(300)}
		forgotten := false
		c.Progress = func(p rebuild.Progress) {
			if forgotten || p.Share < .5 {
				return
			}
			forgotten = true
			if _, err := s.Forget(t.Context(), "u1", time.Now()); err != nil {
				t.Error(err)
			}
		}
		if interrupted {
			left := 12
			first := c
			first.Store, first.Progress = mortal{s, &left, true}, nil
			if _, err := rebuild.Run(t.Context(), first); !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
			c.Progress(rebuild.Progress{Share: 1})
			there, err := s.Checkpoint(t.Context(), "1", store.Rebuild{Bounds: bounds, Source: "tape"}.Checkpoint("0"))
			if err != nil || there.Revision != 0 {
				t.Errorf("its place is still there: %+v, %v", there, err)
			}
		}
		run(t, c)
		kept(t, s, "1").mustBe(t, want)
	}
}

// What the source has lost cannot be rebuilt, unless it was read before.
func TestGone(t *testing.T) {
	list := history(rand.New(rand.NewPCG(16, 6)), 2, 2*day)
	s, left := open(t), 12
	c := rebuild.Config{
		Store: s, Source: trimmed{tape{list}, hour}, Definition: usual, Bounds: interval.Interval{From: 0, To: 2 * day}, Every: time.Hour, Now: slow(300),
	}
	if _, err := rebuild.Run(t.Context(), c); !errors.Is(err, rebuild.ErrGone) || !finished(t, s) {
		t.Errorf("%v", err)
	}
	whole := c
	whole.Source, whole.Store = tape{list}, mortal{s, &left, true}
	if _, err := rebuild.Run(t.Context(), whole); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	if done := run(t, c); !done.Resumed || done.Begins != hour {
		t.Errorf("%+v", done)
	}
	kept(t, s, "1").mustBe(t, naive(t, usual, list, c.Bounds))
	// Where the place is lost too, it would begin again, and that it cannot.
	left, c.Into = 12, "2"
	whole.Into = "2"
	if _, err := rebuild.Run(t.Context(), whole); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	if _, err := s.Forget(t.Context(), "nobody", time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := rebuild.Run(t.Context(), c); !errors.Is(err, rebuild.ErrGone) || finished(t, s) {
		t.Errorf("%v", err)
	}
}

// What the source does not have yet is no rebuild without figures.
func TestAhead(t *testing.T) {
	for _, c := range []struct {
		until int64
		says  string
	}{{0, "holds nothing yet"}, {day, "ends at 1970-01-02T00:00:00Z"}} {
		s := open(t)
		_, err := rebuild.Run(t.Context(), rebuild.Config{
			Store: s, Source: young{tape{}, c.until}, Definition: usual, Bounds: interval.Interval{From: day, To: 2 * day},
		})
		if !errors.Is(err, rebuild.ErrAhead) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v", err)
		}
		if made, err := s.Rebuilds(t.Context()); len(made) > 0 || err != nil {
			t.Errorf("%+v, %v", made, err)
		}
	}
}

// A place that cannot be read is the beginning again.
func TestDamagedPlace(t *testing.T) {
	list := history(rand.New(rand.NewPCG(17, 6)), 2, 2*day)
	bounds := interval.Interval{From: 0, To: 2 * day}
	for cut := range 6 {
		s, left := open(t), 12
		c := rebuild.Config{Store: mortal{s, &left, true}, Source: tape{list}, Definition: usual, Bounds: bounds, Every: time.Hour, Now: slow(300)}
		if _, err := rebuild.Run(t.Context(), c); !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
		source := store.Rebuild{Bounds: bounds, Source: "tape"}.Checkpoint("0")
		there, err := s.Checkpoint(t.Context(), "1", source)
		if err != nil || there.Revision == 0 {
			t.Fatal(there, err)
		}
		there.Revision++
		there.Body = there.Body[:len(there.Body)*cut/6]
		if _, err := s.Apply(t.Context(), store.Batch{Definition: "1", Source: source, Checkpoint: there}); err != nil {
			t.Fatal(err)
		}
		c.Store = s
		if done := run(t, c); !done.Resumed {
			t.Errorf("%+v", done)
		}
		kept(t, s, "1").mustBe(t, naive(t, usual, list, bounds))
	}
}

// Progress only grows, and ends at everything.
func TestProgress(t *testing.T) {
	list := history(rand.New(rand.NewPCG(6, 6)), 4, day)
	var told []rebuild.Progress
	done := run(t, rebuild.Config{
		Store: open(t), Source: split(list, 2), Definition: usual, Bounds: interval.Interval{From: 0, To: day}, Zones: zones(t, "UTC"),
		Progress: func(p rebuild.Progress) { told = append(told, p) },
	})
	last := rebuild.Progress{}
	for _, p := range told {
		if p.Share < last.Share-1e-9 || p.Share > 1+1e-9 || p.Events < last.Events || p.Rows < last.Rows {
			t.Errorf("%+v after %+v", p, last)
		}
		last = p
	}
	if last.Share < 1-1e-9 || !last.Totals || last.Events != done.Events || int(last.Rows) != done.Sessions || done.Events == 0 {
		t.Errorf("%+v, %+v", last, done)
	}
}

package reconcile

import (
	"cmp"
	"iter"
	"slices"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/interval"
	"github.com/rollcall-io/rollcall/ledger/store"
)

// Query says what is compared.
type Query struct {
	Bounds   interval.Interval
	Zone     *interval.Zone
	Measures []ledger.Measure
	// Threshold in ms is what a difference must exceed.
	Threshold int64
}

// A Difference is where two definitions do not agree.
type Difference struct {
	User string
	// Date is the local day whose union differs, unless Session is set.
	Date            interval.Date
	Session, Device string
	At              int64 // when the day or the session starts
	Measure         ledger.Measure
	Here, There     int64 // the two figures, in ms
	Apart           int64 // what only one of the two has
}

// Compare calls each for every day and every session with a difference above the
// threshold, with the measures that differ: user by user, days first, then sessions. It
// says how many days and sessions it compared.
func Compare(pairs iter.Seq2[store.Pair, error], q Query, each func([]Difference) error) (compared int, err error) {
	c := comparison{Query: q}
	for p, err := range pairs {
		if err != nil {
			return c.compared, err
		}
		c.found = c.found[:0]
		c.days(p)
		c.sessions(p)
		for rest := c.found; len(rest) > 0; {
			n := slices.IndexFunc(rest, func(d Difference) bool { return !d.same(rest[0]) })
			if n < 0 {
				n = len(rest)
			}
			if err := each(rest[:n:n]); err != nil {
				return c.compared, err
			}
			rest = rest[n:]
		}
	}
	return c.compared, nil
}

// same says whether two differences are of the same day or session.
func (d Difference) same(other Difference) bool {
	return d.Date == other.Date && d.Session == other.Session && d.Device == other.Device
}

type comparison struct {
	Query
	compared int
	found    []Difference
}

// set is the time of some sessions in the bounds.
func (c *comparison) set(m ledger.Measure, sessions ...ledger.Session) []interval.Interval {
	var all []interval.Interval
	for _, s := range sessions {
		all = append(all, s.Intervals[m]...)
	}
	return interval.Clip(interval.Union(all), c.Bounds)
}

func (c *comparison) days(p store.Pair) {
	seen := map[interval.Date]bool{}
	for _, m := range c.Measures {
		here, there := c.set(m, p.Sessions[0]...), c.set(m, p.Sessions[1]...)
		byDate := map[interval.Date]*Difference{}
		for k, set := range [][]interval.Interval{here, there, apart(here, there)} {
			for _, t := range c.Zone.Totals(nil, set, interval.Day) {
				d := byDate[t.Date]
				if d == nil {
					d = &Difference{User: p.User, Date: t.Date, At: c.Zone.Start(t.Date), Measure: m}
					byDate[t.Date] = d
				}
				*[]*int64{&d.Here, &d.There, &d.Apart}[k] = t.Total
				seen[t.Date] = true
			}
		}
		for _, d := range byDate {
			c.keep(*d)
		}
	}
	c.compared += len(seen)
	slices.SortStableFunc(c.found, func(a, b Difference) int { return cmp.Compare(a.Date, b.Date) })
}

func (c *comparison) sessions(p store.Pair) {
	byKey := map[ledger.SessionKey]*[2]ledger.Session{}
	var keys []ledger.SessionKey // in the order in which they started
	for half, list := range p.Sessions {
		for _, s := range list {
			k := s.Key()
			if byKey[k] == nil {
				byKey[k] = new([2]ledger.Session)
				keys = append(keys, k)
			}
			byKey[k][half] = s
		}
	}
	c.compared += len(keys)
	for _, k := range keys {
		both := byKey[k]
		for _, m := range c.Measures {
			here, there := c.set(m, both[0]), c.set(m, both[1])
			c.keep(Difference{
				User: k.User, Session: k.ID, Device: k.Device, At: cmp.Or(both[0].Start, both[1].Start),
				Measure: m, Here: interval.Total(here), There: interval.Total(there), Apart: interval.Total(apart(here, there)),
			})
		}
	}
}

func (c *comparison) keep(d Difference) {
	if d.Apart > c.Threshold {
		c.found = append(c.found, d)
	}
}

// apart is what only one of two sets has.
func apart(a, b []interval.Interval) []interval.Interval {
	return interval.Union(interval.Subtract(interval.Subtract(nil, a, b), b, a))
}

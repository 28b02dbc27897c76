package report

import (
	"context"
	"iter"
	"slices"

	"github.com/rollcall-io/rollcall/ledger/interval"
	"github.com/rollcall-io/rollcall/ledger/store"
)

// Daily computes what every user has on every local day of the question's bounds, for
// [store.Store.PutDaily]. What the question groups by makes no difference.
func Daily(ctx context.Context, from Source, q Query) iter.Seq2[store.Daily, error] {
	return func(yield func(store.Daily, error) bool) {
		if err := q.validate(); err != nil {
			yield(store.Daily{}, err)
			return
		}
		var user string
		var list []interval.Interval
		for row, err := range from.Intervals(ctx, store.Query{Definition: q.Definition, Measure: q.Measure, Bounds: q.Bounds, User: q.User}) {
			if err != nil {
				yield(store.Daily{}, err)
				return
			}
			if row.User != user {
				if !days(user, list, q.Zone, yield) {
					return
				}
				user, list = row.User, list[:0]
			}
			list = append(list, row.Interval.Clip(q.Bounds))
		}
		days(user, list, q.Zone, yield)
	}
}

// days yields the totals of one user.
func days(user string, list []interval.Interval, z *interval.Zone, yield func(store.Daily, error) bool) bool {
	sums := map[interval.Date]int64{}
	var parts []interval.PeriodTotal
	for _, i := range list {
		parts = z.Totals(parts[:0], []interval.Interval{i}, interval.Day)
		for _, p := range parts {
			sums[p.Date] += p.Total
		}
	}
	for _, p := range z.Totals(nil, interval.Union(slices.Clone(list)), interval.Day) {
		if !yield(store.Daily{User: user, Date: p.Date, Union: p.Total, Sum: sums[p.Date]}, nil) {
			return false
		}
	}
	return true
}

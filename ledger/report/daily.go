package report

import (
	"context"
	"iter"

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
		var days []store.Daily
		put := func() bool {
			days = store.Totals(days[:0], user, list, q.Zone)
			for _, d := range days {
				if !yield(d, nil) {
					return false
				}
			}
			return true
		}
		for row, err := range from.Intervals(ctx, store.Query{Definition: q.Definition, Measure: q.Measure, Bounds: q.Bounds, User: q.User, Bare: true}) {
			if err != nil {
				yield(store.Daily{}, err)
				return
			}
			if row.User != user {
				if !put() {
					return
				}
				user, list = row.User, list[:0]
			}
			list = append(list, row.Interval.Clip(q.Bounds))
		}
		put()
	}
}

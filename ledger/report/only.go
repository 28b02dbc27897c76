package report

import (
	"context"
	"iter"
	"slices"

	"github.com/rollcall-io/rollcall/ledger/store"
)

// only is a source of some users.
type only struct {
	Source
	users []string
}

// Only is the part of a source that is of some users, in their order.
func Only(from Source, users []string) Source { return only{from, users} }

func (o only) Intervals(ctx context.Context, q store.Query) iter.Seq2[store.Row, error] {
	users := o.users
	if q.User != "" {
		users = nil
		if slices.Contains(o.users, q.User) {
			users = []string{q.User}
		}
	}
	return func(yield func(store.Row, error) bool) {
		for _, q.User = range users {
			for row, err := range o.Source.Intervals(ctx, q) {
				if !yield(row, err) || err != nil {
					return
				}
			}
		}
	}
}

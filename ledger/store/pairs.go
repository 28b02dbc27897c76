package store

import (
	"context"
	"iter"

	"github.com/rollcall-io/rollcall/ledger"
)

// A Pair is what two definitions have of one user.
type Pair struct {
	User     string
	Sessions [2][]ledger.Session
}

// Pairs implements Store. Both halves come in the order of the same index, so that the
// database merges them and sorts nothing.
func (s *SQL) Pairs(ctx context.Context, against string, q Query) iter.Seq2[Pair, error] {
	query := "select * from (select 0 as half, " + sessionParts + " union all select 1 as half, " + sessionParts +
		") as halves order by user_id, started, id, measure, part_from"
	args := append(boundsOf(q.Definition, q.Bounds), boundsOf(against, q.Bounds)...)
	rows := stream(ctx, s, func(scan func(...any) error) (r halfPart, err error) {
		r.part, err = readPart(func(into ...any) error { return scan(append([]any{&r.half}, into...)...) })
		return r, err
	}, query, args...)
	return func(yield func(Pair, error) bool) {
		var p Pair
		var at [2]map[string]int // sessions of the user by id
		for r, err := range rows {
			if err != nil {
				yield(Pair{}, err)
				return
			}
			if r.User != p.User {
				if p.User != "" && !yield(p, nil) {
					return
				}
				p, at = Pair{User: r.User}, [2]map[string]int{{}, {}}
			}
			list := p.Sessions[r.half]
			k, known := at[r.half][r.ID]
			if !known {
				k = len(list)
				at[r.half][r.ID] = k
				list = append(list, r.empty())
				p.Sessions[r.half] = list
			}
			r.addTo(list[k])
		}
		if p.User != "" {
			yield(p, nil)
		}
	}
}

type halfPart struct {
	half int
	part
}

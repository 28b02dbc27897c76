package store

import (
	"context"
	"iter"
	"slices"

	"github.com/rollcall-io/rollcall/ledger"
)

// A Pair is what two definitions have of one user.
type Pair struct {
	User     string
	Sessions [2][]ledger.Session
}

// Pairs implements Store. Both halves come in the order of the tables, so that the
// database merges them and sorts nothing.
func (s *SQL) Pairs(ctx context.Context, against string, q Query) iter.Seq2[Pair, error] {
	query := "select * from (select 0 as half, " + sessionParts + " union all select 1 as half, " + sessionParts +
		") as halves order by user_id, device, id, measure, part_from"
	args := append(boundsOf(q.Definition, q.Bounds), boundsOf(against, q.Bounds)...)
	rows := stream(ctx, s, func(scan func(...any) error) (r halfPart, err error) {
		r.part, err = readPart(func(into ...any) error { return scan(append([]any{&r.half}, into...)...) })
		return r, err
	}, query, args...)
	return func(yield func(Pair, error) bool) {
		var p Pair
		flush := func() bool {
			for _, list := range p.Sessions {
				slices.SortFunc(list, byStart)
			}
			return p.User == "" || yield(p, nil)
		}
		for r, err := range rows {
			if err != nil {
				yield(Pair{}, err)
				return
			}
			if r.User != p.User {
				if !flush() {
					return
				}
				p = Pair{User: r.User}
			}
			// Of a session in both halves the parts come mixed, but none of another one between them.
			list := &p.Sessions[r.half]
			if n := len(*list); n == 0 || (*list)[n-1].Key() != r.Key() {
				*list = append(*list, r.empty())
			}
			r.addTo((*list)[len(*list)-1])
		}
		flush()
	}
}

type halfPart struct {
	half int
	part
}

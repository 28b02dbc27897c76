package report

import (
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/rollcall-io/rollcall/ledger/interval"
	"github.com/rollcall-io/rollcall/ledger/store"
)

// Source is where intervals come from: all of a user together; see [store.Store].
type Source interface {
	Intervals(ctx context.Context, q store.Query) iter.Seq2[store.Row, error]
}

// A Row is a group of the answer.
type Row struct {
	Keys  []string // by the columns of the question
	Total int64    // ms
}

// Run answers a question.
func Run(ctx context.Context, from Source, q Query) ([]Row, error) {
	if err := q.validate(); err != nil {
		return nil, err
	}
	r := &running{Query: q, totals: map[string]int64{}}
	r.by, r.split = q.period()
	for row, err := range from.Intervals(ctx, store.Query{Definition: q.Definition, Measure: q.Measure, Bounds: q.Bounds, User: q.User}) {
		if err != nil {
			return nil, err
		}
		r.add(row)
	}
	r.endUser()
	return r.rows(), nil
}

// running is a question being answered.
type running struct {
	Query
	by    interval.Period
	split bool

	user   string
	began  bool
	groups map[string][]interval.Interval // of the user, by all keys but the calendar's
	key    []byte
	parts  []interval.PeriodTotal
	totals map[string]int64
}

// Keys are joined by a byte that no key has: names are printable text.
const separator = "\x00"

func (r *running) add(row store.Row) {
	if row.User != r.user || !r.began {
		r.endUser()
		r.user, r.began = row.User, true
		if r.groups == nil {
			r.groups = map[string][]interval.Interval{}
		}
	}
	piece := row.Interval.Clip(r.Bounds)
	if piece.Empty() {
		return
	}
	r.key = r.key[:0]
	for _, c := range r.By {
		r.key = append(append(r.key, value(row, c)...), separator...)
	}
	r.groups[string(r.key)] = append(r.groups[string(r.key)], piece)
}

// value is what a row has in a column; of a period it is not known yet.
func value(row store.Row, c Column) string {
	switch c {
	case User:
		return row.User
	case Device:
		return row.Device
	case Client:
		return row.Client.Type
	case Version:
		return row.Client.Version
	case Channel:
		return row.Client.Channel
	case Region:
		return row.Client.Region
	}
	return ""
}

// endUser adds the user's groups to the totals.
func (r *running) endUser() {
	for key, list := range r.groups {
		switch {
		case r.Sum:
			for _, i := range list {
				r.count(key, i)
			}
		default:
			for _, i := range interval.Union(list) {
				r.count(key, i)
			}
		}
	}
	clear(r.groups)
}

func (r *running) count(key string, i interval.Interval) {
	if !r.split {
		r.totals[key] += i.Length()
		return
	}
	r.parts = r.Zone.Totals(r.parts[:0], []interval.Interval{i}, r.by)
	for _, p := range r.parts {
		r.totals[r.dated(key, p.Date)] += p.Total
	}
}

// dated is a key with the names of its periods.
func (r *running) dated(key string, d interval.Date) string {
	keys := split(key)
	for k, c := range r.By {
		if p, ok := periods[c]; ok {
			keys[k] = p.Label(d)
		}
	}
	return strings.Join(keys, separator) + separator
}

func split(key string) []string {
	if key == "" {
		return []string{}
	}
	return strings.Split(strings.TrimSuffix(key, separator), separator)
}

func (r *running) rows() []Row {
	rows := make([]Row, 0, len(r.totals))
	for key, total := range r.totals {
		rows = append(rows, Row{Keys: split(key), Total: total})
	}
	if len(r.By) == 0 && len(rows) == 0 {
		rows = append(rows, Row{Keys: []string{}}) // nobody was there, which is an answer
	}
	slices.SortFunc(rows, func(a, b Row) int { return slices.Compare(a.Keys, b.Keys) })
	return rows
}

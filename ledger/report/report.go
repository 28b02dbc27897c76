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
//
// With a minimum, users are put together, day by day, with those who were online with
// the same clients that day. Where they are too few, the version is left open ([Other]),
// then the region, the channel and at last the type; and when even then they are too few,
// the smallest group beside them is left open with them. A day of fewer users than the
// minimum counts nothing. Every figure is a sum over such groups, and they are the same
// for every question about a definition, a measure and a zone: so no arithmetic with
// answers leads to fewer users than the minimum.
func Run(ctx context.Context, from Source, q Query) ([]Row, error) {
	if err := q.validate(); err != nil {
		return nil, err
	}
	var count counter = newRunning(q)
	if q.Minimum > 1 {
		count = newGuarded(q)
	}
	var user string
	began := false
	for row, err := range from.Intervals(ctx, store.Query{Definition: q.Definition, Measure: q.Measure, Bounds: q.Bounds, User: q.User}) {
		if err != nil {
			return nil, err
		}
		if !began || row.User != user {
			count.endUser()
			user, began = row.User, true
		}
		if row.Interval = row.Interval.Clip(q.Bounds); !row.Empty() {
			count.add(row)
		}
	}
	count.endUser()
	return q.rows(count.figures()), nil
}

// A counter counts rows, which are within the bounds of the question, user by user.
type counter interface {
	add(row store.Row)
	endUser()
	figures() map[string]int64 // by keys
}

// running is a question being answered.
type running struct {
	Query
	by    interval.Period
	split bool

	groups map[string][]interval.Interval // of the user, by all keys but the calendar's
	key    []byte
	parts  []interval.PeriodTotal
	totals map[string]int64
}

func newRunning(q Query) *running {
	r := &running{Query: q, groups: map[string][]interval.Interval{}, totals: map[string]int64{}}
	r.by, r.split = q.period()
	return r
}

func (r *running) figures() map[string]int64 { return r.totals }

// Keys are joined by a byte that no key has: names are printable text.
const separator = "\x00"

func (r *running) add(row store.Row) {
	r.key = r.appendKey(r.key[:0], row)
	r.groups[string(r.key)] = append(r.groups[string(r.key)], row.Interval)
}

// appendKey appends the values of a row, those of the calendar left open.
func (q Query) appendKey(dst []byte, row store.Row) []byte {
	for _, c := range q.By {
		dst = append(append(dst, value(row, c)...), separator...)
	}
	return dst
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
		for _, i := range r.counted(list) {
			r.count(key, i)
		}
	}
	clear(r.groups)
}

// counted is what counts of a user's intervals, which it may reorder.
func (q Query) counted(list []interval.Interval) []interval.Interval {
	if q.Sum {
		return list
	}
	return interval.Union(list)
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
func (q Query) dated(key string, d interval.Date) string {
	keys := split(key)
	for k, c := range q.By {
		if p, ok := periods[c]; ok {
			keys[k] = p.Label(d)
		}
	}
	if len(keys) == 0 {
		return key
	}
	return strings.Join(keys, separator) + separator
}

func split(key string) []string {
	if key == "" {
		return []string{}
	}
	return strings.Split(strings.TrimSuffix(key, separator), separator)
}

func (q Query) rows(totals map[string]int64) []Row {
	rows := make([]Row, 0, len(totals))
	for key, total := range totals {
		rows = append(rows, Row{Keys: split(key), Total: total})
	}
	if len(q.By) == 0 && len(rows) == 0 {
		rows = append(rows, Row{Keys: []string{}}) // nobody was there, which is an answer
	}
	slices.SortFunc(rows, func(a, b Row) int { return slices.Compare(a.Keys, b.Keys) })
	return rows
}

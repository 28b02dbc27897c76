package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"iter"
	"slices"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/interval"
)

// stream yields the rows of a query one by one.
func stream[T any](ctx context.Context, s *SQL, read func(scan func(...any) error) (T, error), query string, args ...any) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		rows, err := s.db.QueryContext(ctx, s.q(query), args...)
		if err != nil {
			yield(none, wrap("read", err))
			return
		}
		defer rows.Close()
		for rows.Next() {
			row, err := read(rows.Scan)
			if err != nil {
				yield(none, wrap("read", err))
				return
			}
			if !yield(row, nil) {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(none, wrap("read", err))
		}
	}
}

// Checkpoint implements Store.
func (s *SQL) Checkpoint(ctx context.Context, definition, source string) (c Checkpoint, err error) {
	err = s.db.QueryRowContext(ctx, s.q("select revision, body from checkpoints where definition = ? and source = ?"),
		definition, source).Scan(&c.Revision, &c.Body)
	if errors.Is(err, sql.ErrNoRows) {
		return c, nil
	}
	return c, wrap("checkpoint", err)
}

// byUser sorts the rows of every user, which come together: the tables are in the order of
// keys, and a second order on disk would cost what it costs to write the rows.
func byUser[T any](rows iter.Seq2[T, error], user func(T) string, compare func(a, b T) int) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var list []T
		flush := func() bool {
			slices.SortFunc(list, compare)
			for _, row := range list {
				if !yield(row, nil) {
					return false
				}
			}
			list = list[:0]
			return true
		}
		for row, err := range rows {
			if err != nil {
				yield(row, err)
				return
			}
			if len(list) > 0 && user(list[0]) != user(row) && !flush() {
				return
			}
			list = append(list, row)
		}
		flush()
	}
}

// Intervals implements Store.
func (s *SQL) Intervals(ctx context.Context, q Query) iter.Seq2[Row, error] {
	columns, from := "i.user_id, i.started, i.ended", "intervals i"
	if !q.Bare {
		columns += ", i.device, i.session_id, s.client_type, s.client_version, s.channel, s.region"
		from += ` join sessions s
			on s.definition = i.definition and s.user_id = i.user_id and s.device = i.device and s.id = i.session_id`
	}
	query := "select " + columns + " from " + from + " where i.definition = ? and i.measure = ? and i.started < ? and i.ended > ?"
	args := []any{q.Definition, string(q.Measure), q.Bounds.To, q.Bounds.From}
	if q.User != "" {
		query, args = query+" and i.user_id = ?", append(args, storable(q.User))
	}
	rows := stream(ctx, s, func(scan func(...any) error) (r Row, err error) {
		into := append(make([]any, 0, 9), &r.User, &r.From, &r.To)
		if !q.Bare {
			into = append(into, &r.Device, &r.Session, &r.Client.Type, &r.Client.Version, &r.Client.Channel, &r.Client.Region)
		}
		return r, scan(into...)
	}, query+" order by i.user_id", args...)
	return byUser(rows, func(r Row) string { return r.User }, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To), a.key().Compare(b.key()))
	})
}

func (r Row) key() ledger.SessionKey {
	return ledger.SessionKey{User: r.User, Device: r.Device, ID: r.Session}
}

// part is a session with one of its intervals, or with none.
type part struct {
	ledger.Session
	measure sql.NullString
	from    sql.NullInt64
	to      sql.NullInt64
}

// sessionParts reads the sessions of a definition, with the parameters of its bounds.
const sessionParts = `s.user_id, s.device, s.id, s.revision, s.client_type, s.client_version, s.channel, s.region,
		s.epoch, s.started, s.ended, s.ended_by, i.measure, i.started as part_from, i.ended as part_to
	from sessions s left join intervals i
		on i.definition = s.definition and i.user_id = s.user_id and i.device = s.device and i.session_id = s.id
	where s.definition = ? and s.started < ? and (s.ended > ? or s.ended = s.started and s.started >= ?)`

func boundsOf(definition string, b interval.Interval) []any {
	return []any{definition, b.To, b.From, b.From}
}

// Sessions implements Store.
func (s *SQL) Sessions(ctx context.Context, q Query) iter.Seq2[ledger.Session, error] {
	query, args := "select "+sessionParts, boundsOf(q.Definition, q.Bounds)
	if q.User != "" {
		query, args = query+" and s.user_id = ?", append(args, storable(q.User))
	}
	parts := stream(ctx, s, readPart, query+" order by s.user_id, s.device, s.id, i.measure, i.started", args...)
	return byUser(joined(parts), func(x ledger.Session) string { return x.User }, byStart)
}

// joined makes sessions of their parts.
func joined(parts iter.Seq2[part, error]) iter.Seq2[ledger.Session, error] {
	return func(yield func(ledger.Session, error) bool) {
		var current ledger.Session
		for p, err := range parts {
			if err != nil {
				yield(ledger.Session{}, err)
				return
			}
			if p.Key() != current.Key() {
				if current.ID != "" && !yield(current, nil) {
					return
				}
				current = p.empty()
			}
			p.addTo(current)
		}
		if current.ID != "" {
			yield(current, nil)
		}
	}
}

func byStart(a, b ledger.Session) int {
	return cmp.Or(cmp.Compare(a.Start, b.Start), a.Key().Compare(b.Key()))
}

// empty is the session without intervals.
func (p part) empty() ledger.Session {
	p.Intervals = map[ledger.Measure][]interval.Interval{}
	return p.Session
}

func (p part) addTo(s ledger.Session) {
	if p.measure.Valid {
		m := ledger.Measure(p.measure.String)
		s.Intervals[m] = append(s.Intervals[m], interval.Interval{From: p.from.Int64, To: p.to.Int64})
	}
}

func readPart(scan func(...any) error) (p part, err error) {
	var ended string
	err = scan(&p.User, &p.Device, &p.ID, &p.Revision, &p.Client.Type, &p.Client.Version, &p.Client.Channel, &p.Client.Region,
		&p.Epoch, &p.Start, &p.End, &ended, &p.measure, &p.from, &p.to)
	p.Ended = endOf(ended)
	return p, err
}

// ends are how sessions end, in words that people with a SQL tool understand.
var ends = map[ledger.Kind]string{0: "open", ledger.KindClose: "close", ledger.KindTimeout: "timeout", ledger.KindLogout: "logout"}

func endOf(name string) ledger.Kind {
	for kind, n := range ends {
		if n == name {
			return kind
		}
	}
	return 0
}

// Daily implements Store.
func (s *SQL) Daily(ctx context.Context, k DailyKey, from, to interval.Date) iter.Seq2[Daily, error] {
	return stream(ctx, s, func(scan func(...any) error) (d Daily, err error) {
		var day string
		if err := scan(&d.User, &day, &d.Union, &d.Sum); err != nil {
			return d, err
		}
		d.Date, err = interval.ParseDate(day)
		return d, err
	}, `select user_id, day, union_ms, sum_ms from daily
		where definition = ? and zone = ? and measure = ? and day >= ? and day < ? order by user_id, day`,
		k.Definition, k.Zone, string(k.Measure), from.String(), to.String())
}

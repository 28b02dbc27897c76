package store

import (
	"cmp"
	"context"
	"database/sql"
	"iter"
	"slices"

	"github.com/rollcall-io/rollcall/ledger/interval"
)

const dailyColumns = 7

// Totals appends to dst what the intervals of one user, in any order, come to on every
// local day.
func Totals(dst []Daily, user string, list []interval.Interval, z *interval.Zone) []Daily {
	sums := map[interval.Date]int64{}
	var parts []interval.PeriodTotal
	for _, i := range list {
		parts = z.Totals(parts[:0], []interval.Interval{i}, interval.Day)
		for _, p := range parts {
			sums[p.Date] += p.Total
		}
	}
	for _, p := range z.Totals(parts[:0], interval.Union(slices.Clone(list)), interval.Day) {
		dst = append(dst, Daily{User: user, Date: p.Date, Union: p.Total, Sum: sums[p.Date]})
	}
	return dst
}

// PutDaily implements Store.
func (s *SQL) PutDaily(ctx context.Context, k DailyKey, from, to interval.Date, totals iter.Seq2[Daily, error]) error {
	err := s.transact(ctx, func(tx *sql.Tx) error {
		// Excluded are batches and the forgetting of users: totals are computed from what
		// a reader sees, and must not bring a user back.
		if err := s.exclude(ctx, tx); err != nil {
			return err
		}
		// A rebuild may still count days of a version that was dropped meanwhile.
		if err := s.defined(ctx, tx, k.Definition); err != nil {
			return err
		}
		if err := s.keep(ctx, tx, k); err != nil {
			return err
		}
		z, err := s.zones.Load(k.Zone)
		if err != nil {
			return err
		}
		whole, err := s.firstWhole(ctx, tx, z)
		if err != nil {
			return err
		}
		from := max(from, whole)
		if _, err := tx.ExecContext(ctx, s.q(`delete from daily
			where definition = ? and zone = ? and measure = ? and day >= ? and day < ?`),
			k.Definition, k.Zone, string(k.Measure), from.String(), to.String()); err != nil {
			return err
		}
		var args []any
		for d, err := range totals {
			if err != nil {
				return err
			}
			if d.Date < from {
				continue
			}
			args = append(args, k.Definition, k.Zone, string(k.Measure), storable(d.User), d.Date.String(), d.Union, d.Sum)
			if len(args) == chunk*dailyColumns {
				if err := s.upsertDaily(ctx, tx, args); err != nil {
					return err
				}
				args = args[:0]
			}
		}
		return s.upsertDaily(ctx, tx, args)
	})
	return wrap("daily totals", err)
}

// putTotals writes the totals of a batch; of several of one day the last counts.
func (s *SQL) putTotals(ctx context.Context, tx *sql.Tx, definition string, totals []Total) error {
	if len(totals) == 0 {
		return nil
	}
	totals, err := s.corrected(ctx, tx, definition, totals)
	if err != nil {
		return err
	}
	keys := map[DailyKey]bool{}
	for rows := range slices.Chunk(distinct(totals), chunk) {
		var args []any
		for _, t := range rows {
			if k := (DailyKey{definition, t.Zone, t.Measure}); !keys[k] {
				keys[k] = true
				if err := s.keep(ctx, tx, k); err != nil {
					return err
				}
			}
			key := []any{definition, t.Zone, string(t.Measure), storable(t.User), t.Date.String()}
			if t.Union != 0 {
				args = append(append(args, key...), t.Union, t.Sum)
				continue
			}
			if _, err := tx.ExecContext(ctx, s.q(`delete from daily
				where definition = ? and zone = ? and measure = ? and user_id = ? and day = ?`), key...); err != nil {
				return err
			}
		}
		if err := s.upsertDaily(ctx, tx, args); err != nil {
			return err
		}
	}
	return nil
}

// corrected computes the totals of users again of whom a session was released: whoever
// made the totals knows it as refused.
func (s *SQL) corrected(ctx context.Context, tx *sql.Tx, definition string, totals []Total) ([]Total, error) {
	rows, err := tx.QueryContext(ctx, s.q("select distinct user_id from quarantine where definition = ? and released <> 0 and revision > 0"), definition)
	if err != nil {
		return nil, err
	}
	users, err := collect[string](rows)
	if err != nil || len(users) == 0 {
		return totals, err
	}
	var rest []Total
	for _, t := range totals {
		if !slices.Contains(users, storable(t.User)) {
			rest = append(rest, t)
			continue
		}
		z, err := s.zones.Load(t.Zone)
		if err != nil {
			return nil, err
		}
		if err := s.refreshUser(ctx, tx, DailyKey{definition, t.Zone, t.Measure}, z, storable(t.User), t.Date, t.Date+1); err != nil {
			return nil, err
		}
	}
	return rest, nil
}

// distinct is the last total of every day, sorted as [newest] does with sessions.
func distinct(totals []Total) []Total {
	compare := func(a, b Total) int {
		return cmp.Or(cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.Measure, b.Measure), cmp.Compare(a.User, b.User), cmp.Compare(a.Date, b.Date))
	}
	sorted := slices.Clone(totals)
	slices.Reverse(sorted)
	slices.SortStableFunc(sorted, compare)
	return slices.CompactFunc(sorted, func(a, b Total) bool { return compare(a, b) == 0 })
}

func (s *SQL) upsertDaily(ctx context.Context, tx *sql.Tx, args []any) error {
	if len(args) == 0 {
		return nil
	}
	_, err := tx.ExecContext(ctx, s.q(`insert into daily (definition, zone, measure, user_id, day, union_ms, sum_ms)
		values `+values(len(args)/dailyColumns, dailyColumns)+`
		on conflict (definition, zone, measure, user_id, day) do update set union_ms = excluded.union_ms, sum_ms = excluded.sum_ms`), args...)
	return err
}

package store

import (
	"context"
	"database/sql"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/interval"
)

// firstWhole is the first day of which no session was pruned.
func (s *SQL) firstWhole(ctx context.Context, tx *sql.Tx, z *interval.Zone) (interval.Date, error) {
	text, err := s.meta(ctx, tx, "pruned")
	if err != nil || text == "" {
		return math.MinInt32, err
	}
	at, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, err
	}
	return z.Date(at-1) + 1, nil
}

// touched is the time that changed, of every user. It is nil if nobody wants to know.
type touched map[string]interval.Interval

// nothingTouched begins a change of sessions. Where no totals are kept, nobody wants to
// know.
func (s *SQL) nothingTouched(ctx context.Context, tx *sql.Tx, definition string) (touched, error) {
	keys, err := s.kept(ctx, tx, definition)
	if err != nil || len(keys) == 0 {
		return nil, err
	}
	return touched{}, nil
}

func (t touched) note(x ledger.Session) {
	if t == nil {
		return
	}
	span, ok := t[x.User]
	if !ok {
		span = interval.Interval{From: x.Start, To: x.End}
	}
	t[x.User] = interval.Interval{From: min(span.From, x.Start), To: max(span.To, x.End)}
}

// noteStored notes the time of sessions as they are stored, before they change.
func (s *SQL) noteStored(ctx context.Context, tx *sql.Tx, definition string, sessions []ledger.Session, stale touched) error {
	rows, err := tx.QueryContext(ctx, s.q("select user_id, started, ended from sessions where definition = ? and (user_id, device, id) in (values "+
		values(len(sessions), 3)+")"), keysOf(definition, sessions)...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var x ledger.Session
		if err := rows.Scan(&x.User, &x.Start, &x.End); err != nil {
			return err
		}
		stale.note(x)
	}
	return rows.Err()
}

// refresh computes the kept totals of what was touched again.
func (s *SQL) refresh(ctx context.Context, tx *sql.Tx, definition string, stale touched) error {
	if len(stale) == 0 {
		return nil
	}
	keys, err := s.kept(ctx, tx, definition)
	if err != nil {
		return err
	}
	for _, k := range keys {
		z, err := s.zones.Load(k.Zone)
		if err != nil {
			return err
		}
		whole, err := s.firstWhole(ctx, tx, z)
		if err != nil {
			return err
		}
		for _, user := range slices.Sorted(maps.Keys(stale)) {
			from, to := max(z.Date(stale[user].From), whole), z.Date(stale[user].To)+1
			if from >= to {
				continue
			}
			if err := s.refreshUser(ctx, tx, k, z, user, from, to); err != nil {
				return err
			}
		}
	}
	return nil
}

// keep says that totals are kept from now on.
func (s *SQL) keep(ctx context.Context, tx *sql.Tx, k DailyKey) error {
	_, err := tx.ExecContext(ctx, s.q("insert into kept (definition, zone, measure) values (?, ?, ?) on conflict do nothing"),
		k.Definition, k.Zone, string(k.Measure))
	return err
}

func (s *SQL) kept(ctx context.Context, tx *sql.Tx, definition string) (keys []DailyKey, err error) {
	rows, err := tx.QueryContext(ctx, s.q("select zone, measure from kept where definition = ? order by zone, measure"), definition)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		k := DailyKey{Definition: definition}
		if err := rows.Scan(&k.Zone, &k.Measure); err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	return keys, rows.Err()
}

func (s *SQL) refreshUser(ctx context.Context, tx *sql.Tx, k DailyKey, z *interval.Zone, user string, from, to interval.Date) error {
	bounds := interval.Interval{From: z.Start(from), To: z.Start(to)}
	rows, err := tx.QueryContext(ctx, s.q(`select started, ended from intervals
		where definition = ? and measure = ? and user_id = ? and started < ? and ended > ?`),
		k.Definition, string(k.Measure), user, bounds.To, bounds.From)
	if err != nil {
		return err
	}
	list, err := clipped(rows, bounds)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, s.q(`delete from daily
		where definition = ? and zone = ? and measure = ? and user_id = ? and day >= ? and day < ?`),
		k.Definition, k.Zone, string(k.Measure), user, from.String(), to.String()); err != nil {
		return err
	}
	var args []any
	for _, d := range Totals(nil, user, list, z) {
		args = append(args, k.Definition, k.Zone, string(k.Measure), user, d.Date.String(), d.Union, d.Sum)
	}
	return s.upsertDaily(ctx, tx, args)
}

func clipped(rows *sql.Rows, bounds interval.Interval) (list []interval.Interval, err error) {
	defer rows.Close()
	for rows.Next() {
		var i interval.Interval
		if err := rows.Scan(&i.From, &i.To); err != nil {
			return nil, err
		}
		list = append(list, i.Clip(bounds))
	}
	return list, rows.Err()
}

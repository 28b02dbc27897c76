package store

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Audit implements Store.
func (s *SQL) Audit(ctx context.Context, a Audit) error {
	_, err := s.db.ExecContext(ctx, s.q("insert into audit (at, actor, action, subject, detail) values (?, ?, ?, ?, ?)"),
		a.At.UnixMilli(), storable(a.Actor), a.Action, storable(a.Subject), storable(a.Detail))
	return wrap("audit", err)
}

// Audits implements Store.
func (s *SQL) Audits(ctx context.Context) iter.Seq2[Audit, error] {
	return stream(ctx, s, func(scan func(...any) error) (a Audit, err error) {
		var at int64
		err = scan(&at, &a.Actor, &a.Action, &a.Subject, &a.Detail)
		a.At = time.UnixMilli(at).UTC()
		return a, err
	}, "select at, actor, action, subject, detail from audit order by id")
}

// querier is a database or a transaction.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func (s *SQL) forgotten(ctx context.Context, from querier, user string) (is bool, err error) {
	err = from.QueryRowContext(ctx, s.q("select exists (select 1 from forgotten where hash = ?)"), s.hash(user)).Scan(&is)
	return is, err
}

// Forgotten implements Store.
func (s *SQL) Forgotten(ctx context.Context, user string) (bool, error) {
	is, err := s.forgotten(ctx, s.db, user)
	return is, wrap("forgotten", err)
}

// Forgets implements Store.
func (s *SQL) Forgets(ctx context.Context) (n int64, err error) {
	err = s.db.QueryRowContext(ctx, "select count(*) from forgotten").Scan(&n)
	return n, wrap("forgets", err)
}

// Forget implements Store. What the audit says of the user stays, under the hash.
func (s *SQL) Forget(ctx context.Context, user string, at time.Time) (gone Erased, err error) {
	err = s.transact(ctx, func(tx *sql.Tx) error {
		if err := s.exclude(ctx, tx); err != nil {
			return err
		}
		hash := s.hash(user)
		if _, err := tx.ExecContext(ctx, s.q("insert into forgotten (hash, at) values (?, ?) on conflict (hash) do nothing"),
			hash, at.UnixMilli()); err != nil {
			return err
		}
		lines, err := s.forgetLines(ctx, tx, user)
		if err != nil {
			return err
		}
		gone.Rows = int64(lines)
		// The place of a rebuild knows names. One under way stores it again, one that was
		// interrupted begins again.
		if _, err := tx.ExecContext(ctx, s.q("delete from checkpoints where substr(source, 1, ?) = ?"), len(rebuildMark), rebuildMark); err != nil {
			return err
		}
		for _, table := range []string{"intervals", "daily", "quarantine", "teams", "sessions"} {
			result, err := tx.ExecContext(ctx, s.q("delete from "+table+" where user_id = ?"), storable(user))
			if err != nil {
				return err
			}
			// Those of the last table are the sessions.
			if gone.Sessions, err = result.RowsAffected(); err != nil {
				return err
			}
			gone.Rows += gone.Sessions
		}
		_, err = tx.ExecContext(ctx, s.q("update audit set subject = ? where subject = ?"), hash, storable(user))
		return err
	})
	if err == nil && s.dialect.purge != "" {
		_, err = s.db.ExecContext(ctx, s.dialect.purge)
	}
	return gone, wrap("forget", err)
}

// forgetLines removes the lines that could not be read, so that nobody knows whose they
// are, but that name the user.
func (s *SQL) forgetLines(ctx context.Context, tx *sql.Tx, user string) (n int, err error) {
	rows, err := tx.QueryContext(ctx, selectQuarantined+" where user_id = ''")
	if err != nil {
		return 0, err
	}
	ids, err := collectLines(rows, user)
	if err != nil {
		return 0, err
	}
	for _, id := range ids {
		if _, err := tx.ExecContext(ctx, s.q("delete from quarantine where id = ?"), id); err != nil {
			return 0, err
		}
	}
	return len(ids), nil
}

func collectLines(rows *sql.Rows, user string) (ids []string, err error) {
	defer rows.Close()
	for rows.Next() {
		r, err := readQuarantined(rows.Scan)
		if err != nil {
			return nil, err
		}
		if slices.Contains(words(r.Raw), user) {
			ids = append(ids, r.ID)
		}
	}
	return ids, rows.Err()
}

// words are what stands between the commas, quotes and brackets of a line.
func words(line string) []string {
	list := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune("\",;{}[]\t", r) })
	for k, word := range list {
		list[k] = strings.TrimSpace(word)
	}
	return list
}

// Prune implements Store.
func (s *SQL) Prune(ctx context.Context, kind Kind, before time.Time) (rows int64, err error) {
	at := before.UnixMilli()
	type statement struct {
		text string
		args []any
	}
	// The last one counts.
	var statements []statement
	switch kind {
	case KindSessions:
		statements = []statement{
			{`insert into meta (name, value) values ('pruned', ?) on conflict (name) do update set value = excluded.value
				where cast(excluded.value as bigint) > cast(meta.value as bigint)`, []any{strconv.FormatInt(at, 10)}},
			{`delete from intervals where exists (select 1 from sessions s
				where s.definition = intervals.definition and s.user_id = intervals.user_id and s.device = intervals.device
					and s.id = intervals.session_id and s.ended < ?)`, []any{at}},
			{"delete from sessions where ended < ?", []any{at}},
		}
	case KindTotals:
		// Only days that have ended before in every zone.
		statements = []statement{{"delete from daily where day < ?", []any{before.UTC().AddDate(0, 0, -1).Format(time.DateOnly)}}}
	case KindQuarantine:
		statements = []statement{{"delete from quarantine where refused < ?", []any{at}}}
	case KindAudit:
		statements = []statement{{"delete from audit where at < ?", []any{at}}}
	default:
		return 0, fmt.Errorf("%w: kind of data %q", ErrUnknown, kind)
	}
	err = s.transact(ctx, func(tx *sql.Tx) error {
		if err := s.exclude(ctx, tx); err != nil {
			return err
		}
		for _, st := range statements {
			result, err := tx.ExecContext(ctx, s.q(st.text), st.args...)
			if err != nil {
				return err
			}
			if rows, err = result.RowsAffected(); err != nil {
				return err
			}
		}
		return nil
	})
	return rows, wrap("prune", err)
}

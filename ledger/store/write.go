package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/rollcall-io/rollcall/ledger"
)

// chunk is how many rows one statement writes. A statement a row costs most of its time
// in the driver; both databases limit the parameters of one, SQLite to 32766.
const chunk = 200

// Apply implements Store.
func (s *SQL) Apply(ctx context.Context, b Batch) (done Applied, err error) {
	err = s.transact(ctx, func(tx *sql.Tx) error {
		done = Applied{}
		share := s.include
		if b.Refresh {
			share = s.exclude // totals are computed from what other batches have stored too
		}
		if err := share(ctx, tx); err != nil {
			return err
		}
		if err := s.defined(ctx, tx, b.Definition); err != nil {
			return err
		}
		if err := s.putCheckpoint(ctx, tx, b); err != nil {
			return err
		}
		var stale touched
		if b.Refresh {
			if stale, err = s.nothingTouched(ctx, tx, b.Definition); err != nil {
				return err
			}
		}
		if done.Forgotten, err = s.dropForgotten(ctx, tx, &b); err != nil {
			return err
		}
		if done.Sessions, err = s.putSessions(ctx, tx, b.Definition, newest(b.Sessions), stale); err != nil {
			return err
		}
		if err := s.refresh(ctx, tx, b.Definition, stale); err != nil {
			return err
		}
		if done.Rejected, err = s.quarantine(ctx, tx, b.Definition, b.Rejected); err != nil {
			return err
		}
		return s.putTotals(ctx, tx, b.Definition, b.Daily)
	})
	return done, wrap("apply", err)
}

func (s *SQL) defined(ctx context.Context, tx *sql.Tx, version string) error {
	var one int
	err := tx.QueryRowContext(ctx, s.q("select 1 from definitions where version = ?"), version).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("%w: definition %q", ErrUnknown, version)
	}
	return err
}

// putCheckpoint comes first, so that whoever was overtaken has written nothing.
func (s *SQL) putCheckpoint(ctx context.Context, tx *sql.Tx, b Batch) error {
	if b.Source == "" {
		return nil
	}
	next := b.Checkpoint.Revision
	query := `update checkpoints set revision = ?, body = ? where definition = ? and source = ? and revision = ?`
	args := []any{next, b.Checkpoint.Body, b.Definition, b.Source, next - 1}
	if next == 1 {
		query = `insert into checkpoints (revision, body, definition, source) values (?, ?, ?, ?) on conflict (definition, source) do nothing`
		args = args[:4]
	}
	switch n, err := affected(tx.ExecContext(ctx, s.q(query), args...)); {
	case err != nil:
		return err
	case n == 0:
		return fmt.Errorf("%w: %s", ErrOvertaken, b.Source)
	}
	return nil
}

func affected(result sql.Result, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	return int(n), err
}

// dropForgotten takes out of a batch what is about users who were forgotten.
func (s *SQL) dropForgotten(ctx context.Context, tx *sql.Tx, b *Batch) (dropped int, err error) {
	var any bool
	if err := tx.QueryRowContext(ctx, "select exists (select 1 from forgotten)").Scan(&any); err != nil || !any {
		return 0, err
	}
	known := map[string]bool{}
	gone := func(user string) bool {
		is, asked := known[user]
		if !asked && err == nil && user != "" {
			is, err = s.forgotten(ctx, tx, user)
			known[user] = is
		}
		return is
	}
	// The caller's slices stay as they are: it may try the batch again.
	sessions := slices.DeleteFunc(slices.Clone(b.Sessions), func(x ledger.Session) bool { return gone(x.User) })
	rejected := slices.DeleteFunc(slices.Clone(b.Rejected), func(x ledger.Rejected) bool {
		if user := userOf(x); user != "" {
			return gone(user)
		}
		return slices.ContainsFunc(words(x.Raw), gone)
	})
	dropped = len(b.Sessions) - len(sessions) + len(b.Rejected) - len(rejected)
	b.Daily = slices.DeleteFunc(slices.Clone(b.Daily), func(x Total) bool { return gone(x.User) })
	b.Sessions, b.Rejected = sessions, rejected
	return dropped, err
}

// readable is a session whose text databases take.
func readable(x ledger.Session) ledger.Session {
	for _, text := range []*string{&x.ID, &x.User, &x.Device, &x.Client.Type, &x.Client.Version, &x.Client.Channel, &x.Client.Region} {
		*text = storable(*text)
	}
	return x
}

// newest keeps of every session the highest revision: one statement must not write a
// row twice. They are sorted, so that two writers meet at the first row, not crosswise.
func newest(sessions []ledger.Session) []ledger.Session {
	at := make(map[ledger.SessionKey]int, len(sessions))
	kept := make([]ledger.Session, 0, len(sessions))
	for _, x := range sessions {
		x = readable(x)
		k, known := at[x.Key()]
		switch {
		case !known:
			at[x.Key()] = len(kept)
			kept = append(kept, x)
		case x.Revision > kept[k].Revision:
			kept[k] = x
		}
	}
	slices.SortFunc(kept, func(a, b ledger.Session) int { return a.Key().Compare(b.Key()) })
	return kept
}

// putSessions writes the sessions that are newer than what is there, and notes whose
// time they change if somebody wants to know.
func (s *SQL) putSessions(ctx context.Context, tx *sql.Tx, definition string, sessions []ledger.Session, stale touched) (int, error) {
	w := &writer{s, tx, map[string]*sql.Stmt{}}
	var written []ledger.Session
	for rows := range slices.Chunk(sessions, chunk) {
		if stale != nil {
			if err := s.noteStored(ctx, tx, definition, rows, stale); err != nil {
				return 0, err
			}
		}
		changed, err := w.putRows(ctx, definition, rows)
		if err != nil {
			return 0, err
		}
		written = append(written, changed...)
	}
	for _, x := range written {
		stale.note(x)
	}
	return len(written), w.putIntervals(ctx, definition, written)
}

// A writer compiles the statement of a whole chunk once in a transaction.
type writer struct {
	*SQL
	tx       *sql.Tx
	compiled map[string]*sql.Stmt
}

func (w *writer) compile(ctx context.Context, text string) (stmt *sql.Stmt, err error) {
	if stmt = w.compiled[text]; stmt == nil {
		stmt, err = w.tx.PrepareContext(ctx, w.q(text))
		w.compiled[text] = stmt
	}
	return stmt, err
}

// putRows writes a chunk of sessions without intervals, and returns those that it changed.
func (w *writer) putRows(ctx context.Context, definition string, sessions []ledger.Session) ([]ledger.Session, error) {
	args := make([]any, 0, len(sessions)*13)
	for _, x := range sessions {
		args = append(args, definition, x.User, x.Device, x.ID, int64(x.Revision),
			x.Client.Type, x.Client.Version, x.Client.Channel, x.Client.Region, x.Epoch, x.Start, x.End, ends[x.Ended])
	}
	upsert, err := w.compile(ctx, `insert into sessions (definition, user_id, device, id, revision,
			client_type, client_version, channel, region, epoch, started, ended, ended_by)
		values `+values(len(sessions), 13)+`
		on conflict (definition, user_id, device, id) do update set revision = excluded.revision,
			client_type = excluded.client_type, client_version = excluded.client_version, channel = excluded.channel,
			region = excluded.region, epoch = excluded.epoch, started = excluded.started, ended = excluded.ended, ended_by = excluded.ended_by
		where sessions.revision < excluded.revision
		returning user_id, device, id`)
	if err != nil {
		return nil, err
	}
	rows, err := upsert.QueryContext(ctx, args...)
	if err != nil {
		return nil, err
	}
	written, err := writtenOf(rows, sessions)
	if err != nil || len(written) == 0 {
		return nil, err
	}
	remove, err := w.compile(ctx, "delete from intervals where definition = ? and (user_id, device, session_id) in (values "+values(len(written), 3)+")")
	if err == nil {
		_, err = remove.ExecContext(ctx, keysOf(definition, written)...)
	}
	return written, err
}

// writtenOf chooses the sessions whose keys the database returned.
func writtenOf(rows *sql.Rows, sessions []ledger.Session) (written []ledger.Session, err error) {
	defer rows.Close()
	keys := make(map[ledger.SessionKey]bool, len(sessions))
	for rows.Next() {
		var k ledger.SessionKey
		if err := rows.Scan(&k.User, &k.Device, &k.ID); err != nil {
			return nil, err
		}
		keys[k] = true
	}
	if len(keys) == len(sessions) {
		return sessions, rows.Err()
	}
	for _, x := range sessions {
		if keys[x.Key()] {
			written = append(written, x)
		}
	}
	return written, rows.Err()
}

// keysOf are the parameters of a statement about some sessions of a definition.
func keysOf(definition string, sessions []ledger.Session) []any {
	args := append(make([]any, 0, 1+3*len(sessions)), definition)
	for _, x := range sessions {
		args = append(args, x.User, x.Device, x.ID)
	}
	return args
}

func collect[T any](rows *sql.Rows) (all []T, err error) {
	defer rows.Close()
	for rows.Next() {
		var x T
		if err := rows.Scan(&x); err != nil {
			return nil, err
		}
		all = append(all, x)
	}
	return all, rows.Err()
}

const intervalColumns = 7

func (w *writer) putIntervals(ctx context.Context, definition string, sessions []ledger.Session) error {
	args := make([]any, 0, intervalColumns*chunk)
	flush := func() error {
		if len(args) == 0 {
			return nil
		}
		insert, err := w.compile(ctx, `insert into intervals (definition, user_id, device, session_id, measure, started, ended)
			values `+values(len(args)/intervalColumns, intervalColumns))
		if err == nil {
			_, err = insert.ExecContext(ctx, args...)
		}
		args = args[:0]
		return err
	}
	for _, x := range sessions {
		for _, m := range slices.Sorted(maps.Keys(x.Intervals)) {
			for _, i := range x.Intervals[m] {
				args = append(args, definition, x.User, x.Device, x.ID, string(m), i.From, i.To)
				if len(args) == intervalColumns*chunk {
					if err := flush(); err != nil {
						return err
					}
				}
			}
		}
	}
	return flush()
}

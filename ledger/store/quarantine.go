package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/rollcall-io/rollcall/ledger"
)

// content is what was refused, as it is kept.
type content struct {
	Event   *ledger.Event   `json:"event,omitempty"`
	Session *ledger.Session `json:"session,omitempty"`
	Raw     string          `json:"raw,omitempty"`
}

func userOf(r ledger.Rejected) string {
	switch {
	case r.Event != nil:
		return r.Event.User
	case r.Whole != nil:
		return r.Whole.User
	}
	return ""
}

// quarantineID is the same for the same refusal, so that reading a source again adds
// nothing. A line that cannot be read is wrong under every definition.
func quarantineID(definition string, r ledger.Rejected, body []byte) string {
	h := sha256.New()
	if r.Rule == ledger.RuleInput {
		definition = ""
	}
	for _, field := range []string{definition, r.Rule, r.Source, string(body)} {
		fmt.Fprintf(h, "%d:%s", len(field), field)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// storable is text that PostgreSQL takes.
func storable(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

func (s *SQL) quarantine(ctx context.Context, tx *sql.Tx, definition string, rejected []ledger.Rejected) (added int, err error) {
	seen := map[string]bool{}
	for rows := range slices.Chunk(rejected, chunk) {
		var args []any
		for _, r := range rows {
			body, err := json.Marshal(content{Event: r.Event, Session: r.Whole, Raw: storable(r.Raw)})
			if err != nil {
				return 0, err
			}
			id := quarantineID(definition, r, body)
			if seen[id] {
				continue
			}
			seen[id] = true
			args = append(args, id, definition, r.Rule, storable(r.Reason), r.At.UnixMilli(), storable(userOf(r)), storable(r.Source), string(body), 0)
		}
		if len(args) == 0 {
			continue
		}
		result, err := tx.ExecContext(ctx, s.q(`insert into quarantine (id, definition, rule, reason, at, user_id, source, body, released)
			values `+values(len(args)/9, 9)+" on conflict (id) do nothing"), args...)
		if err != nil {
			return 0, err
		}
		n, err := result.RowsAffected()
		if err != nil {
			return 0, err
		}
		added += int(n)
	}
	return added, nil
}

// Quarantined implements Store.
func (s *SQL) Quarantined(ctx context.Context, q QuarantineQuery) iter.Seq2[Quarantined, error] {
	query := "select id, definition, rule, reason, at, user_id, source, body, released from quarantine where true"
	var args []any
	for _, c := range []struct{ column, value string }{{"id", q.ID}, {"rule", q.Rule}, {"user_id", q.User}} {
		if c.value != "" {
			query, args = query+" and "+c.column+" = ?", append(args, c.value)
		}
	}
	if !q.Released {
		query += " and released = 0"
	}
	return stream(ctx, s, readQuarantined, query+" order by id", args...)
}

func readQuarantined(scan func(...any) error) (r Quarantined, err error) {
	var at, released int64
	var body string
	if err := scan(&r.ID, &r.Definition, &r.Rule, &r.Reason, &at, &r.User, &r.Source, &body, &released); err != nil {
		return r, err
	}
	r.At = time.UnixMilli(at).UTC()
	if released != 0 {
		r.Released = time.UnixMilli(released).UTC()
	}
	var c content
	err = json.Unmarshal([]byte(body), &c)
	r.Event, r.Whole, r.Raw = c.Event, c.Session, c.Raw
	return r, err
}

// Release implements Store.
func (s *SQL) Release(ctx context.Context, id string, at time.Time) (released Quarantined, err error) {
	err = s.transact(ctx, func(tx *sql.Tx) error {
		if err := s.include(ctx, tx); err != nil {
			return err
		}
		row := tx.QueryRowContext(ctx, s.q(`select id, definition, rule, reason, at, user_id, source, body, released
			from quarantine where id = ?`), id)
		var err error
		switch released, err = readQuarantined(row.Scan); {
		case errors.Is(err, sql.ErrNoRows):
			return fmt.Errorf("%w: nothing in quarantine under %q", ErrUnknown, id)
		case err != nil:
			return err
		case !released.Released.IsZero():
			return nil
		}
		released.Released = at.UTC().Truncate(time.Millisecond)
		if _, err := tx.ExecContext(ctx, s.q("update quarantine set released = ? where id = ?"), at.UnixMilli(), id); err != nil {
			return err
		}
		if released.Whole == nil {
			return nil
		}
		return s.admit(ctx, tx, released.Definition, *released.Whole)
	})
	return released, wrap("release", err)
}

// admit lets a session count that was refused. Its row may be there, withdrawn, and
// reading the source again must not withdraw it again: so it is a revision of its own.
func (s *SQL) admit(ctx context.Context, tx *sql.Tx, definition string, whole ledger.Session) error {
	var there int64
	err := tx.QueryRowContext(ctx, s.q("select revision from sessions where definition = ? and id = ?"),
		definition, whole.ID).Scan(&there)
	switch {
	case err == nil:
		whole.Revision = max(whole.Revision, uint64(there)+1)
	case !errors.Is(err, sql.ErrNoRows):
		return err
	}
	_, err = s.putSessions(ctx, tx, definition, []ledger.Session{whole})
	return err
}

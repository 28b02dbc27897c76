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
	"maps"
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

// quarantineID is the same for the same rule and the same session, event or line, so
// that reading a source again adds nothing, and a session that is refused again as it
// grows is one row. A line that cannot be read is wrong under every definition.
func quarantineID(definition string, r ledger.Rejected) string {
	if r.Rule == ledger.RuleInput {
		definition = ""
	}
	identity := []any{definition, r.Rule}
	switch {
	case r.Whole != nil:
		identity = append(identity, "session", r.Whole.User, r.Whole.Device, r.Whole.ID)
	case r.Event != nil && r.Raw == "":
		e := r.Event
		identity = append(identity, "event", e.User, e.Device, e.Session, e.Epoch, e.Sequence, e.Kind, e.At)
	default:
		identity = append(identity, "line", r.Source, r.Raw)
	}
	h := sha256.New()
	for _, field := range identity {
		text := fmt.Sprint(field)
		fmt.Fprintf(h, "%d:%s", len(text), text)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// revisionOf orders what is refused of one session.
func revisionOf(r ledger.Rejected) uint64 {
	if r.Whole == nil {
		return 0
	}
	return r.Whole.Revision
}

// storable is text that PostgreSQL takes.
func storable(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

const quarantineColumns = 11

// quarantine keeps what was refused. What is refused again as something else, or with
// other words, is no longer dealt with.
func (s *SQL) quarantine(ctx context.Context, tx *sql.Tx, definition string, rejected []ledger.Rejected) (changed int, err error) {
	now := time.Now().UnixMilli()
	latest := map[string]ledger.Rejected{}
	for _, r := range rejected {
		id := quarantineID(definition, r)
		if known, twice := latest[id]; !twice || revisionOf(r) >= revisionOf(known) {
			latest[id] = r
		}
	}
	for ids := range slices.Chunk(slices.Sorted(maps.Keys(latest)), chunk) {
		args := make([]any, 0, len(ids)*quarantineColumns)
		for _, id := range ids {
			r := latest[id]
			body, err := json.Marshal(content{Event: r.Event, Session: r.Whole, Raw: storable(r.Raw)})
			if err != nil {
				return 0, err
			}
			args = append(args, id, definition, r.Rule, storable(r.Reason), r.At.UnixMilli(), storable(userOf(r)), storable(r.Source),
				string(body), int64(revisionOf(r)), 0, now)
		}
		n, err := affected(tx.ExecContext(ctx, s.q(`insert into quarantine (id, definition, rule, reason, at, user_id, source, body, revision, released, refused)
			values `+values(len(ids), quarantineColumns)+`
			on conflict (id) do update set reason = excluded.reason, at = excluded.at, source = excluded.source,
				body = excluded.body, revision = excluded.revision, released = 0, refused = excluded.refused
			where quarantine.revision <= excluded.revision
				and (quarantine.body <> excluded.body or quarantine.reason <> excluded.reason)`), args...))
		if err != nil {
			return 0, err
		}
		changed += n
	}
	return changed, nil
}

// Quarantined implements Store.
func (s *SQL) Quarantined(ctx context.Context, q QuarantineQuery) iter.Seq2[Quarantined, error] {
	query := selectQuarantined + " where true"
	var args []any
	for _, c := range []struct{ column, value string }{{"id", q.ID}, {"rule", q.Rule}, {"user_id", storable(q.User)}} {
		if c.value != "" {
			query, args = query+" and "+c.column+" = ?", append(args, c.value)
		}
	}
	if !q.Released {
		query += " and released = 0"
	}
	return stream(ctx, s, readQuarantined, query+" order by id", args...)
}

const selectQuarantined = "select id, definition, rule, reason, at, user_id, source, body, released, refused from quarantine"

func readQuarantined(scan func(...any) error) (r Quarantined, err error) {
	var at, released, refused int64
	var body string
	if err := scan(&r.ID, &r.Definition, &r.Rule, &r.Reason, &at, &r.User, &r.Source, &body, &released, &refused); err != nil {
		return r, err
	}
	r.At, r.Refused = time.UnixMilli(at).UTC(), time.UnixMilli(refused).UTC()
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
		if err := s.exclude(ctx, tx); err != nil { // for the totals, as with [Batch.Refresh]
			return err
		}
		row := tx.QueryRowContext(ctx, s.q(selectQuarantined+" where id = ?"), id)
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
	whole = readable(whole)
	var there int64
	err := tx.QueryRowContext(ctx, s.q("select revision from sessions where definition = ? and user_id = ? and device = ? and id = ?"),
		definition, whole.User, whole.Device, whole.ID).Scan(&there)
	switch {
	case err == nil:
		whole.Revision = max(whole.Revision, uint64(there)+1)
	case !errors.Is(err, sql.ErrNoRows):
		return err
	}
	stale, err := s.nothingTouched(ctx, tx, definition)
	if err != nil {
		return err
	}
	if _, err = s.putSessions(ctx, tx, definition, []ledger.Session{whole}, stale); err != nil {
		return err
	}
	return s.refresh(ctx, tx, definition, stale)
}

package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/definition"
	"github.com/rollcall-io/rollcall/ledger/interval"
)

// testMigrations opens databases of every earlier version, with a row in each that must
// survive. place gives an empty database.
func testMigrations(t *testing.T, place func(t *testing.T) string) {
	for version := range len(migrations) {
		t.Run(fmt.Sprint("from ", version), func(t *testing.T) {
			at, began := place(t), time.Now().Truncate(time.Millisecond)
			old, err := connect(at)
			if err != nil {
				t.Fatal(err)
			}
			if err := old.migrate(t.Context(), version); err != nil {
				t.Fatal(err)
			}
			if version > 0 {
				define(t, old, "a")
				fillOld(t, old, version)
			}
			salt := string(old.salt)
			old.Close()
			for range 2 { // the second time there is nothing to do
				s, err := Open(t.Context(), at)
				if err != nil {
					t.Fatal(err)
				}
				if string(s.salt) != salt {
					t.Error("who was forgotten is not known any more")
				}
				checkQuarantine(t, s, version, began)
				checkTables(t, s, version > 0)
				s.Close()
			}
		})
	}
	t.Run("from the future", func(t *testing.T) {
		at := place(t)
		s, err := Open(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		err = s.transact(t.Context(), func(tx *sql.Tx) error {
			return s.setMeta(context.Background(), tx, "version", strconv.Itoa(len(migrations)))
		})
		s.Close()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), at); !errors.Is(err, ErrNewer) {
			t.Errorf("%v", err)
		}
	})
}

var oldSession = ledger.Session{
	ID: "1", User: "ann", Device: "phone", Start: 5, End: 9, Revision: 2,
	Intervals: map[ledger.Measure][]interval.Interval{ledger.Connected: {{From: 5, To: 9}}},
}

// fillOld stores a session as a version of the tables did.
func fillOld(t *testing.T, s *SQL, version int) {
	t.Helper()
	if version >= 2 {
		if _, err := s.db.Exec("insert into quarantine (id, definition, rule, reason, at, user_id, source, body, released) values ('q', 'a', 'x', '', 1, '', '', '{}', 0)"); err != nil {
			t.Fatal(err)
		}
	}
	if version >= 7 { // by the key of today
		apply(t, s, Batch{Definition: "a", Sessions: []ledger.Session{oldSession}})
		return
	}
	for _, text := range []string{
		"insert into sessions values ('a', '1', 2, 'ann', 'phone', '', '', '', '', 0, 5, 9, 'open')",
		"insert into intervals values ('a', '1', 'connected', 5, 9, 'ann')",
	} {
		if _, err := s.db.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
}

// checkQuarantine looks for what was refused before there was a column that says when: it
// counts as refused at the migration, so that retention does not take it away on that day.
func checkQuarantine(t *testing.T, s *SQL, version int, began time.Time) {
	t.Helper()
	if version < 2 || version >= 8 {
		return
	}
	rows := all(t, s.Quarantined(t.Context(), QuarantineQuery{ID: "q"}))
	if len(rows) != 1 || rows[0].Refused.Before(began) || rows[0].Refused.After(time.Now()) {
		t.Errorf("%+v", rows)
	}
}

// checkTables uses every table once.
func checkTables(t *testing.T, s *SQL, has bool) {
	t.Helper()
	if got := sessions(t, s, "a"); has && !reflect.DeepEqual(got, []ledger.Session{oldSession}) || !has && len(got) > 0 {
		t.Errorf("%+v", got)
	}
	define(t, s, "b")
	c, err := s.Checkpoint(t.Context(), "b", "log")
	if err != nil {
		t.Error(err)
	}
	apply(t, s, Batch{Definition: "b", Sessions: []ledger.Session{session("1", "bob", 1, 100)}, Rejected: []ledger.Rejected{{Rule: "x"}}, Source: "log", Checkpoint: Checkpoint{c.Revision + 1, []byte("x")}})
	if err := s.PutDaily(t.Context(), DailyKey{"b", "UTC", ledger.Connected}, 0, 9, seq(Daily{"bob", interval.Date(1), 2, 3})); err != nil {
		t.Error(err)
	}
	if err := s.BeginRebuild(t.Context(), definition.Default(), Rebuild{Definition: "1"}); err != nil {
		t.Error(err)
	}
	if err := s.Audit(t.Context(), Audit{Action: "x"}); err != nil {
		t.Error(err)
	}
}

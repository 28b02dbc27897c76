package board_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall/internal/board"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/access"
	"github.com/rollcall-io/rollcall/ledger/definition"
	"github.com/rollcall-io/rollcall/ledger/interval"
	"github.com/rollcall-io/rollcall/ledger/store"
)

// books have seven users who were online for an hour yesterday from noon on, and ada for
// half an hour today, an hour ago. It is noon.
func books(t *testing.T) *store.SQL {
	t.Helper()
	s, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	d := definition.Default()
	if err := s.Define(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	const minute = 60_000
	now := time.Now().UnixMilli()
	online := func(user string, from, minutes int64) ledger.Session {
		i := interval.Interval{From: from, To: from + minutes*minute}
		return ledger.Session{
			ID: user + fmt.Sprint(from), User: user, Device: "phone", Start: i.From, End: i.To, Ended: ledger.KindClose, Revision: 1,
			Intervals: map[ledger.Measure][]interval.Interval{ledger.Connected: {i}, ledger.Active: {{From: i.From, To: i.From + minute}}},
		}
	}
	batch := store.Batch{Definition: d.Version, Sessions: []ledger.Session{online("ada", now-60*minute, 30)}}
	for _, user := range []string{"ada", "bob", "cat", "dan", "eva", "fay", "gus"} {
		batch.Sessions = append(batch.Sessions, online(user, now-24*60*minute, 60))
	}
	if _, err := s.Apply(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	return s
}

// Whoever asks sees what the ledger's rules of access let it see, and a person's days are
// noted before they are told, or refused.
func TestRulesOfAccess(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		time.Sleep(10*24*time.Hour + 12*time.Hour) // it is noon, some day
		s := books(t)
		nc := lab.Connect(t, lab.NewServer(t).NewLink())
		rules := access.Rules{
			Accounts: map[string]access.Account{"olga": {Role: access.Auditor}, "tom": {Role: access.Lead, Team: "support"}, "ann": {Role: access.Analyst}},
			Teams:    map[string][]string{"support": {"ada", "bob"}}, Minimum: 5, Zone: "UTC",
		}
		if err := s.SetRules(t.Context(), rules); err != nil {
			t.Fatal(err)
		}
		const half, hour = 1_800_000, 3_600_000
		yesterday, today := "2000-01-10", "2000-01-11"
		for _, c := range []struct {
			account, user string
			code          int
			today, before int64 // connected
			spans         int
		}{
			{"olga", "", 200, half, 7 * hour, 0},
			{"olga", "ada", 200, half, hour, 4},
			{"tom", "", 200, 0, 2 * hour, 0},
			{"tom", "ada", 200, 0, hour, 0},
			{"tom", "cat", 403, 0, 0, 0},
			{"ann", "", 200, 0, 7 * hour, 0},
			{"ann", "ada", 403, 0, 0, 0},
			{"eve", "", 403, 0, 0, 0},
			{"eve", "ada", 403, 0, 0, 0},
		} {
			b := newBoard(t, board.Config{Conn: nc, Loopback: true, Ledger: &board.Ledger{
				Account: c.account, Open: func(context.Context) (store.Store, error) { return s, nil },
			}})
			path := "/board/days"
			if c.user != "" {
				path = "/board/timeline?user=" + c.user
			}
			w := get(t.Context(), b, path)
			if w.Code != c.code {
				t.Errorf("%s asks for %q: %d %s", c.account, c.user, w.Code, w.Body)
			}
			if w.Code != http.StatusOK {
				continue
			}
			var days board.Days
			if err := json.Unmarshal(w.Body.Bytes(), &days); err != nil {
				t.Fatal(err)
			}
			if days.Days[today][ledger.Connected] != c.today || days.Days[yesterday][ledger.Connected] != c.before || len(days.Spans) != c.spans {
				t.Errorf("%s asks for %q: %+v", c.account, c.user, days)
			}
		}
		var notes []string
		for a, err := range s.Audits(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			notes = append(notes, strings.Join([]string{a.Actor, a.Action, a.Subject}, " "))
		}
		want := "olga board ada, tom board ada, tom denied cat, ann denied ada, eve denied ada"
		if got := strings.Join(notes, ", "); got != want {
			t.Errorf("noted %s, want %s", got, want)
		}
	})
}

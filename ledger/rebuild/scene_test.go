package rebuild_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/interval"
	"github.com/rollcall-io/rollcall/ledger/rebuild"
	"github.com/rollcall-io/rollcall/ledger/session"
	"github.com/rollcall-io/rollcall/ledger/store"
)

const (
	sec  = int64(1000)
	mins = 60 * sec
	hour = 60 * mins
	day  = 24 * hour
)

var usual = ledger.Definition{
	Version: "1", Gaps: interval.Gaps{Cap: time.Minute, Grace: 30 * time.Second},
	Idle: 5 * time.Minute, Limit: 24 * time.Hour, Lateness: time.Hour,
}

// An arrival is an event that was stored at some time.
type arrival struct {
	ledger.Event
	stored int64
}

// A tape is a source of literals: a part for each list, in the order of store times.
type tape [][]arrival

func (tape) Name() string { return "tape" }

func (tape) Reach(context.Context) (rebuild.Reach, error) {
	return rebuild.Reach{Interval: always}, nil
}

func (t tape) Parts() (parts []rebuild.Part) {
	for k, list := range t {
		parts = append(parts, reel{k, list})
	}
	return parts
}

// A trimmed tape has lost what was stored before.
type trimmed struct {
	tape
	before int64
}

func (t trimmed) Reach(context.Context) (rebuild.Reach, error) {
	return rebuild.Reach{Interval: interval.Interval{From: t.before, To: interval.Latest}, Trimmed: true}, nil
}

// A young tape has what was stored before.
type young struct {
	tape
	until int64
}

func (y young) Reach(context.Context) (rebuild.Reach, error) {
	return rebuild.Reach{Interval: interval.Interval{From: interval.Earliest, To: y.until}}, nil
}

type reel struct {
	number int
	list   []arrival
}

func (r reel) Name() string { return strconv.Itoa(r.number) }

func (r reel) Read(ctx context.Context, w rebuild.Window, state []byte, to rebuild.Sink) error {
	at := 0
	if state != nil {
		var err error
		if at, err = strconv.Atoi(string(state)); err != nil {
			return err
		}
	}
	for ; at < len(r.list); at++ {
		a := r.list[at]
		if a.At < w.From || a.At >= w.To {
			continue
		}
		if a.stored-a.At > w.Lateness.Milliseconds() {
			e := a.Event
			to.Reject(ledger.Rejected{Rule: ledger.RuleLate, At: time.UnixMilli(e.At).UTC(), Event: &e})
			continue
		}
		to.Event(a.Event)
		share := float64(at+1) / float64(len(r.list))
		if err := to.Reached(a.stored, share, func() ([]byte, error) { return []byte(strconv.Itoa(at + 1)), nil }); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// history is what some users do in a stretch of time, late by at most the lateness and
// some of it twice.
func history(rnd *rand.Rand, users int, span int64) (list []arrival) {
	for u := range users {
		for at := rnd.Int64N(hour); at < span; at += rnd.Int64N(3 * hour) {
			s := ledger.Event{
				User: fmt.Sprint("u", u), Device: fmt.Sprint("d", rnd.IntN(2)), Session: fmt.Sprintf("u%d-%d", u, at), Epoch: 1,
				Client: ledger.Client{Type: "web"},
			}
			add := func(kind ledger.Kind) {
				e := s
				e.Kind, e.At = kind, at
				for range 1 + rnd.IntN(5)/4 {
					list = append(list, arrival{e, at + rnd.Int64N(min(mins<<rnd.IntN(7), usual.Lateness.Milliseconds()))})
				}
			}
			add(ledger.KindOpen)
			for range rnd.IntN(200) {
				at += 20*sec + rnd.Int64N(50*sec)
				switch rnd.IntN(12) {
				case 0:
					add(ledger.KindActive)
				case 1:
					add([]ledger.Kind{ledger.KindIdle, ledger.KindBackground, ledger.KindForeground}[rnd.IntN(3)])
				default:
					add(ledger.KindBeat)
				}
			}
			switch rnd.IntN(4) {
			case 0:
				add(ledger.KindClose)
				at += sec
				add(ledger.KindBeat) // refused
			case 1:
				add(ledger.KindTimeout)
			case 2:
				add(ledger.KindLogout)
			}
			if rnd.IntN(6) == 0 { // far too late
				e := s
				e.Kind, e.At = ledger.KindBeat, at
				list = append(list, arrival{e, at + usual.Lateness.Milliseconds() + 1 + rnd.Int64N(hour)})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b arrival) int { return cmp.Compare(a.stored, b.stored) })
	return list
}

// split deals a history out by user.
func split(list []arrival, parts int) tape {
	t := make(tape, parts)
	for _, a := range list {
		n, _ := strconv.Atoi(a.User[1:])
		t[n%parts] = append(t[n%parts], a)
	}
	return t
}

// books are rows by session, and refusals.
type books struct {
	rows     map[string]ledger.Session
	rejected map[string]bool
	timeouts map[string]bool // sessions that were told to have timed out
}

func refusal(r ledger.Rejected) string {
	if r.Whole != nil {
		return r.Rule + " " + r.Whole.ID
	}
	return fmt.Sprintf("%s %s %d %d", r.Rule, r.Event.Session, r.Event.Kind, r.Event.At)
}

// naive builds everything at once, in the order in which it happened, and picks what has
// an instant in the bounds.
func naive(t testing.TB, d ledger.Definition, list []arrival, bounds interval.Interval) books {
	t.Helper()
	k := books{map[string]ledger.Session{}, map[string]bool{}, map[string]bool{}}
	in := func(at int64) bool { return at >= bounds.From && at < bounds.To }
	touches := func(x ledger.Session) bool {
		return x.Start < bounds.To && x.End > bounds.From || x.Start == x.End && in(x.Start)
	}
	b, err := session.New(session.Config{
		Definition: d,
		Session: func(x ledger.Session, _ bool) {
			if touches(x) {
				k.rows[x.ID] = x
			}
		},
		Reject: func(r ledger.Rejected) {
			if r.Whole != nil && touches(*r.Whole) || r.Event != nil && in(r.At.UnixMilli()) {
				k.rejected[refusal(r)] = true
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range list {
		switch {
		case a.stored-a.At <= d.Lateness.Milliseconds():
			b.Add(a.Event)
			k.timeouts[a.Session] = k.timeouts[a.Session] || a.Kind == ledger.KindTimeout
		case in(a.At):
			k.rejected[refusal(ledger.Rejected{Rule: ledger.RuleLate, Event: &a.Event})] = true
		}
	}
	b.Flush()
	return k
}

// kept is what a store has under a version.
func kept(t testing.TB, s store.Store, version string) books {
	t.Helper()
	k := books{rows: map[string]ledger.Session{}, rejected: map[string]bool{}}
	for x, err := range s.Sessions(t.Context(), store.Query{Definition: version, Bounds: always}) {
		if err != nil {
			t.Fatal(err)
		}
		k.rows[x.ID] = x
	}
	for r, err := range s.Quarantined(t.Context(), store.QuarantineQuery{Released: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Definition == version {
			k.rejected[refusal(r.Rejected)] = true
		}
	}
	return k
}

var always = interval.Interval{From: interval.Earliest, To: interval.Latest}

// mustBe compares with what must be seen, to the millisecond, revisions included.
func (k books) mustBe(t testing.TB, want books) {
	t.Helper()
	text := func(b books) (lines []string) {
		for _, x := range b.rows {
			x.Intervals = maps.Clone(x.Intervals)
			maps.DeleteFunc(x.Intervals, func(_ ledger.Measure, set []interval.Interval) bool { return len(set) == 0 })
			if len(x.Intervals) == 0 {
				x.Intervals = nil
			}
			if x.Ended == ledger.KindTimeout && !want.timeouts[x.ID] {
				x.Ended = 0 // it was silent until it was given up, if time came that far
			}
			line, _ := json.Marshal(x)
			lines = append(lines, string(line))
		}
		lines = append(lines, slices.Collect(maps.Keys(b.rejected))...)
		slices.Sort(lines)
		return lines
	}
	got, wanted := text(k), text(want)
	if slices.Equal(got, wanted) {
		return
	}
	only := func(a, b []string) string {
		k := slices.IndexFunc(a, func(line string) bool { return !slices.Contains(b, line) })
		if k < 0 {
			return "nothing"
		}
		return a[k][:min(len(a[k]), 400)]
	}
	t.Fatalf("%d lines, want %d; too much, first:\n%s\nmissing, first:\n%s", len(got), len(wanted), only(got, wanted), only(wanted, got))
}

func open(t testing.TB) *store.SQL {
	t.Helper()
	return openAt(t, filepath.Join(t.TempDir(), "ledger.db"))
}

func openAt(t testing.TB, place string) *store.SQL {
	t.Helper()
	s, err := store.Open(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func zones(t testing.TB, names ...string) (list []*interval.Zone) {
	t.Helper()
	for _, name := range names {
		z, err := interval.LoadZone(name)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, z)
	}
	return list
}

func run(t testing.TB, c rebuild.Config) rebuild.Summary {
	t.Helper()
	done, err := rebuild.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

func all[T any](t testing.TB, seq iter.Seq2[T, error]) (list []T) {
	t.Helper()
	for x, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, x)
	}
	return list
}

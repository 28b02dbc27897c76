package session_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/interval"
	"github.com/rollcall-io/rollcall/ledger/session"
)

// text is everything that a book holds, in an order of its own. Of a session that is
// refused whole the last word counts, as in a store.
func (k *book) text() string {
	lines := map[string]string{}
	for id, s := range k.rows {
		if s.Intervals == nil {
			continue // withdrawn, or never there
		}
		j, _ := json.Marshal(s)
		lines["row "+id] = string(j)
	}
	for _, r := range k.rejected {
		var name string
		if r.Whole != nil {
			name = fmt.Sprintf("whole %s %s", r.Rule, r.Whole.ID)
		} else {
			name = fmt.Sprintf("event %s %+v", r.Rule, *r.Event)
		}
		j, _ := json.Marshal(r)
		if _, twice := lines[name]; twice && r.Event != nil {
			name += " once more"
		}
		lines[name] = string(j)
	}
	var keys []string
	for k := range lines {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	out := ""
	for _, k := range keys {
		out += k + " " + lines[k] + "\n"
	}
	return out
}

func same(t testing.TB, want, got *book) {
	t.Helper()
	if a, b := want.text(), got.text(); a != b {
		t.Fatal(difference(a, b))
	}
}

// difference shows the lines that only one of them has.
func difference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	out := ""
	for _, l := range a {
		if !slices.Contains(b, l) {
			out += "- " + l + "\n"
		}
	}
	for _, l := range b {
		if !slices.Contains(a, l) {
			out += "+ " + l + "\n"
		}
	}
	return out
}

// span of the random histories, in ms, and their definition.
const span = 2000

func small(r *rand.Rand) ledger.Definition {
	cap := time.Duration(r.IntN(60)) * time.Millisecond
	grace := time.Duration(r.IntN(40)) * time.Millisecond
	if cap > 0 {
		grace = min(grace, cap)
	}
	return ledger.Definition{
		Gaps: interval.Gaps{Cap: cap, Grace: grace}, Idle: time.Duration(1+r.IntN(80)) * time.Millisecond,
		Limit: 3 * span * time.Millisecond, Lateness: time.Duration(50+r.IntN(300)) * time.Millisecond,
		Labels: []string{"a", "b"},
	}
}

// history is events of some sessions in the order in which they happened.
func history(r *rand.Rand) (events []ledger.Event) {
	kinds := []ledger.Kind{
		ledger.KindOpen, ledger.KindBeat, ledger.KindBeat, ledger.KindBeat, ledger.KindBeat, ledger.KindBeat,
		ledger.KindForeground, ledger.KindBackground, ledger.KindActive, ledger.KindIdle,
		ledger.KindClose, ledger.KindTimeout, ledger.KindLogout,
	}
	for range 10 + r.IntN(150) {
		e := ledger.Event{
			At: r.Int64N(span), User: "u", Session: fmt.Sprint("s", r.IntN(3)),
			Kind: kinds[r.IntN(len(kinds))], Activity: []string{"", "", "a", "b", "c"}[r.IntN(5)],
			Client: ledger.Client{Type: []string{"", "web", "ios"}[r.IntN(3)]},
		}
		if e.Kind > ledger.KindIdle && r.IntN(3) > 0 {
			continue // or everything would be closed
		}
		// Epochs grow with time, though not without overlap.
		e.Epoch = (e.At + r.Int64N(span/8)) * 5 / span
		if r.IntN(4) == 0 {
			e.Sequence = 1 + uint64(e.At)/uint64(1+r.IntN(8))
		}
		if e.Stated = r.IntN(3) == 0; e.Stated {
			e.Foreground, e.Active = r.IntN(2) == 0, r.IntN(2) == 0
		}
		events = append(events, e)
	}
	slices.SortStableFunc(events, func(a, b ledger.Event) int { return cmp.Compare(a.At, b.At) })
	return events
}

// play shuffles a history within the lateness, repeats some of it, and advances,
// publishes and crashes at random.
func play(t testing.TB, r *rand.Rand, d ledger.Definition, events []ledger.Event, crash bool) *book {
	late := d.Lateness.Milliseconds()
	type arrival struct {
		at int64
		ledger.Event
	}
	var list []arrival
	for _, e := range events {
		for range 1 + r.IntN(2) {
			list = append(list, arrival{e.At + r.Int64N(late+1), e})
		}
	}
	slices.SortFunc(list, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
	k := newBook()
	b, err := session.New(k.config(d))
	if err != nil {
		t.Fatal(err)
	}
	saved, position, kept := b.Snapshot(), 0, *newBook()
	crashes := 0
	for i := 0; i < len(list); i++ {
		b.Add(list[i].Event)
		if r.IntN(3) == 0 {
			b.Advance(list[i].at)
		}
		if r.IntN(5) == 0 {
			b.Publish()
		}
		if !crash {
			continue
		}
		switch r.IntN(12) {
		case 0: // a transaction: rows, refusals, state and position
			saved, position = b.Snapshot(), i+1
			kept = book{rows: maps.Clone(k.rows), rejected: slices.Clone(k.rejected)}
		case 1:
			if crashes++; crashes > 10 {
				continue
			}
			k = &book{rows: maps.Clone(kept.rows), rejected: slices.Clone(kept.rejected)}
			if b, err = session.Restore(k.config(d), saved); err != nil {
				t.Fatal(err)
			}
			i = position - 1
		}
	}
	b.Flush()
	return k
}

// TestOrderAndRepetition: any permutation and duplication within the lateness gives the
// same rows and the same quarantine, wherever it is advanced, published or killed.
func TestOrderAndRepetition(t *testing.T) {
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 1))
		d, events := small(r), history(r)
		want := build(t, d, events...)
		got := play(t, r, d, events, seed%2 == 0)
		if a, b := want.text(), got.text(); a != b {
			t.Fatalf("seed %d differs:\n%s", seed, difference(a, b))
		}
	}
}

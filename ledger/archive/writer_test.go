package archive

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall/ledger/raw"
)

// behind are the messages that come after a position.
func (h *history) behind(p raw.Position) (rest []raw.Message) {
	for _, m := range h.messages {
		if m.Beats && m.Seq > p.Beats || !m.Beats && m.Seq > p.Log {
			rest = append(rest, m)
		}
	}
	return rest
}

// However the events are batched, and wherever the process is started again, the archive
// holds what the streams tell, once.
func TestTheArchiveIsWhatTheStreamsTell(t *testing.T) {
	seeds := uint64(20)
	if testing.Short() {
		seeds = 5
	}
	for seed := range seeds {
		h := random(t, seed, 150)
		dir, rnd := t.TempDir(), rand.New(rand.NewPCG(seed, 1))
		cfg := config(dir)
		for done := false; !done; {
			cfg.Buffer = 1 + rnd.IntN(300)
			w := newWriter(t, h, cfg)
			done = true
			for _, m := range h.behind(w.Position()) {
				if err := w.Add(m); err != nil {
					t.Fatal(err)
				}
				if n := rnd.IntN(30); n == 0 {
					if err := w.Commit(t.Context(), m.Time.UnixMilli()); err != nil {
						t.Fatal(err)
					}
				} else if n == 1 { // killed
					done = false
					break
				}
			}
			if done {
				if err := w.Commit(t.Context(), 0); err != nil {
					t.Fatal(err)
				}
			}
		}
		events, rejected := h.told()
		same(t, dir, events, rejected)
	}
}

// Under a lateness, the archive says what those have who read the streams under it.
func TestUnder(t *testing.T) {
	late := 0
	for seed := range uint64(5) {
		h := random(t, seed, 150)
		cfg := config(t.TempDir())
		w := newWriter(t, h, cfg)
		for _, m := range h.messages {
			if err := w.Add(m); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Commit(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		kept, _ := read(t, cfg.Dir)
		for _, lateness := range []time.Duration{15 * time.Minute, time.Hour, 4 * time.Hour} {
			live := &telling{live: true}
			live.decoder = raw.New(h.names, lateness, live)
			for _, m := range h.messages {
				live.decoder.Add(m)
			}
			var got []Event
			for _, e := range kept {
				seen, tooLate := e.Under(lateness)
				if tooLate {
					late++
					continue
				}
				got = append(got, Event{Event: seen, Stored: e.Stored, Origin: e.Origin})
			}
			differ(t, "events", order(got), order(live.events))
		}
	}
	if late == 0 {
		t.Error("nothing was late")
	}
}

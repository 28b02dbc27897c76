package session_test

import (
	"cmp"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/interval"
)

// naive makes the measures of one session from all of its events at once, with the
// kernel's functions over complete lists and nothing incremental.
func naive(t *testing.T, d ledger.Definition, events []ledger.Event) (map[ledger.Measure][]interval.Interval, int) {
	ending := func(e ledger.Event) bool { return e.Kind >= ledger.KindClose }
	class := func(e ledger.Event) int {
		switch {
		case e.Kind == ledger.KindOpen:
			return 0
		case ending(e):
			return 2
		}
		return 1
	}
	off := func(e ledger.Event) int {
		fg, fgSaid := word(e, ledger.KindForeground, ledger.KindBackground, e.Foreground)
		ac, acSaid := word(e, ledger.KindActive, ledger.KindIdle, e.Active)
		if fgSaid && !fg || acSaid && !ac {
			return 1
		}
		return 0
	}
	number := func(e ledger.Event) int {
		n := 0
		for i, on := range []bool{e.Foreground, e.Active, e.Stated, e.Kind != ledger.KindBeat || e.Activity != ""} {
			if on {
				n += 1 << i
			}
		}
		return n
	}
	slices.SortFunc(events, func(a, b ledger.Event) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(class(a), class(b)), cmp.Compare(a.Epoch, b.Epoch),
			cmp.Compare(a.Sequence, b.Sequence), cmp.Compare(off(a), off(b)), cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(number(a), number(b)), cmp.Compare(counted(d, a), counted(d, b)))
	})
	type life struct {
		beats []int64
		end   int64
	}
	var (
		lives    []life
		screens  []interval.Switch
		inputs   []interval.Switch
		labels   []ledger.Event
		epoch    int64
		sequence uint64
		over     ledger.Kind
		refused  int
		fresh    = true
	)
	for i, e := range events {
		if e.Epoch > epoch {
			epoch, sequence = e.Epoch, 0
			if over != 0 && !ending(e) {
				over = 0
			}
		}
		if over != 0 && !ending(e) {
			refused++
			continue
		}
		if e.Sequence != 0 && e.Epoch == epoch {
			if e.Sequence == sequence {
				continue
			}
			if e.Sequence < sequence {
				refused++
				continue
			}
			sequence = e.Sequence
		}
		if ending(e) {
			switch {
			case e.Epoch < epoch || over != 0:
			case len(lives) == 0:
				over = e.Kind
				refused++
			default:
				over = e.Kind
				if over != ledger.KindTimeout && !fresh {
					last := &lives[len(lives)-1]
					last.end, fresh = e.At, true
					if d.Gaps.Cap == 0 {
						last.beats = append(last.beats, e.At)
					}
				}
			}
			continue
		}
		if e.Kind == ledger.KindOpen || e.Kind == ledger.KindBeat {
			if fresh {
				lives, fresh = append(lives, life{end: math.MaxInt64}), false
			}
			last := &lives[len(lives)-1]
			last.beats = append(last.beats, e.At)
		}
		if on, said := word(e, ledger.KindForeground, ledger.KindBackground, e.Foreground); said {
			screens = append(screens, interval.Switch{At: e.At, Sequence: uint64(i), On: on})
		}
		if on, said := word(e, ledger.KindActive, ledger.KindIdle, e.Active); said {
			inputs = append(inputs, interval.Switch{At: e.At, Sequence: uint64(i), On: on})
		}
		if e.Kind != ledger.KindBeat || e.Activity != "" {
			labels = append(labels, e)
		}
	}
	if len(lives) == 0 {
		return nil, refused
	}
	var all []interval.Interval
	for _, l := range lives {
		var err error
		if all, err = d.Gaps.OnlineUntil(all, l.beats, l.end); err != nil {
			t.Fatal(err)
		}
	}
	connected := interval.Union(all)
	m := map[ledger.Measure][]interval.Interval{}
	put := func(name ledger.Measure, set []interval.Interval) {
		if len(set) > 0 {
			m[name] = set
		}
	}
	put(ledger.Connected, connected)
	const ever = 10 * span
	if len(screens) == 0 || !screens[0].On {
		screens = append([]interval.Switch{{At: -1, On: true}}, screens...)
	}
	foreground := interval.Intersect(nil, interval.Foreground(nil, screens, ever), connected)
	put(ledger.Foreground, foreground)
	active, err := interval.Activity{Idle: d.Idle}.ActiveFlags(nil, inputs)
	if err != nil {
		t.Fatal(err)
	}
	put(ledger.Active, interval.Intersect(nil, interval.Union(active), foreground))
	for _, label := range d.Labels {
		var set []interval.Interval
		for i, e := range labels {
			until := int64(ever)
			if i+1 < len(labels) {
				until = labels[i+1].At
			}
			if e.Activity == label {
				set = append(set, interval.Interval{From: e.At, To: until})
			}
		}
		put(ledger.Measure(label), interval.Intersect(nil, interval.Union(set), connected))
	}
	return m, refused
}

// word is what an event says of one thing.
func word(e ledger.Event, yes, no ledger.Kind, flag bool) (on, said bool) {
	if e.Stated {
		return flag, true
	}
	return e.Kind == yes, e.Kind == yes || e.Kind == no
}

func counted(d ledger.Definition, e ledger.Event) int { return slices.Index(d.Labels, e.Activity) }

// TestBuilderIsTheNaiveModel compares rows and the number of refusals.
func TestBuilderIsTheNaiveModel(t *testing.T) {
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 2))
		d, events := small(r), history(r)
		k := play(t, r, d, events, false)
		byID := map[string]map[ledger.Event]bool{}
		for _, e := range events {
			if byID[e.Session] == nil {
				byID[e.Session] = map[ledger.Event]bool{}
			}
			e.Client = ledger.Client{} // no part of what an event says happened
			if counted(d, e) < 0 && e.Kind != ledger.KindBeat {
				e.Activity = "" // nobody counts it
			}
			byID[e.Session][e] = true
		}
		refused := 0
		for id, distinct := range byID {
			want, n := naive(t, d, slices.Collect(maps.Keys(distinct)))
			refused += n
			got := k.rows[id].Intervals
			if !maps.EqualFunc(got, want, func(a, b []interval.Interval) bool { return slices.Equal(a, b) }) {
				t.Fatalf("seed %d, %s under %+v:\n got %v\nwant %v", seed, id, d, got, want)
			}
			if want != nil && k.rows[id].Revision != uint64(len(distinct)) {
				t.Fatalf("seed %d, %s: revision %d of %d events", seed, id, k.rows[id].Revision, len(distinct))
			}
			m := interval.Measures{Connected: got[ledger.Connected], Foreground: got[ledger.Foreground], Active: got[ledger.Active]}
			if err := m.Check(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		gone := 0
		for _, rejected := range k.rejected {
			if rejected.Event != nil {
				gone++
			}
		}
		if gone != refused {
			t.Fatalf("seed %d: %d events refused, want %d", seed, gone, refused)
		}
	}
}

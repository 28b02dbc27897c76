package rebuild

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/definition"
	"github.com/rollcall-io/rollcall/ledger/interval"
	"github.com/rollcall-io/rollcall/ledger/reconcile"
	"github.com/rollcall-io/rollcall/ledger/store"
)

const (
	sec  = int64(1000)
	hour = 3600 * sec
)

// broken is what breaks each rule: events, or a row that no builder makes.
var broken = map[string]struct {
	events []ledger.Event
	row    *ledger.Session
}{
	ledger.RuleOrder:    {events: said(is(ledger.KindClose, 0), is(ledger.KindOpen, sec))},
	ledger.RuleLimit:    {events: said(is(ledger.KindOpen, 0), is(ledger.KindBeat, hour), is(ledger.KindBeat, 2*hour), is(ledger.KindBeat, 3*hour))},
	ledger.RuleSequence: {events: said(is(ledger.KindOpen, 0), numbered(is(ledger.KindBeat, sec), 9), numbered(is(ledger.KindBeat, 2*sec), 8))},
	ledger.RuleClosed:   {events: said(is(ledger.KindOpen, 0), is(ledger.KindClose, sec), is(ledger.KindBeat, 2*sec))},
	ledger.RuleLate:     {events: said(is(ledger.KindOpen, 9*hour), is(ledger.KindBeat, 0))},
	ledger.RuleNesting:  {events: said(is(ledger.KindOpen, 0), is(ledger.KindBackground, sec), is(ledger.KindActive, 2*sec))},
	ledger.RuleInput:    {events: said(ledger.Event{Kind: ledger.KindBeat, User: "ann"})},
	ledger.RuleDay: {row: &ledger.Session{
		ID: "s", User: "ann", Start: 0, End: 25 * hour, Revision: 1,
		Intervals: connected(interval.Interval{From: 0, To: 20 * hour}, interval.Interval{From: hour, To: 21 * hour}),
	}},
	ledger.RuleParts: {row: &ledger.Session{
		ID: "s", User: "ann", Start: 0, End: 5 * hour, Revision: 1,
		Intervals: connected(interval.Interval{From: 2 * hour, To: 3 * hour}, interval.Interval{From: 2 * hour, To: 3 * hour}),
	}},
	ledger.RuleRebuilt: {events: said(is(ledger.KindOpen, 0), is(ledger.KindClose, 20*sec))},
}

func is(kind ledger.Kind, at int64) ledger.Event {
	return ledger.Event{User: "ann", Device: "phone", Session: "s", Kind: kind, At: at}
}

func numbered(e ledger.Event, sequence uint64) ledger.Event {
	e.Sequence = sequence
	return e
}

func said(events ...ledger.Event) []ledger.Event { return events }

func connected(set ...interval.Interval) map[ledger.Measure][]interval.Interval {
	return map[ledger.Measure][]interval.Interval{ledger.Connected: set}
}

// breaking is a source of the events and the row that break a rule.
type breaking struct {
	events []ledger.Event
	row    *ledger.Session
}

func (breaking) Name() string { return "breaking" }

func (b breaking) Parts() []Part { return []Part{b} }

func (breaking) Reach(context.Context) (Reach, error) { return Reach{}, nil }

func (b breaking) Read(_ context.Context, _ Window, _ []byte, to Sink) error {
	for _, e := range b.events {
		to.Event(e)
		if err := to.Reached(e.At, 0, nil); err != nil {
			return err
		}
	}
	if b.row != nil {
		to.(*building).keep(*b.row)
	}
	return nil
}

// TestEveryRule breaks each quality rule and finds what broke it in the store's
// quarantine. The rules are read from where they are declared, so that a new one without
// a case fails.
func TestEveryRule(t *testing.T) {
	for name, rule := range declared(t) {
		t.Run(name, func(t *testing.T) {
			c, ok := broken[rule]
			if !ok {
				t.Fatal("nothing breaks it")
			}
			s := stored(t, breaking(c))
			if rule == ledger.RuleRebuilt {
				differ(t, s)
			}
			var found []store.Quarantined
			for r, err := range s.Quarantined(t.Context(), store.QuarantineQuery{}) {
				if err != nil {
					t.Fatal(err)
				}
				found = append(found, r)
			}
			if len(found) == 0 || found[0].Rule != rule || found[0].User != "ann" || found[0].Reason == "" {
				t.Errorf("in quarantine: %+v", found)
			}
			if c.row == nil {
				return
			}
			for r, err := range s.Intervals(t.Context(), store.Query{Definition: "1", Measure: ledger.Connected, Bounds: allTime}) {
				t.Errorf("it counts: %+v, %v", r, err)
			}
		})
	}
}

var allTime = interval.Interval{From: interval.Earliest, To: interval.Latest}

// declared are the rules by the names of their constants.
func declared(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../ledger.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	rules := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Rule") {
			return true
		}
		if rules[spec.Names[0].Name], err = strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value); err != nil {
			t.Fatal(err)
		}
		return true
	})
	if len(rules) < 10 {
		t.Fatalf("only %v", rules)
	}
	return rules
}

// stored is a rebuild of a source.
func stored(t *testing.T, source Source) *store.SQL {
	t.Helper()
	s, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	d := definition.Default()
	d.Gaps.Cap, d.Limit, d.Lateness = 2*time.Hour, 150*time.Minute, time.Hour
	if _, err := Run(t.Context(), Config{
		Store: s, Source: source, Definition: d, Bounds: interval.Interval{From: -hour, To: 48 * hour}, Zones: []*interval.Zone{utc(t)},
	}); err != nil {
		t.Fatal(err)
	}
	return s
}

func utc(t *testing.T) *interval.Zone {
	t.Helper()
	z, err := interval.LoadZone("UTC")
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// differ has other live figures than those that are there, and compares.
func differ(t *testing.T, s store.Store) {
	t.Helper()
	live := definition.Default()
	live.Version = "live"
	row := ledger.Session{ID: "s", User: "ann", Device: "phone", Revision: 1, End: hour, Intervals: connected(interval.Interval{From: 0, To: hour})}
	if err := s.Define(t.Context(), live); err != nil {
		t.Fatal(err)
	}
	batch := store.Batch{Definition: "live", Sessions: []ledger.Session{row}}
	if _, err := s.Apply(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	batch.Sessions = nil
	q := reconcile.Query{Bounds: allTime, Zone: utc(t), Measures: []ledger.Measure{ledger.Connected}, Threshold: sec}
	_, err := reconcile.Compare(s.Pairs(t.Context(), "1", store.Query{Definition: "live", Bounds: allTime}), q, func(of []reconcile.Difference) error {
		batch.Rejected = append(batch.Rejected, reconcile.Rejected(of, "live", "1"))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Apply(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
}

package session_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/interval"
	"github.com/rollcall-io/rollcall/ledger/session"
)

const (
	sec  = int64(1000)
	mins = 60 * sec
)

var usual = ledger.Definition{
	Version: "1", Gaps: interval.Gaps{Cap: time.Minute, Grace: 30 * time.Second},
	Idle: 5 * time.Minute, Limit: 24 * time.Hour, Lateness: time.Hour, Labels: []string{"streaming"},
}

// A book takes what a builder hands out.
type book struct {
	rows     map[string]ledger.Session // by session id, the newest revision
	rejected []ledger.Rejected
}

func newBook() *book { return &book{rows: make(map[string]ledger.Session)} }

func (k *book) config(d ledger.Definition) session.Config {
	return session.Config{
		Definition: d,
		Session: func(s ledger.Session, _ bool) {
			if s.Revision >= k.rows[s.ID].Revision {
				k.rows[s.ID] = s
			}
		},
		Reject: func(r ledger.Rejected) { k.rejected = append(k.rejected, r) },
	}
}

// rules lists which rules were broken, in order.
func (k *book) rules() (list []string) {
	for _, r := range k.rejected {
		list = append(list, r.Rule)
	}
	slices.Sort(list)
	return list
}

func build(t testing.TB, d ledger.Definition, events ...ledger.Event) *book {
	t.Helper()
	k := newBook()
	b, err := session.New(k.config(d))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		b.Add(e)
	}
	b.Flush()
	return k
}

func event(kind ledger.Kind, at int64) ledger.Event {
	return ledger.Event{Kind: kind, At: at, User: "ada", Device: "phone", Session: "s1"}
}

func beats(from, to int64) (list []ledger.Event) {
	for at := from; at <= to; at += 30 * sec {
		list = append(list, event(ledger.KindBeat, at))
	}
	return list
}

func concat(lists ...[]ledger.Event) []ledger.Event { return slices.Concat(lists...) }

func one(e ...ledger.Event) []ledger.Event { return e }

func (k *book) must(t *testing.T, id string, m ledger.Measure, want ...interval.Interval) {
	t.Helper()
	if got := k.rows[id].Intervals[m]; !slices.Equal(got, want) {
		t.Errorf("%s of %s: %v, want %v", m, id, got, want)
	}
}

func (k *book) breaks(t *testing.T, want ...string) {
	t.Helper()
	if got := k.rules(); !slices.Equal(got, want) {
		t.Errorf("in quarantine: %v, want %v", got, want)
	}
}

// Scenario 41: a crash without any close.
func TestCrashEndsAtLastHeartbeatAndGrace(t *testing.T) {
	for _, noticed := range []int64{11 * mins, 50 * mins, 0} {
		events := concat(one(event(ledger.KindOpen, 0)), beats(0, 10*mins))
		if noticed > 0 {
			events = append(events, event(ledger.KindTimeout, noticed))
		}
		k := build(t, usual, events...)
		k.must(t, "s1", ledger.Connected, interval.Interval{From: 0, To: 10*mins + 30*sec})
		if end := k.rows["s1"].End; end != 10*mins+30*sec {
			t.Errorf("noticed at %d it ended at %d", noticed, end)
		}
		k.breaks(t)
	}
}

// Scenario 42: two tabs.
func TestTwoTabs(t *testing.T) {
	var events []ledger.Event
	for tab, span := range [][2]int64{{0, 30 * mins}, {10 * mins, 20 * mins}} {
		own := concat(one(event(ledger.KindOpen, span[0])), beats(span[0], span[1]), one(event(ledger.KindClose, span[1])))
		for _, e := range own {
			e.Session = fmt.Sprintf("tab%d", tab)
			events = append(events, e)
		}
	}
	k := build(t, usual, events...)
	var all []interval.Interval
	for _, s := range k.rows {
		all = append(all, s.Intervals[ledger.Connected]...)
	}
	if sum := interval.Sum(all); sum != 40*mins {
		t.Errorf("sessions of %d ms", sum)
	}
	if total := interval.Total(interval.Union(all)); total != 30*mins {
		t.Errorf("a user of %d ms", total)
	}
}

// Scenario 43: a device is cut off for an hour and returns, under the same epoch or a
// higher one.
func TestAnHourAwayIsNotOnline(t *testing.T) {
	for epoch := range int64(2) {
		back := beats(70*mins, 80*mins)
		for i := range back {
			back[i].Epoch = epoch
		}
		d := usual
		k := build(t, d, concat(one(event(ledger.KindOpen, 0)), beats(0, 10*mins), back)...)
		k.must(t, "s1", ledger.Connected, interval.Interval{From: 0, To: 10*mins + 30*sec}, interval.Interval{From: 70 * mins, To: 80*mins + 30*sec})
		k.breaks(t)
		if s := k.rows["s1"]; s.Epoch != epoch || s.Ended != 0 {
			t.Errorf("epoch %d, ended %d", s.Epoch, s.Ended)
		}
	}
}

// Scenario 44 as an example; TestOrderAndRepetition is the property.
func TestHeartbeatsTwiceAndInAnyOrder(t *testing.T) {
	events := concat(one(event(ledger.KindOpen, 0)), beats(0, 5*mins), one(event(ledger.KindClose, 5*mins)))
	twice := concat(events, events)
	slices.Reverse(twice)
	want, got := build(t, usual, events...), build(t, usual, twice...)
	same(t, want, got)
	got.must(t, "s1", ledger.Connected, interval.Interval{From: 0, To: 5 * mins})
}

// Scenario 45: a heartbeat for a closed session, also one that came before the close.
func TestHeartbeatAfterCloseStaysOut(t *testing.T) {
	late := event(ledger.KindBeat, 3*mins)
	events := concat(one(event(ledger.KindOpen, 0)), beats(0, 2*mins), one(event(ledger.KindClose, 2*mins)))
	for _, order := range [][]ledger.Event{concat(events, one(late)), concat(one(late), events)} {
		k := build(t, usual, order...)
		k.must(t, "s1", ledger.Connected, interval.Interval{From: 0, To: 2 * mins})
		k.breaks(t, ledger.RuleClosed)
		if s := k.rows["s1"]; s.Ended != ledger.KindClose || s.End != 2*mins {
			t.Errorf("the session is %+v", s)
		}
		if *k.rejected[0].Event != late {
			t.Errorf("in quarantine is %+v", *k.rejected[0].Event)
		}
	}
}

// Scenario 45, long after the session was final.
func TestHeartbeatAfterFinalClose(t *testing.T) {
	k := newBook()
	b, err := session.New(k.config(usual))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range concat(one(event(ledger.KindOpen, 0)), beats(0, 2*mins), one(event(ledger.KindClose, 2*mins))) {
		b.Add(e)
	}
	for at := int64(0); at < 10*60*mins; at += mins {
		b.Advance(at)
	}
	if k.rows["s1"].Ended != ledger.KindClose {
		t.Fatal("not final")
	}
	b.Add(event(ledger.KindBeat, 10*60*mins))
	b.Advance(20 * 60 * mins)
	k.breaks(t, ledger.RuleClosed)
	k.must(t, "s1", ledger.Connected, interval.Interval{From: 0, To: 2 * mins})
	b.Advance(50 * 60 * mins)
	b.Advance(100 * 60 * mins)
	if n := b.Sessions(); n != 0 {
		t.Errorf("%d sessions are not forgotten", n)
	}
}

// Scenario 46: background from 10 to 20 with the connection up.
func TestBackgroundIsConnected(t *testing.T) {
	k := build(t, usual, concat(one(event(ledger.KindOpen, 0)), beats(0, 30*mins), one(
		event(ledger.KindBackground, 10*mins), event(ledger.KindForeground, 20*mins), event(ledger.KindClose, 30*mins),
	))...)
	k.must(t, "s1", ledger.Connected, interval.Interval{From: 0, To: 30 * mins})
	k.must(t, "s1", ledger.Foreground, interval.Interval{From: 0, To: 10 * mins}, interval.Interval{From: 20 * mins, To: 30 * mins})
	k.breaks(t)
}

// Scenario 47: no input for the idle threshold.
func TestActiveEndsAtLastInputAndThreshold(t *testing.T) {
	k := build(t, usual, concat(one(event(ledger.KindOpen, 0)), beats(0, 30*mins), one(
		event(ledger.KindActive, 2*mins), event(ledger.KindActive, 4*mins), event(ledger.KindIdle, 25*mins), event(ledger.KindClose, 30*mins),
	))...)
	k.must(t, "s1", ledger.Active, interval.Interval{From: 2 * mins, To: 9 * mins})
	k.breaks(t)
}

// Scenario 48: foreground reported longer than connected.
func TestForegroundBeyondConnectedIsQuarantined(t *testing.T) {
	open, closed := event(ledger.KindOpen, 10*mins), event(ledger.KindClose, 20*mins)
	cases := map[string][]ledger.Event{
		"before the open":   {event(ledger.KindForeground, 5*mins), event(ledger.KindBackground, 15*mins), closed},
		"after the close":   {event(ledger.KindForeground, 10*mins), closed, event(ledger.KindBackground, 25*mins)},
		"after it vanished": {event(ledger.KindForeground, 10*mins), event(ledger.KindBackground, 25*mins)},
	}
	for name, events := range cases {
		t.Run(name, func(t *testing.T) {
			k := build(t, usual, concat(one(open), beats(10*mins, 20*mins), events)...)
			var whole *ledger.Session
			for _, r := range k.rejected {
				if r.Rule == ledger.RuleNesting {
					whole = r.Whole
				}
			}
			if whole == nil {
				t.Fatalf("in quarantine: %v", k.rules())
			}
			if interval.Within(whole.Intervals[ledger.Foreground], whole.Intervals[ledger.Connected]) {
				t.Errorf("the claim is not in quarantine: %v", whole.Intervals)
			}
			m := k.rows["s1"].Intervals
			if err := (interval.Measures{Connected: m[ledger.Connected], Foreground: m[ledger.Foreground], Active: m[ledger.Active]}).Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestEveryOtherRule(t *testing.T) {
	seq := func(e ledger.Event, n uint64) ledger.Event { e.Sequence = n; return e }
	cases := []struct {
		rule   string
		events []ledger.Event
	}{
		{ledger.RuleOrder, one(event(ledger.KindOpen, 2*mins), event(ledger.KindClose, mins))},
		{ledger.RuleLimit, concat(one(event(ledger.KindOpen, 0)), beats(0, 25*60*mins))},
		{ledger.RuleSequence, one(seq(event(ledger.KindOpen, 0), 1), seq(event(ledger.KindBeat, 30*sec), 3), seq(event(ledger.KindBeat, mins), 2))},
		{ledger.RuleInput, one(ledger.Event{Kind: ledger.KindBeat})},
		{ledger.RuleOrder, one(event(ledger.KindClose, mins))},
		{ledger.RuleNesting, concat(beats(0, 5*mins), one(event(ledger.KindBackground, mins), event(ledger.KindActive, 2*mins)))},
	}
	for _, c := range cases {
		k := build(t, usual, c.events...)
		if !slices.Contains(k.rules(), c.rule) {
			t.Errorf("%s: in quarantine is %v", c.rule, k.rules())
		}
		withdrawn := c.rule == ledger.RuleOrder || c.rule == ledger.RuleLimit
		if s := k.rows["s1"]; withdrawn && s.Intervals != nil {
			t.Errorf("%s: the session counts: %v", c.rule, s.Intervals)
		}
	}
}

func TestTooLate(t *testing.T) {
	k := newBook()
	b, _ := session.New(k.config(usual))
	b.Add(event(ledger.KindOpen, 0))
	b.Advance(2 * 60 * mins)
	b.Add(event(ledger.KindBeat, 30*mins))
	k.breaks(t, ledger.RuleLate)
	b.Add(event(ledger.KindBeat, 60*mins))
	k.breaks(t, ledger.RuleLate)
}

func TestReconnectGoesOn(t *testing.T) {
	again := event(ledger.KindOpen, 3*mins)
	again.Epoch = 1
	stale := event(ledger.KindClose, 4*mins) // of the connection before
	live := beats(3*mins, 5*mins)
	for i := range live {
		live[i].Epoch = 1
	}
	k := build(t, usual, concat(one(event(ledger.KindOpen, 0)), beats(0, 150*sec), live, one(again, stale))...)
	k.must(t, "s1", ledger.Connected, interval.Interval{From: 0, To: 5*mins + 30*sec})
	k.breaks(t)
	if s := k.rows["s1"]; s.Ended != 0 || s.Epoch != 1 {
		t.Errorf("%+v", s)
	}
}

// A session that was closed, final and packed goes on with a higher epoch, and its row
// keeps what it was.
func TestGoesOnAfterItWasFinal(t *testing.T) {
	k := newBook()
	b, _ := session.New(k.config(usual))
	b.Add(event(ledger.KindOpen, 0))
	b.Add(event(ledger.KindClose, sec))
	b.Advance(5 * 60 * mins)
	again := event(ledger.KindOpen, 5*60*mins)
	again.Epoch = 7
	b.Add(again)
	b.Publish()
	k.must(t, "s1", ledger.Connected, interval.Interval{From: 0, To: sec}, interval.Interval{From: 5 * 60 * mins, To: 5*60*mins + 30*sec})
}

func TestOpenAndCloseWithoutBeats(t *testing.T) {
	d := usual
	d.Gaps.Cap = 0
	events := one(event(ledger.KindOpen, 0), event(ledger.KindClose, 120*mins))
	build(t, d, events...).must(t, "s1", ledger.Connected, interval.Interval{From: 0, To: 120 * mins})
	build(t, usual, events...).must(t, "s1", ledger.Connected, interval.Interval{From: 0, To: 30 * sec})
}

func TestLabels(t *testing.T) {
	on, off := event(ledger.KindForeground, 2*mins), event(ledger.KindForeground, 4*mins)
	on.Activity = "streaming"
	k := build(t, usual, concat(one(event(ledger.KindOpen, 0), on, off), beats(0, 10*mins))...)
	k.must(t, "s1", "streaming", interval.Interval{From: 2 * mins, To: 4 * mins})
}

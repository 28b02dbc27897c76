package interval

import (
	"cmp"
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var anySwitches = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Switch {
	return Switch{
		At: rapid.Int64Range(0, span-1).Draw(t, "at"), Sequence: rapid.Uint64Range(0, 3).Draw(t, "sequence"),
		On: rapid.Bool().Draw(t, "on"),
	}
}), 0, 30)

// latest is the switch that has the last word at an instant.
func latest(switches []Switch, at int64) (last Switch, ok bool) {
	for _, s := range switches {
		if s.At > at {
			continue
		}
		newer := cmp.Or(cmp.Compare(s.At, last.At), cmp.Compare(s.Sequence, last.Sequence))
		if !ok || newer > 0 || newer == 0 && !s.On {
			last, ok = s, true
		}
	}
	return last, ok
}

func TestForegroundIsTheCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		switches, until := anySwitches.Draw(t, "switches"), rapid.Int64Range(0, span).Draw(t, "until")
		var want tally
		for at := range until {
			last, _ := latest(switches, at)
			want[at] = last.On
		}
		same(t, "foreground", Foreground(nil, muddle(t, switches), until), want.set())
	})
}

func TestActiveIsTheCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inputs, idle := anyInstants.Draw(t, "inputs"), rapid.Int64Range(1, 30).Draw(t, "idle")
		var each []Interval
		for _, at := range inputs {
			each = append(each, Interval{From: at, To: at + idle})
		}
		got, err := Activity{Idle: time.Duration(idle) * time.Millisecond}.Active(nil, muddle(t, inputs))
		if err != nil {
			t.Fatal(err)
		}
		same(t, "active", got, Union(each))
	})
}

func TestActiveFlagsAreTheCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		flags, idle := anySwitches.Draw(t, "flags"), rapid.Int64Range(1, 30).Draw(t, "idle")
		var want tally
		for at := range int64(span) {
			last, ok := latest(flags, at)
			want[at] = ok && last.On && at-last.At < idle
		}
		got, err := Activity{Idle: time.Duration(idle) * time.Millisecond}.ActiveFlags(nil, muddle(t, flags))
		if err != nil {
			t.Fatal(err)
		}
		same(t, "active", Clip(got, Interval{0, span}), want.set())
	})
}

func TestMeasuresNest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := Measures{
			Connected: Union(anyList.Draw(t, "connected")), Foreground: Union(anyList.Draw(t, "foreground")),
			Active: Union(anyList.Draw(t, "active")),
		}
		c := m.Clip()
		if err := c.Check(); err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		fine := slices.Equal(c.Foreground, m.Foreground) && slices.Equal(c.Active, m.Active)
		if (m.Check() == nil) != fine {
			t.Fatalf("%+v: %v", m, m.Check())
		}
	})
}

// The scenarios have the numbers of the project's list. They play on one morning,
// in minutes after ten.
func minutes(from, to int64) Interval { return Interval{From: from * 60_000, To: to * 60_000} }

func TestScenario42TwoTabs(t *testing.T) {
	sessions := []Interval{minutes(0, 30), minutes(10, 20)}
	if got := Sum(sessions); got != 40*60_000 {
		t.Errorf("sessions %d", got)
	}
	if got := Total(sessions); got != 30*60_000 {
		t.Errorf("user %d", got)
	}
}

func TestScenario46BackgroundStaysConnected(t *testing.T) {
	m := Measures{Connected: []Interval{minutes(0, 30)}}
	m.Foreground = Foreground(nil, []Switch{
		{At: 0, Sequence: 1, On: true}, {At: 10 * 60_000, Sequence: 2}, {At: 20 * 60_000, Sequence: 3, On: true},
	}, 30*60_000)
	if want := []Interval{minutes(0, 10), minutes(20, 30)}; !slices.Equal(m.Foreground, want) || m.Check() != nil {
		t.Errorf("%v, %v", m.Foreground, m.Check())
	}
}

func TestScenario47IdleIsNotWhenItWasNoticed(t *testing.T) {
	rule := Activity{Idle: 5 * time.Minute}
	noticed := int64(9 * 60_000)
	got, err := rule.ActiveFlags(nil, []Switch{{At: 0, On: true}, {At: 60_000, On: true}, {At: noticed}})
	if err != nil || !slices.Equal(got, []Interval{minutes(0, 6)}) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestScenario48ForegroundBeyondConnected(t *testing.T) {
	m := Measures{Connected: []Interval{minutes(0, 10)}, Foreground: []Interval{minutes(5, 11)}}
	if err := m.Check(); !errors.Is(err, ErrForeground) {
		t.Errorf("%v", err)
	}
	m = Measures{Connected: m.Connected, Foreground: []Interval{minutes(0, 4)}, Active: []Interval{minutes(4, 5)}}
	if err := m.Check(); !errors.Is(err, ErrActive) {
		t.Errorf("%v", err)
	}
}

package interval

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// counts is the definition: an instant counts if it lies between two beats that are
// no further apart than the cap, or less than the grace after the last beat before
// it; beats after the close do not exist, and nothing counts from it on.
func counts(g Gaps, beats []int64, closed, at int64) bool {
	before, after := int64(minInt64), int64(maxInt64)
	for _, b := range beats {
		switch {
		case b > closed:
		case b <= at:
			before = max(before, b)
		default:
			after = min(after, b)
		}
	}
	if before == minInt64 || at >= closed {
		return false
	}
	joined := after != maxInt64 && (g.Cap == 0 || after-before <= g.Cap.Milliseconds())
	return joined || at-before < g.Grace.Milliseconds()
}

func online(g Gaps, beats []int64, closed int64) (t tally) {
	for at := range int64(span) {
		t[at] = counts(g, beats, closed, at)
	}
	return t
}

var anyGaps = rapid.Custom(func(t *rapid.T) Gaps {
	cap := rapid.Int64Range(0, 30).Draw(t, "cap")
	most := cap
	if cap == 0 {
		most = 30
	}
	grace := rapid.Int64Range(0, most).Draw(t, "grace")
	return Gaps{Cap: time.Duration(cap) * time.Millisecond, Grace: time.Duration(grace) * time.Millisecond}
})

// anyClose is after everything in a third of all histories.
var anyClose = rapid.OneOf(rapid.Just(int64(span)), rapid.Int64Range(0, span), rapid.Int64Range(span/2, span))

func builder(t interface{ Fatal(...any) }, g Gaps) Builder {
	b, err := NewBuilder(g)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestOnlineIsTheCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, beats, closed := anyGaps.Draw(t, "gaps"), anyInstants.Draw(t, "beats"), anyClose.Draw(t, "close")
		want := online(g, beats, closed).set()
		got, err := g.OnlineUntil(nil, muddle(t, beats), closed)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "online", got, want)
	})
}

// The close comes first, or after everything that it does not cut: then it does not
// matter in which order anything comes.
func TestBuilderIsTheCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, beats, closed := anyGaps.Draw(t, "gaps"), anyInstants.Draw(t, "beats"), anyClose.Draw(t, "close")
		b := builder(t, g)
		first := rapid.Bool().Draw(t, "close first")
		if first && b.Close(closed) != nil {
			t.Fatal("close refused")
		}
		for _, at := range muddle(t, beats) {
			if !first && at > closed {
				continue
			}
			if err := b.Beat(at); (err != nil) != (at > closed) || err != nil && !errors.Is(err, ErrClosed) {
				t.Fatalf("beat at %d, close at %d: %v", at, closed, err)
			}
		}
		if err := b.Close(closed); err != nil {
			t.Fatal(err)
		}
		same(t, "online", b.Intervals(nil), online(g, beats, closed).set())
	})
}

// A close that comes after later beats ends the session where it says, and says so
// where the exact end needs the beats.
func TestLateClose(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, beats, closed := anyGaps.Draw(t, "gaps"), anyInstants.Draw(t, "beats"), anyClose.Draw(t, "close")
		b := builder(t, g)
		for _, at := range beats {
			if err := b.Beat(at); err != nil {
				t.Fatal(err)
			}
		}
		overrun := b.Close(closed)
		exact, got := online(g, beats, closed).set(), b.Intervals(nil)
		if overrun == nil {
			same(t, "online", got, exact)
			return
		}
		if !errors.Is(overrun, ErrOverrun) {
			t.Fatal(overrun)
		}
		more := Subtract(nil, got, exact)
		if len(got) == 0 || got[len(got)-1].To != closed || !Within(exact, got) {
			t.Fatalf("%v, exactly %v, closed at %d", got, exact, closed)
		}
		if g.Cap != 0 && Sum(more) > (g.Cap-g.Grace).Milliseconds() {
			t.Fatalf("%v too much of %v", more, got)
		}
	})
}

// Whatever is settled on the way, all that comes out is what would have come out at
// the end, of the beats that were not refused.
func TestSettle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := anyGaps.Draw(t, "gaps")
		b := builder(t, g)
		var counted []int64
		var got []Interval
		closed, watermark := int64(span), int64(0)
		got = b.Settle(got, watermark)
		for range rapid.IntRange(0, 60).Draw(t, "events") {
			at := min(watermark+rapid.Int64Range(-10, 60).Draw(t, "at"), span-1)
			switch rapid.IntRange(0, 20).Draw(t, "event") {
			case 0, 1, 2:
				watermark = max(watermark, at-30)
				got = b.Settle(got, watermark)
			case 3:
				last, ok := b.Last()
				if ok && last > at {
					continue // TestLateClose's business
				}
				if err := b.Close(at); (err != nil) != (at < watermark && at < closed) {
					t.Fatalf("close at %d, watermark %d: %v", at, watermark, err)
				} else if err == nil {
					closed = min(closed, at)
				}
			default:
				err := b.Beat(at)
				if (err != nil) != (at > closed || at < watermark) {
					t.Fatalf("beat at %d, watermark %d, close %d: %v", at, watermark, closed, err)
				}
				if err == nil {
					counted = append(counted, at)
				}
			}
		}
		got = b.Intervals(got)
		want, _ := g.OnlineUntil(nil, counted, closed)
		same(t, "settled and the rest", got, want)
	})
}

// What the last beat in time can still reach is not settled, be it at the cap or at the
// close.
func TestSettleWaitsForTheLastBeatInTime(t *testing.T) {
	for _, c := range []struct {
		what         string
		closed, last int64
	}{
		{"a beat a cap away", maxInt64, 70_000},
		{"a beat at the close", 20_000, 20_000},
	} {
		b := builder(t, Gaps{Cap: time.Minute})
		if b.Beat(0) != nil || b.Beat(10_000) != nil {
			t.Fatal("refused")
		}
		if err := b.Close(c.closed); err != nil {
			t.Fatal(err)
		}
		got := b.Settle(nil, c.last)
		if len(got) != 0 || b.Beat(c.last) != nil {
			t.Fatalf("%s: settled too early: %v", c.what, got)
		}
		if got = b.Settle(got, c.last+60_001); !slices.Equal(got, []Interval{{0, c.last}}) {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}

func TestScenario41CrashWithoutClose(t *testing.T) {
	b := builder(t, Gaps{Cap: time.Minute, Grace: 30 * time.Second})
	for _, at := range []int64{0, 30_000, 60_000} {
		if err := b.Beat(at); err != nil {
			t.Fatal(err)
		}
	}
	for _, noticed := range []int64{120_001, 10 * hour} {
		session := b
		if got := session.Settle(nil, noticed); !slices.Equal(got, []Interval{{0, 90_000}}) {
			t.Errorf("noticed at %d: %v", noticed, got)
		}
	}
}

func TestScenario43AnHourAway(t *testing.T) {
	beats := []int64{0, 30_000, hour + 30_000, hour + 60_000}
	got, err := Gaps{Cap: time.Minute}.Online(nil, beats)
	if err != nil || !slices.Equal(got, []Interval{{0, 30_000}, {hour + 30_000, hour + 60_000}}) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestScenario45BeatForAClosedSession(t *testing.T) {
	b := builder(t, Gaps{Cap: time.Minute, Grace: 30 * time.Second})
	if b.Beat(0) != nil || b.Close(10_000) != nil {
		t.Fatal("refused")
	}
	if err := b.Beat(20_000); !errors.Is(err, ErrClosed) {
		t.Errorf("counted: %v", err)
	}
	if got := b.Intervals(nil); !slices.Equal(got, []Interval{{0, 10_000}}) {
		t.Errorf("reopened: %v", got)
	}
}

func TestSettledIsForgotten(t *testing.T) {
	b := builder(t, Gaps{Cap: 60 * time.Second, Grace: 30 * time.Second})
	var out []Interval
	for at := int64(0); at < 1000*hour; at += hour {
		if err := b.Beat(at); err != nil {
			t.Fatal(err)
		}
		out = b.Settle(out, at)
	}
	if len(b.runs) != 0 || cap(b.runs) > 4 || len(out) != 999 {
		t.Errorf("%d runs kept, room for %d, %d settled", len(b.runs), cap(b.runs), len(out))
	}
	if err := b.Beat(0); !errors.Is(err, ErrSettled) {
		t.Errorf("a beat in settled time: %v", err)
	}
	if err := b.Close(0); !errors.Is(err, ErrSettled) {
		t.Errorf("a close in settled time: %v", err)
	}
}

const hour int64 = 3_600_000

func TestBeatsDoNotAllocate(t *testing.T) {
	b := builder(t, Gaps{Cap: time.Minute})
	at := int64(0)
	if n := testing.AllocsPerRun(1000, func() {
		at += 30_000
		if b.Beat(at) != nil || b.Beat(at-90_000) != nil {
			t.Fatal("refused")
		}
	}); n != 0 {
		t.Errorf("%v allocations a beat", n)
	}
}

func TestResetForgetsAll(t *testing.T) {
	b := builder(t, Gaps{Cap: time.Second})
	for _, at := range []int64{0, 5000, 9000} {
		if err := b.Beat(at); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Close(9000); err != nil {
		t.Fatal(err)
	}
	b.Settle(nil, 9000)
	b.Reset()
	if _, ok := b.Last(); ok || len(b.Intervals(nil)) != 0 || b.Beat(-1) != nil || b.Beat(900) != nil {
		t.Fatal("something of the last session is left")
	}
	if got := b.Intervals(nil); !slices.Equal(got, []Interval{{-1, 900}}) {
		t.Fatal(got)
	}
}

func TestRulesThatMakeNoSense(t *testing.T) {
	for _, g := range []Gaps{
		{Cap: time.Second, Grace: time.Second + time.Millisecond},
		{Cap: -1}, {Grace: -time.Second}, {Cap: time.Microsecond}, {Cap: time.Second, Grace: 1},
	} {
		if _, err := NewBuilder(g); !errors.Is(err, ErrRule) {
			t.Errorf("%+v: %v", g, err)
		}
		if _, err := g.Online(nil, nil); !errors.Is(err, ErrRule) {
			t.Errorf("%+v: %v", g, err)
		}
	}
	if err := (Gaps{Grace: time.Hour}).Validate(); err != nil {
		t.Errorf("grace without a cap: %v", err)
	}
	for _, idle := range []time.Duration{0, -time.Second, time.Microsecond} {
		if _, err := (Activity{Idle: idle}).Active(nil, nil); !errors.Is(err, ErrRule) {
			t.Errorf("idle %v: %v", idle, err)
		}
		if _, err := (Activity{Idle: idle}).ActiveFlags(nil, nil); !errors.Is(err, ErrRule) {
			t.Errorf("idle %v: %v", idle, err)
		}
	}
}

package fanout

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rollcall-io/rollcall/subjects"
)

var begin = time.Date(2000, 1, 2, 0, 0, 0, 0, time.UTC)

func TestHealth(t *testing.T) {
	at := func(s int) time.Time { return begin.Add(time.Duration(s) * time.Second) }
	type step struct {
		at       int
		pulse    uint64 // generation; 0 for none
		revision uint64 // announced by the pulse, or reached
		want     string // reason, "" is live
	}
	for _, row := range []struct {
		name  string
		steps []step
	}{
		{"no pulse since the start", []step{{14, 0, 0, ""}, {15, 0, 0, ReasonKeeperSilent}, {16, 1, 0, ""}}},
		{"pulses stop", []step{{5, 1, 0, ""}, {19, 0, 0, ""}, {20, 0, 0, ReasonKeeperSilent}}},
		{"an old keeper goes on", []step{{5, 2, 0, ""}, {10, 1, 0, ""}, {19, 1, 0, ""}, {20, 1, 0, ReasonKeeperSilent}}},
		{"read in time", []step{{5, 1, 7, ""}, {10, 1, 7, ""}, {19, 0, 7, ""}, {24, 1, 7, ""}, {30, 1, 7, ""}}},
		{"read too late", []step{{5, 1, 7, ""}, {10, 1, 7, ""}, {19, 0, 6, ""}, {20, 1, 7, ReasonFeedBehind}, {21, 0, 7, ""}}},
		{"each announcement has its own time", []step{{5, 1, 7, ""}, {15, 1, 9, ""}, {19, 0, 7, ""}, {29, 1, 9, ""}, {30, 1, 9, ReasonFeedBehind}}},
		{"a new keeper forgets what the old one announced", []step{{5, 1, 7, ""}, {19, 2, 0, ""}, {25, 2, 0, ""}}},
		{"read before it is announced", []step{{1, 0, 9, ""}, {5, 1, 9, ""}, {18, 1, 9, ""}, {30, 1, 9, ""}}},
	} {
		t.Run(row.name, func(t *testing.T) {
			h := newHealth(15*time.Second, begin)
			for _, s := range row.steps {
				if s.pulse > 0 {
					h.pulse(s.pulse, s.revision, at(s.at))
				} else {
					h.reach(s.revision, at(s.at))
				}
				feed, reason := h.state(at(s.at))
				if reason != s.want || (feed == subjects.FeedLive) != (reason == "") {
					t.Fatalf("at %d: %s %q, want %q", s.at, feed, reason, s.want)
				}
			}
		})
	}
}

func TestHealthChangesByItselfOnlyWhenItSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := begin
		h := newHealth(15*time.Second, now)
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			revision := rapid.Uint64Range(0, 20).Draw(t, "revision")
			if rapid.Bool().Draw(t, "pulse") {
				h.pulse(rapid.Uint64Range(1, 2).Draw(t, "generation"), revision, now)
			} else {
				h.reach(revision, now)
			}
			_, before := h.state(now)
			next, then := h.next(now), now.Add(time.Duration(rapid.IntRange(1, 20_000).Draw(t, "ms"))*time.Millisecond)
			if _, after := h.state(then); after != before && (next.IsZero() || next.After(then)) {
				t.Fatalf("from %q to %q, but next is %v", before, after, next)
			}
			now = then
		}
	})
}

func TestBucket(t *testing.T) {
	var b bucket
	now := begin
	for i := range bucketBurst {
		if !b.ready(now).Equal(now) {
			t.Fatalf("no token %d of the burst", i)
		}
		b.take(now)
	}
	// After the burst, two a second, however long it goes on.
	sent := 0
	for end := now.Add(time.Minute); ; sent++ {
		now = b.ready(now)
		if now.After(end) {
			break
		}
		b.take(now)
	}
	if sent < 119 || sent > 121 {
		t.Errorf("%d messages in a minute", sent)
	}
	now = now.Add(time.Hour)
	if b.take(now); !b.ready(now).Equal(now) || b.used > 1 {
		t.Errorf("not full after an hour: %+v", b)
	}
}

func TestAgenda(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a agenda
		tasks := make([]task, 8)
		due := make(map[*task]time.Time)
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			k := &tasks[rapid.IntRange(0, 7).Draw(t, "task")]
			at := begin.Add(time.Duration(rapid.IntRange(0, 100).Draw(t, "at")))
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				a.set(k, at)
				due[k] = at
			case 1:
				a.set(k, time.Time{})
				delete(due, k)
			default:
				if got := a.pop(at); got != nil {
					if !due[got].Equal(got.at) || got.at.After(at) {
						t.Fatalf("popped %v, due %v", got.at, due[got])
					}
					delete(due, got)
				} else {
					for _, d := range due {
						if !d.After(at) {
							t.Fatalf("%v is due at %v", d, at)
						}
					}
				}
			}
			if len(a.queue) != len(due) {
				t.Fatalf("%d on the agenda, %d due", len(a.queue), len(due))
			}
		}
	})
}

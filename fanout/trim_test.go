package fanout

import (
	"testing"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
)

func TestTrim(t *testing.T) {
	at := func(h, m, s int) rollcall.Micros {
		return rollcall.MicrosOf(time.Date(2026, 5, 1, h, m, s, 123456000, time.UTC))
	}
	minute := func(m rollcall.Micros) subjects.Minute { return subjects.MinuteOf(m) }
	now := at(12, 0, 0)
	online := View{State: rollcall.Idle, Activity: "lesson", Observed: at(11, 58, 59), Seen: at(9, 0, 0)}
	offline := View{State: rollcall.Offline, Activity: "lesson", Observed: at(11, 59, 59), Seen: at(11, 57, 30)}
	seenAgo := func(d time.Duration) View { return View{Observed: now, Seen: now.Add(-d)} }
	for _, row := range []struct {
		name    string
		view    View
		g       rollcall.Granularity
		want    subjects.View
		visible bool
	}{
		{"exact online", online, rollcall.Exact, subjects.View{
			Status: rollcall.StatusOnline, State: "idle", Activity: "lesson", ObservedAtMinute: minute(at(11, 58, 0)),
		}, true},
		{"exact offline", offline, rollcall.Exact, subjects.View{
			Status: rollcall.StatusOffline, ObservedAtMinute: minute(at(11, 59, 0)), LastSeenMinute: minute(at(11, 57, 0)),
		}, true},
		{"exact, never seen", View{}, rollcall.Exact, subjects.View{Status: rollcall.StatusOffline}, true},
		{"exact active", View{State: rollcall.Active}, rollcall.Exact, subjects.View{Status: rollcall.StatusOnline, State: "active"}, true},
		{"exact background", View{State: rollcall.Background}, rollcall.Exact, subjects.View{Status: rollcall.StatusOnline, State: "background"}, true},
		{"coarse online", online, rollcall.Coarse, subjects.View{Status: rollcall.StatusOnline}, true},
		{"coarse, just left", offline, rollcall.Coarse, subjects.View{Status: rollcall.StatusRecently}, true},
		{"coarse, a day ago", seenAgo(86_400 * time.Second), rollcall.Coarse, subjects.View{Status: rollcall.StatusRecently}, true},
		{"coarse, just above a day", seenAgo(86_400*time.Second + time.Microsecond), rollcall.Coarse, subjects.View{Status: rollcall.StatusLongAgo}, true},
		{"coarse, clock behind", seenAgo(-time.Hour), rollcall.Coarse, subjects.View{Status: rollcall.StatusRecently}, true},
		{"coarse, never seen", View{}, rollcall.Coarse, subjects.View{Status: rollcall.StatusLongAgo}, true},
		{"hidden online", online, rollcall.Hidden, subjects.View{Status: rollcall.StatusUnknown}, true},
		{"hidden offline", offline, rollcall.Hidden, subjects.View{Status: rollcall.StatusUnknown}, true},
		{"absent", online, rollcall.Absent, subjects.View{}, false},
		{"a granularity of the future", online, rollcall.Exact + 1, subjects.View{}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			view, visible := Trim(row.view, row.g, now)
			if view != row.want || visible != row.visible {
				t.Errorf("got %+v, %v, want %+v, %v", view, visible, row.want, row.visible)
			}
		})
	}
}

func TestRecentlyEndsOnAMinute(t *testing.T) {
	seen := rollcall.MicrosOf(time.Date(2026, 5, 1, 12, 34, 56, 789, time.UTC))
	v := View{Seen: seen}
	want := rollcall.MicrosOf(time.Date(2026, 5, 2, 12, 35, 0, 0, time.UTC))
	if got := staleAt(v, seen); got != want {
		t.Fatalf("ends at %v", got.Time())
	}
	before, after := trim(v, rollcall.Coarse, want-1-(want-1)%60e6), trim(v, rollcall.Coarse, want)
	if before.status != codeRecently || after.status != codeLongAgo {
		t.Errorf("%v, then %v", before, after)
	}
	if got := staleAt(v, want); got != 0 {
		t.Errorf("ends again at %v", got.Time())
	}
}

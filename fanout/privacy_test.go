package fanout_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/fanout"
	"github.com/rollcall-io/rollcall/fanout/internal/stage"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/subjects"
)

// decide is an application that decides for one viewer and target at a time.
func decide(one func(viewer, target string) rollcall.Granularity) fanout.Sights {
	return fanout.SightsFunc(func(_ context.Context, viewer string, targets []string) ([]rollcall.Granularity, error) {
		var all []rollcall.Granularity
		for _, t := range targets {
			all = append(all, one(viewer, t))
		}
		return all, nil
	})
}

func TestEachViewerSeesItsOwnKindOnly(t *testing.T) { // scenarios 31, 32, 35
	lab.Bubble(t, func(t *testing.T) {
		s := stage.New(t, 1)
		s.Set("bob", rollcall.Active)
		granularities := map[string]rollcall.Granularity{"exact": rollcall.Exact, "coarse": rollcall.Coarse, "hidden": rollcall.Hidden}
		s.Start(fanout.Config{Sights: decide(func(viewer, _ string) rollcall.Granularity { return granularities[viewer] })})
		exact, coarse, hidden, blocked := newRaw(s, "exact"), newRaw(s, "coarse"), newRaw(s, "hidden"), newRaw(s, "blocked")
		first := map[string]rollcall.Status{}
		for _, v := range []*raw{exact, coarse, hidden, blocked} {
			first[v.id] = views(v.do(subjects.OpSubscribe, "bob"))["bob"].Status
		}
		if first["exact"] != "online" || first["coarse"] != "online" || first["hidden"] != "unknown" || first["blocked"] != "" {
			t.Fatalf("snapshots %v", first)
		}
		changes := func(v *raw) (all []subjects.View) {
			for _, m := range v.heard() {
				all = append(all, m.Changes...)
			}
			return all
		}
		s.Set("bob", rollcall.Idle)
		time.Sleep(100 * time.Second)
		for _, v := range []*raw{exact, coarse, hidden, blocked} {
			v.do(subjects.OpRefresh)
		}
		s.Set("bob", rollcall.Offline)
		time.Sleep(time.Minute)
		s.Set("bob", rollcall.Offline) // only the minute changes
		time.Sleep(time.Second)
		if got := changes(exact); len(got) != 3 || got[0].State != "idle" || got[1].LastSeenMinute.IsZero() || got[2].LastSeenMinute <= got[1].LastSeenMinute {
			t.Errorf("exact heard %+v", got)
		}
		if got := changes(coarse); len(got) != 1 || got[0].Status != rollcall.StatusRecently || !got[0].ObservedAtMinute.IsZero() || !got[0].LastSeenMinute.IsZero() {
			t.Errorf("coarse heard %+v", got)
		}
		for _, v := range []*raw{hidden, blocked} {
			if got := v.heard(); len(got) != 0 {
				t.Errorf("%s heard %+v", v.id, got)
			}
		}
		// A day later, on the minute.
		for range 24 * 60 {
			coarse.do(subjects.OpRefresh)
			time.Sleep(time.Minute)
		}
		time.Sleep(100 * time.Second)
		if got := changes(coarse); len(got) != 1 || got[0].Status != rollcall.StatusLongAgo {
			t.Errorf("a day later coarse heard %+v", got)
		}
	})
}

func TestABlockLooksLikeAUserWhoNeverExisted(t *testing.T) { // scenarios 30, 34
	lab.Bubble(t, func(t *testing.T) {
		s := stage.New(t, 2)
		s.PutAll([]string{"blocked-1", "blocked-2", "friend"}, rollcall.Active)
		s.Start(fanout.Config{Sights: decide(func(_, target string) rollcall.Granularity {
			if strings.HasPrefix(target, "blocked") {
				return rollcall.Absent
			}
			return rollcall.Exact
		})})
		one, other := newRaw(s, "one"), newRaw(s, "two")
		same := func(op subjects.Op, a, b []string) {
			t.Helper()
			x, _ := json.Marshal(one.do(op, a...))
			y, _ := json.Marshal(other.do(op, b...))
			if string(x) != string(y) {
				t.Errorf("%s\n%s\n%s", op, x, y)
			}
		}
		// nobody-N never existed and lies in the same shard as blocked-N.
		ghosts := []string{}
		for _, blocked := range []string{"blocked-1", "blocked-2"} {
			for i := 0; ; i++ {
				if ghost := blocked + strings.Repeat("x", i+1); s.Fabric.Shard(ghost) == s.Fabric.Shard(blocked) {
					ghosts = append(ghosts, strings.Replace(ghost, "blocked", "blocked", 1))
					break
				}
			}
		}
		real := []string{"blocked-1", "friend", "blocked-2"}
		never := []string{ghosts[0], "friend", ghosts[1]}
		same(subjects.OpGet, real, never)
		same(subjects.OpSubscribe, real, never)
		same(subjects.OpRefresh, nil, nil)
		s.PutAll([]string{"blocked-1", "blocked-2"}, rollcall.Offline)
		s.Set("friend", rollcall.Offline)
		time.Sleep(5 * time.Second)
		x, _ := json.Marshal(one.heard())
		y, _ := json.Marshal(other.heard())
		if string(x) != string(y) {
			t.Errorf("events\n%s\n%s", x, y)
		}
		same(subjects.OpUnsubscribe, real, never)
	})
}

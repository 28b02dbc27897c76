package fanout_test

import (
	"testing"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/fanout"
	"github.com/rollcall-io/rollcall/fanout/internal/stage"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/subjects"
)

func TestFiveThousandLeaveAtOnce(t *testing.T) { // scenario 36
	lab.Bubble(t, func(t *testing.T) {
		s := stage.New(t, 1)
		all := users(5000)
		s.PutAll(all, rollcall.Active)
		s.Start(fanout.Config{})
		v := newRaw(s, "alice")
		var watched []string
		for i := 0; i < len(all); i += 25 {
			watched = append(watched, all[i])
		}
		v.do(subjects.OpSubscribe, watched...)
		s.PutAll(all, rollcall.Offline)
		time.Sleep(time.Second)
		messages := v.heard()
		offline := map[string]bool{}
		for _, m := range messages {
			for _, c := range m.Changes {
				if offline[c.Target] || c.Status != rollcall.StatusOffline {
					t.Errorf("told %+v", c)
				}
				offline[c.Target] = true
			}
		}
		if len(offline) != 200 || len(messages) > 5 {
			t.Errorf("%d of 200 changes in %d messages", len(offline), len(messages))
		}
		t.Logf("%d changes in %d messages", len(offline), len(messages))
	})
}

func TestAFlapperIsBounded(t *testing.T) { // scenario 38
	lab.Bubble(t, func(t *testing.T) {
		s := stage.New(t, 1)
		s.Set("bob", rollcall.Offline)
		s.Start(fanout.Config{})
		v := newRaw(s, "alice")
		v.do(subjects.OpSubscribe, "bob")
		const seconds, perSecond = 600, 5
		for i := range seconds * perSecond {
			s.Set("bob", []rollcall.State{rollcall.Active, rollcall.Offline}[i%2])
			if i%100 == 0 {
				v.do(subjects.OpRefresh)
			}
			time.Sleep(time.Second / perSecond)
		}
		s.Set("bob", rollcall.Idle)
		time.Sleep(time.Second)
		messages := v.heard()
		if limit := 20 + 2*(seconds+1); len(messages) > limit {
			t.Errorf("%d messages, the bound is %d", len(messages), limit)
		}
		last := messages[len(messages)-1].Changes
		if len(last) != 1 || last[0].State != "idle" {
			t.Errorf("last heard %+v", last)
		}
		for i, m := range messages {
			if m.Seq != uint64(i+1) {
				t.Fatalf("message %d has seq %d", i, m.Seq)
			}
		}
	})
}

func TestAChangeThatIsTakenBackIsNotTold(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := stage.New(t, 1)
		s.PutAll([]string{"bob", "carol"}, rollcall.Active)
		s.Start(fanout.Config{})
		v := newRaw(s, "alice")
		v.do(subjects.OpSubscribe, "bob", "carol")
		s.Set("carol", rollcall.Idle) // the leading edge
		time.Sleep(10 * time.Millisecond)
		s.Set("bob", rollcall.Idle)
		time.Sleep(10 * time.Millisecond)
		s.Set("bob", rollcall.Active)
		time.Sleep(time.Second)
		if got := v.heard(); len(got) != 1 || len(got[0].Changes) != 1 || got[0].Changes[0].Target != "carol" {
			t.Errorf("heard %+v", got)
		}
	})
}

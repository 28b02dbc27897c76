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

func TestSubscribeThenChange(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := stage.New(t, 2)
		s.Set("bob", rollcall.Active)
		s.Start(fanout.Config{})
		v := newRaw(s, "alice")
		seen := views(v.do(subjects.OpSubscribe, "bob", "nobody", "bob"))
		if len(seen) != 1 || seen["bob"].Status != rollcall.StatusOnline || seen["bob"].State != "active" {
			t.Fatalf("snapshot %+v", seen)
		}
		s.Set("bob", rollcall.Offline)
		time.Sleep(time.Second)
		heard := v.heard()
		if len(heard) != 1 || len(heard[0].Changes) != 1 {
			t.Fatalf("heard %+v", heard)
		}
		event := heard[0].Changes[0]
		if event.Status != rollcall.StatusOffline || event.Version <= seen["bob"].Version || event.LastSeenMinute == 0 {
			t.Errorf("event %+v after %+v", event, seen["bob"])
		}
		time.Sleep(5 * time.Second)
		if heard := v.heard(); len(heard) != 1 || heard[0].Seq != 1 || len(heard[0].Changes) != 0 {
			t.Errorf("confirmation %+v", heard)
		}
	})
}

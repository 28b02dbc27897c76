package fanout_test

import (
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/fanout"
	"github.com/rollcall-io/rollcall/fanout/internal/stage"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/subjects"
)

func TestAnUnreadableOwnerRecordStopsNobody(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := stage.New(t, 1)
		kv, err := s.JS.KeyValue(t.Context(), s.Fabric.InterestBucket(0))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := kv.Put(t.Context(), subjects.KeyOwner, []byte{0xff}); err != nil {
			t.Fatal(err)
		}
		s.Set("bob", rollcall.Active)
		s.Start(fanout.Config{})
		if seen := views(newRaw(s, "alice").do(subjects.OpSubscribe, "bob")); len(seen) != 1 {
			t.Errorf("snapshot %+v", seen)
		}
	})
}

func TestADefectOfTheApplicationShowsNothingToOneRequestOnly(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := stage.New(t, 1)
		s.Set("bad", rollcall.Active)
		s.Set("bob", rollcall.Active)
		s.Start(fanout.Config{Sights: decide(func(_, target string) rollcall.Granularity {
			if target == "bad" {
				panic("defect")
			}
			return rollcall.Exact
		})})
		v := newRaw(s, "alice")
		for _, op := range []subjects.Op{subjects.OpGet, subjects.OpSubscribe} {
			if got := views(v.do(op, "bad"))["bad"].Status; got != rollcall.StatusUnknown {
				t.Errorf("%s: %q", op, got)
			}
		}
		if seen := views(v.do(subjects.OpSubscribe, "bob")); seen["bob"].Status != rollcall.StatusOnline {
			t.Errorf("snapshot %+v", seen)
		}
		s.Set("bob", rollcall.Offline)
		time.Sleep(time.Second)
		if heard := v.heard(); len(heard) != 1 {
			t.Errorf("heard %+v", heard)
		}
	})
}

func TestAStartThatFailsLeavesNothingBehind(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := stage.New(t, 1)
		link := s.Server.NewLink()
		nc := lab.Connect(t, link)
		f, err := fanout.New(nc, fanout.Config{})
		if err != nil {
			t.Fatal(err)
		}
		link.Delay(500 * time.Millisecond)
		ended := make(chan error, 1)
		go func() { ended <- f.Run(t.Context()) }()
		time.Sleep(1200 * time.Millisecond) // the fabric is found, the service is not known yet
		link.Freeze()
		nc.Close()
		if err := <-ended; err == nil {
			t.Error("it runs without a connection")
		}
		synctest.Wait()
		stacks := make([]byte, 1<<20)
		if stacks = stacks[:runtime.Stack(stacks, true)]; strings.Contains(string(stacks), "(*Fanout).work") {
			t.Errorf("still running:\n%s", stacks)
		}
	})
}

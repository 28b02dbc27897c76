package fanout_test

import (
	"testing"

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

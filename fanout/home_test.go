package fanout_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/fanout"
	"github.com/rollcall-io/rollcall/fanout/internal/stage"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// A fanout that others know of is gone, or hangs. Whoever asked and has their home there is
// answered all the same: at once, or after a moment that only the first must wait.
func TestRequestsWhoseHomeDoesNotTakeThem(t *testing.T) {
	for what, tc := range map[string]struct {
		listens bool
		first   time.Duration
	}{"gone": {false, 0}, "hanging": {true, 500 * time.Millisecond}} {
		t.Run(what, func(t *testing.T) {
			lab.Bubble(t, func(t *testing.T) {
				s := stage.New(t, 2)
				s.PutAll(users(4), rollcall.Active)
				s.StartSeveral(1, fanout.Config{})
				peer := lab.Connect(t, s.Server.NewLink())
				var relayed atomic.Int32
				if tc.listens {
					if _, err := peer.Subscribe("presence.peer.zoe.>", func(*nats.Msg) { relayed.Add(1) }); err != nil {
						t.Fatal(err)
					}
				}
				say := func() {
					data, err := subjects.Encode(&wire.PeerState{Id: "zoe"})
					if err == nil {
						err = peer.Publish(s.Fabric.Peers(), data)
					}
					if err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Second)
				}
				for round := range 2 { // it is asked again after it was heard again
					say()
					var waited []time.Duration
					for i := range 20 {
						v := newRaw(s, fmt.Sprint("viewer", i))
						began := time.Now()
						if got := views(v.do(subjects.OpSubscribe, users(4)...)); len(got) != 4 {
							t.Errorf("%s sees %v", v.id, got)
						}
						if took := time.Since(began); took > 10*time.Millisecond {
							waited = append(waited, took)
						}
					}
					if tc.listens && (len(waited) != 1 || waited[0] > tc.first+10*time.Millisecond || relayed.Load() != int32(round+1)) ||
						!tc.listens && len(waited) > 0 {
						t.Errorf("round %d: waited %v, %d requests relayed", round, waited, relayed.Load())
					}
				}
			})
		})
	}
}

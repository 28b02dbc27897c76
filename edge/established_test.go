package edge

import (
	"testing"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/internal/lab"
)

// What a front door tells a device before the store has answered is what the store
// then says.
func TestTimesBeforeTheStoreHasAnswered(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		params := rollcall.Tight()
		w := newWorld(t, 1, params)
		e := w.start(Config{})
		time.Sleep(time.Minute)
		if e.Params() != params {
			t.Errorf("params %+v", e.Params())
		}
		e.cable.pull()
		e.connect("bob", "phone") // in the frame that cannot be sent; the next one waits for it
		time.Sleep(time.Second)
		connected := rollcall.MicrosOf(time.Now())
		c := e.connect("ann", "phone")
		time.Sleep(time.Second)
		if now, ok := e.StoreTime(); !ok || now.Sub(rollcall.MicrosOf(time.Now())).Abs() > time.Millisecond {
			t.Errorf("store time %v, %v", now.Time(), ok)
		}
		early := c.Established()
		if c.Epoch() != 0 || early.Sub(connected).Abs() > time.Millisecond {
			t.Errorf("established %v, epoch %v", early.Time(), c.Epoch())
		}
		e.cable.plug()
		time.Sleep(5 * time.Minute)
		if c.Epoch() == 0 || c.Established() != c.Epoch() || c.Epoch().Sub(early).Abs() > time.Millisecond {
			t.Errorf("epoch %v, established %v, before %v", c.Epoch(), c.Established(), early)
		}
	})
}

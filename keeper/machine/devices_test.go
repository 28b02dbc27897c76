package machine

import (
	"fmt"
	"testing"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// An app takes a new device id at every start: the user's record stays small, and
// the devices that left last are still known.
func TestDevicesThatAreGoneAreForgotten(t *testing.T) {
	w := newWorld(t, rollcall.Default())
	g := w.edge("g1")
	g.open("ann", "tv", active)
	for i := range 200 {
		w.to(float64(i + 1))
		g.close(g.open("ann", fmt.Sprintf("tab%d", i), active), wire.Reason_REASON_CLOSED)
	}
	endpoints := w.store.Users["ann"].Endpoints
	if len(endpoints) != 1+keptDevices {
		t.Errorf("the record holds %d devices, want the live one and %d", len(endpoints), keptDevices)
	}
	for i, ep := range endpoints[1:] {
		if want := fmt.Sprintf("tab%d", 200-keptDevices+i); ep.Device != want {
			t.Errorf("device %d is %s, want %s", i, ep.Device, want)
		}
	}
	mustSee(t, w, "ann", "active@0")
}

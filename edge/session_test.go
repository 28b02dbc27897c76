package edge

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// The ledger hears of session and client when a connection opens and in every roster,
// and changes of state leave them alone.
func TestSessionIsTold(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		w := newWorld(t, 1, rollcall.Default())
		e := w.start(Config{ID: "g1"})
		session := Session{ID: "tab-1", Client: Client{Type: "web", Version: "2.1", Channel: "store", Region: "eu"}}
		c, err := e.ConnectSession("ada", "laptop", State{}, session)
		w.must(err)
		if c.User() != "ada" || c.Device() != "laptop" {
			t.Errorf("the connection is of %q/%q", c.User(), c.Device())
		}
		time.Sleep(time.Second)
		w.must(c.SetState(State{Foreground: true}))
		time.Sleep(time.Second)
		e.pipelines[0].resync()
		time.Sleep(time.Second)
		e.connect("ada", "phone")
		synctest.Wait()
		told := 0
		for _, entry := range w.said(0, "g1") {
			switch o := entry.Origin; {
			case entry.Kind == wire.Kind_KIND_STATE || entry.Device == "phone":
				if o != nil {
					t.Errorf("%v tells %v", entry.Kind, o)
				}
			case entry.Kind == wire.Kind_KIND_OPEN || entry.Kind == wire.Kind_KIND_ROSTER:
				told++
				if o.GetSession() != "tab-1" || o.ClientType != "web" || o.ClientVersion != "2.1" || o.Channel != "store" || o.Region != "eu" {
					t.Errorf("%v tells %v", entry.Kind, o)
				}
			}
		}
		if told != 2 {
			t.Errorf("told %d times", told)
		}
	})
}

func TestSessionIsChecked(t *testing.T) {
	n := loose(t, 1)
	if _, err := n.ConnectSession("ada", "phone", State{}, Session{ID: strings.Repeat("x", rollcall.MaxID+1)}); !errors.Is(err, rollcall.ErrID) {
		t.Errorf("a long session: %v", err)
	}
	if _, err := n.ConnectSession("ada", "phone", State{}, Session{Client: Client{Region: strings.Repeat("x", 65)}}); !errors.Is(err, ErrState) {
		t.Errorf("a long region: %v", err)
	}
}

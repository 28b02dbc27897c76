package fanout

import (
	"fmt"
	"time"
	"unique"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/internal/feed"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// A change is one record of the views bucket. A nil View says that the user is
// gone, as if it had never existed.
type change struct {
	user string
	view *View
}

// readRecord reads a message of the views bucket; ok is false for a key that holds
// no user's state.
func readRecord(bucket string, m feed.Msg) (c change, ok bool, err error) {
	key := subjects.KVKey(bucket, m.Subject)
	_, user, err := subjects.ParseKey(key)
	if err != nil || key != subjects.KeyView(user) {
		return change{}, false, nil
	}
	if subjects.KVGone(m.Header) {
		return change{user: user}, true, nil
	}
	v, err := decodeView(m.Data)
	if err != nil {
		return change{}, false, fmt.Errorf("fanout: record %s: %w", m.Subject, err)
	}
	return change{user, &v}, true, nil
}

// latest is the first instant whose year does not fit RFC 3339.
var latest = rollcall.MicrosOf(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC))

// decodeView reads a record and refuses what could not be said to a viewer.
func decodeView(b []byte) (View, error) {
	var w wire.View
	if err := subjects.Decode(b, &w); err != nil {
		return View{}, err
	}
	if w.State < 0 || w.State > wire.State_STATE_ACTIVE {
		return View{}, fmt.Errorf("%w: state %d", subjects.ErrMalformed, w.State)
	}
	if len(w.Activity) > subjects.MaxActivity {
		return View{}, fmt.Errorf("%w: activity of %d bytes", subjects.ErrMalformed, len(w.Activity))
	}
	v := View{
		State: rollcall.State(w.State), Observed: rollcall.Micros(w.Observed), Seen: rollcall.Micros(w.Seen),
		// There are few labels and many users.
		Activity: unique.Make(w.Activity).Value(),
	}
	for _, m := range []rollcall.Micros{v.Observed, v.Seen} {
		if m < 0 || m >= latest {
			return View{}, fmt.Errorf("%w: instant %d", subjects.ErrMalformed, m)
		}
	}
	return v, nil
}

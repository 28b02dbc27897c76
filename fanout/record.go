package fanout

import (
	"fmt"
	"slices"
	"time"
	"unique"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/internal/feed"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// A change is one record of the views bucket. Of the values only that of its kind
// counts; nil says that the record is gone, as if it had never existed.
type change struct {
	user   string
	kind   string // subjects.KindView, KindPolicy or KindGroups
	view   *View
	policy *[]byte
	groups *[]string
	header nats.Header // of the record
}

func viewOf(user string, v *View) change {
	return change{user: user, kind: subjects.KindView, view: v}
}

// readRecord reads a message of the views bucket; ok is false for what changes
// nothing: a key that says nothing about a user, or a view that cannot be read. A
// policy that cannot be read shows the user to nobody, groups that cannot be read are
// none: damage must not show more.
func readRecord(bucket string, m feed.Msg) (c change, ok bool, err error) {
	c.kind, c.user, err = subjects.ParseKey(subjects.KVKey(bucket, m.Subject))
	if err != nil || c.user == "" {
		return change{}, false, nil
	}
	gone := subjects.KVGone(m.Header)
	switch c.kind {
	case subjects.KindView:
		if !gone {
			var v View
			v, err = decodeView(m.Data)
			c.view = &v
		}
	case subjects.KindPolicy:
		if !gone {
			c.policy = &m.Data
			if _, err = decodePolicy(m.Data); err != nil {
				c.policy = &closed
			}
		}
	case subjects.KindGroups:
		if !gone {
			var groups []string
			if groups, err = decodeGroups(m.Data); err == nil {
				c.groups = &groups
			}
		}
	default:
		return change{}, false, nil
	}
	if err != nil {
		return c, c.kind != subjects.KindView, fmt.Errorf("fanout: record %s: %w", m.Subject, err)
	}
	return c, true, nil
}

// closed is the record of a policy that shows the user to nobody else.
var closed = func() []byte {
	const absent = wire.Granularity_GRANULARITY_ABSENT
	data, err := subjects.Encode(&wire.Policy{Contact: absent, Member: absent, Everyone: absent})
	if err != nil {
		panic(err) // it is always the same
	}
	return data
}()

func decodeGroups(b []byte) ([]string, error) {
	var w wire.Groups
	if err := subjects.Decode(b, &w); err != nil {
		return nil, err
	}
	if len(w.Groups) > subjects.MaxGroups || !slices.IsSorted(w.Groups) {
		return nil, fmt.Errorf("%w: groups", subjects.ErrMalformed)
	}
	for i, g := range w.Groups {
		w.Groups[i] = unique.Make(g).Value() // there are few groups and many members
	}
	return w.Groups, nil
}

// latest is the first instant whose year does not fit RFC 3339.
var latest = rollcall.MicrosOf(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC))

// decodeView reads a record and refuses what could not be said to a viewer.
func decodeView(b []byte) (View, error) {
	var w wire.View
	if err := subjects.Decode(b, &w); err != nil {
		return View{}, err
	}
	return checkView(&w)
}

func checkView(w *wire.View) (View, error) {
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

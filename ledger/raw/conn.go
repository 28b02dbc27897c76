package raw

import (
	"strconv"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/session"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// Conn is a connection as the log tells it.
type Conn struct {
	User, Device, Session string
	Epoch                 int64
	Client                ledger.Client
	// Handle is the sink's, and so is Mark.
	Handle session.Handle
	Bound  bool // whether Handle is set
	Mark   uint64

	named  bool // the application named the session
	state  wire.State
	ended  bool
	last   int64  // store time of the last message about it
	input  int64  // when the user was last said to be active
	listed uint64 // the newest roster that lists it
}

// SessionID is the session of a connection that the application gave none.
func SessionID(edge string, incarnation, conn uint64) string {
	return edge + "." + strconv.FormatUint(incarnation, 36) + "." + strconv.FormatUint(conn, 36)
}

// Event is what happened on the connection.
func (c *Conn) Event(kind ledger.Kind, at int64) ledger.Event {
	return ledger.Event{
		At: at, User: c.User, Device: c.Device, Session: c.Session, Epoch: c.Epoch, Kind: kind, Client: c.Client,
	}
}

// Beat is a heartbeat with its flags.
func (c *Conn) Beat(at int64, flags uint8) ledger.Event {
	e := c.Event(ledger.KindBeat, at)
	e.Stated, e.Foreground, e.Active = true, flags&subjects.FlagForeground != 0, flags&subjects.FlagActive != 0
	return e
}

// stated is an event with the state that the device is in from then on.
func (c *Conn) stated(kind ledger.Kind, at int64, state wire.State, activity string) ledger.Event {
	e := c.Event(kind, at)
	e.Stated, e.Activity = true, activity
	e.Foreground, e.Active = state >= wire.State_STATE_IDLE, state == wire.State_STATE_ACTIVE
	return e
}

// A Glance is what is known of a connection at the moment.
type Glance struct {
	User string
	Open bool // its edge holds it, as far as it has said
	// Heard is when its edge last stored anything, and Input when the user was last said to
	// be active, 0 if never; in ms.
	Heard, Input int64
}

// kindOf a change of state.
func kindOf(before, now wire.State) ledger.Kind {
	switch {
	case now <= wire.State_STATE_BACKGROUND:
		return ledger.KindBackground
	case before <= wire.State_STATE_BACKGROUND:
		return ledger.KindForeground
	case now == wire.State_STATE_ACTIVE:
		return ledger.KindActive
	}
	return ledger.KindIdle
}

// ending is how the ledger sees the end of a connection. One whose edge shut down
// ended when the edge closed it, and so did one that was replaced, unless its session
// goes on: then what the edge found out, and when, says nothing.
func (c *Conn) ending(r wire.Reason) ledger.Kind {
	switch {
	case r == wire.Reason_REASON_PING_TIMEOUT, r == wire.Reason_REASON_REPLACED && c.named:
		return ledger.KindTimeout
	case r == wire.Reason_REASON_LOGOUT:
		return ledger.KindLogout
	}
	return ledger.KindClose
}

// heed notes that the user was active.
func (c *Conn) heed(at int64, active bool) {
	if active && at > c.input {
		c.input = at
	}
}

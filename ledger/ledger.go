package ledger

import (
	"cmp"
	"strings"
	"time"

	"github.com/rollcall-io/rollcall/ledger/interval"
)

// Kind is what an event says.
type Kind uint8

// The kinds of events.
const (
	KindOpen       Kind = iota + 1 // a session starts, or goes on after a reconnect with a higher epoch
	KindBeat                       // a heartbeat
	KindForeground                 // the app came to the foreground
	KindBackground                 // it left it
	KindActive                     // the user did something
	KindIdle                       // the device says that the user does nothing
	KindClose                      // the device said goodbye
	KindTimeout                    // the server gave the device up
	KindLogout                     // the user logged out
)

// Event is one raw event. Events come in any order and more than once; epoch and
// sequence tell the same event of a session.
type Event struct {
	At       int64 // ms since the Unix epoch, by the store's clock
	User     string
	Device   string
	Session  string
	Epoch    int64  // of the connection: a reconnect of the same session has a higher one
	Sequence uint64 // within the epoch; 0 if the source has none
	Kind     Kind
	// Activity is the application's label that holds from here on, for its own
	// measures; empty for none.
	Activity string
	// Stated says that Foreground and Active are the device's word, as of every event
	// of an edge. Without it, as in most histories from elsewhere, only the kind speaks,
	// and a heartbeat says nothing but that the device lives.
	Stated             bool
	Foreground, Active bool
	Client             Client
}

// Client is what a session runs on.
type Client struct{ Type, Version, Channel, Region string }

// Measure is what is counted: one of those below, or a label of the application.
type Measure string

// The measures that every fabric has; each contains the next.
const (
	Connected  Measure = "connected"
	Foreground Measure = "foreground"
	Active     Measure = "active"
)

// A SessionKey names a session. The id may be the application's, so it means something
// only on one device of one user: the same id of another user, or on another device, is
// another session.
type SessionKey struct{ User, Device, ID string }

// Compare orders by user, then device, then id.
func (k SessionKey) Compare(other SessionKey) int {
	return cmp.Or(strings.Compare(k.User, other.User), strings.Compare(k.Device, other.Device), strings.Compare(k.ID, other.ID))
}

// Key names the session.
func (s Session) Key() SessionKey { return SessionKey{s.User, s.Device, s.ID} }

// Session is a session as a definition sees it. Under one definition the same events
// make the same session, whatever their order.
type Session struct {
	ID, User, Device string
	Client           Client
	Epoch            int64 // the newest
	Start, End       int64 // ms; the end of an open session is that of what is known
	// Ended is how it ended: KindClose, KindTimeout or KindLogout, 0 while it is open.
	Ended Kind
	// Revision grows with every correction of the session.
	Revision uint64
	// Intervals are sets, by measure.
	Intervals map[Measure][]interval.Interval
}

// Rejected is an event or a session that breaks a rule. It goes to quarantine, never
// away.
type Rejected struct {
	Rule   string // such as "end_before_start"
	Reason string // for people
	At     time.Time
	Event  *Event   // what was refused, or
	Whole  *Session // the session that breaks the rule
	Source string   // the file and line, or the stream and sequence, that it came from
	Raw    string   // the line as it was, where it could not be read
}

// The quality rules.
const (
	RuleOrder    = "end_before_start"
	RuleLimit    = "session_too_long"
	RuleSequence = "sequence_went_back"
	RuleClosed   = "beat_after_close"
	RuleLate     = "too_late"
	RuleNesting  = "active_foreground_connected" // active ≤ foreground ≤ connected
	RuleDay      = "union_exceeds_day"
	RuleParts    = "day_parts_do_not_add_up"
	RuleRebuilt  = "live_differs_from_rebuilt"
	RuleInput    = "invalid_input"
)

// Rules are the names of all quality rules.
func Rules() []string {
	return []string{RuleOrder, RuleLimit, RuleSequence, RuleClosed, RuleLate, RuleNesting, RuleDay, RuleParts, RuleRebuilt, RuleInput}
}

// Definition is how events become online time. It is data: a versioned file.
type Definition struct {
	Version string
	// Gaps has the cap and the grace.
	Gaps interval.Gaps
	// Idle is how long after the last input the user still counts as active.
	Idle time.Duration
	// Limit is the longest session there may be.
	Limit time.Duration
	// Lateness is how late an event may come and still correct a session.
	Lateness time.Duration
	// Labels are the application's measures: activity labels that are counted.
	Labels []string
}

package explain

import (
	"time"

	"github.com/rollcall-io/rollcall/fanout"
	"github.com/rollcall-io/rollcall/subjects"
)

// A Report is what there is to say about one user. Times are store time.
type Report struct {
	User  string    `json:"user"`
	Shard int       `json:"shard"`
	AsOf  time.Time `json:"as_of"`
	// Known is false for a user of whom there is no record: one that never came, or that was
	// forgotten.
	Known bool `json:"known"`
	// Why is the report in sentences.
	Why []string `json:"why"`

	Shown     *Shown     `json:"shown,omitempty"`
	Devices   []Device   `json:"devices,omitempty"`
	Departure *Departure `json:"departure,omitempty"`
	Seen      time.Time  `json:"last_sign_of_life,omitzero"`
	Policy    *Policy    `json:"policy,omitempty"`
	Viewer    *Viewer    `json:"viewer,omitempty"`
	Frames    []Frame    `json:"frames"`
	Searched  Searched   `json:"searched"`
}

// Shown is the user's state as the keeper has published it, before anybody's policy.
type Shown struct {
	State    string    `json:"state"`
	Activity string    `json:"activity,omitempty"`
	Observed time.Time `json:"observed"`
	Version  uint64    `json:"version"`
}

// A Device is one of the user's, with the connections that edges say they hold.
type Device struct {
	Device  string       `json:"device"`
	Epoch   time.Time    `json:"newest_epoch"`
	Current *Connection  `json:"current,omitempty"`
	Stale   []Connection `json:"superseded,omitempty"` // not closed by their edges yet
}

// A Connection is held by an edge.
type Connection struct {
	Edge     string    `json:"edge"`
	Number   uint64    `json:"connection"`
	Epoch    time.Time `json:"epoch"`
	State    string    `json:"state"`
	Activity string    `json:"activity,omitempty"`
	Lease    *Lease    `json:"lease,omitempty"` // nil if the edge has none
}

// A Lease is an edge's promise to speak again.
type Lease struct {
	Renewed time.Time `json:"renewed"`
	Ends    time.Time `json:"ends"` // if nothing more is heard
	// Restarted says that the edge's present process is another one than the connection's.
	Restarted bool `json:"restarted,omitempty"`
}

// A Departure is how the last connection left.
type Departure struct {
	Way   string    `json:"way"`
	Since time.Time `json:"since"` // from when the bound of the way counts
	// Offline is when offline is published, if nobody comes back.
	Offline time.Time `json:"offline_due"`
}

// Policy is who may know what of the user, and what it says of itself.
type Policy struct {
	subjects.Policy
	// Covered is since when the user appears offline to everyone else.
	Covered time.Time `json:"appears_offline_since,omitzero"`
	// Damage says that the record cannot be read: it shows the user to nobody else.
	Damage string `json:"damage,omitempty"`
}

// Viewer is what one viewer may know.
type Viewer struct {
	Viewer      string      `json:"viewer"`
	Rule        fanout.Rule `json:"rule"`
	Granularity string      `json:"granularity"` // "default" if the policy leaves it to the fabric
	// Told is what a fanout answers this viewer now; nil if the user is absent from the answer.
	Told *subjects.View `json:"told,omitempty"`
	// Trouble is why a fanout did not answer, or that the feed is stalled.
	Trouble string `json:"trouble,omitempty"`
}

// A Frame is a message of the log that names the user, or begins or ends an edge that held it.
type Frame struct {
	At       time.Time `json:"at"`
	Sequence uint64    `json:"sequence"`
	Edge     string    `json:"edge"`
	Entries  []Entry   `json:"entries"`
}

// An Entry is what a frame says of the user.
type Entry struct {
	Kind     string    `json:"kind"`
	Device   string    `json:"device,omitempty"`
	Number   uint64    `json:"connection,omitempty"`
	State    string    `json:"state,omitempty"`
	Activity string    `json:"activity,omitempty"`
	Reason   string    `json:"reason,omitempty"`
	At       time.Time `json:"at,omitzero"`    // when it happened, by the edge's clock
	Seen     time.Time `json:"seen,omitzero"`  // CLOSE: the last sign of life
	Epoch    time.Time `json:"epoch,omitzero"` // OPEN, ROSTER
}

// Searched is how far the log was read backwards.
type Searched struct {
	Messages int       `json:"messages"`
	Since    time.Time `json:"since,omitzero"`
	// Whole is set if that is all there is of it.
	Whole bool `json:"whole"`
}

package viewer

import (
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
)

// Reasons, besides the fanout's, why a state is unknown.
const (
	ReasonDisconnected = "disconnected"  // this client has lost the server
	ReasonFanoutSilent = "fanout_silent" // requests are not answered
)

// State is what the viewer sees of a target.
type State struct {
	// View has status unknown, and nothing else, while Reason is set. A
	// target that the viewer may only know to exist is unknown without a reason.
	View subjects.View
	// Reason says why the state is unknown although the viewer may know it.
	Reason string
	// Received is when this client learned of it, by its own clock.
	Received time.Time
}

// Withdrawn says that the viewer may no longer see the target, or that it is gone.
func (s State) Withdrawn() bool { return s.View.Status == subjects.StatusWithdrawn }

// Known says whether the status is what the fabric knows now.
func (s State) Known() bool { return s.Reason == "" && s.View.Status != rollcall.StatusUnknown }

// known says whether the state was ever shown and not withdrawn.
func (s State) known() bool { return s.View.Status != "" && !s.Withdrawn() }

// same ignores the version: saying the same again is no change.
func (s State) same(o State) bool {
	s.View.Version, s.Received = o.View.Version, o.Received
	return s == o
}

// A Change says how a target is shown from now on.
type Change struct {
	Target string
	State
	// At is when it began to be shown so, by this client's clock: later than
	// Received if it is unknown because the fabric fell silent, or known again.
	At time.Time
}

package machine

import (
	"fmt"
	"time"
)

// State is what is known of a member.
type State string

// The states. A member that was ended has no state any more.
const (
	Joining State = "joining" // registered, waits for the next assignment
	Healthy State = "healthy"
	Suspect State = "suspect" // missed a heartbeat, or makes no progress: it is given nothing more
	Expired State = "expired" // was silent for too long; its partitions move at once
	Left    State = "left"    // said goodbye; its partitions wait for it, or move at once
)

// Reasons of events, and why a partition has its owner.
const (
	// Of members.
	ReasonRegistered = "registered"
	ReasonAdmitted   = "admitted"
	ReasonSilent     = "silent"      // missed a heartbeat
	ReasonNoProgress = "no_progress" // beats, but does nothing of its load
	ReasonRecovered  = "recovered"
	ReasonTimeout    = "timeout" // silent for too long
	ReasonRestart    = "restart" // goodbye, to come back
	ReasonFinal      = "final"   // goodbye for good
	ReasonHoldOver   = "hold_over"
	ReasonVanished   = "vanished"   // the record is gone, and nobody has said why
	ReasonUnreadable = "unreadable" // the record makes no sense
	// Of partitions.
	WhyFirst     = "first"     // it belonged to nobody
	WhyExpired   = "expired"   // its owner was silent for too long
	WhyLeft      = "left"      // its owner said goodbye
	WhyRestarted = "restarted" // the same owner, over another connection
	WhyReturned  = "returned"  // its owner had released it by itself
	WhyBalance   = "balance"   // so that loads are even
	WhyDrained   = "drained"   // an operator drains its owner
	WhyMoved     = "moved"     // an operator moved it
	WhyOverdue   = "overdue"   // its owner did not release it in time
)

// What an event is about.
const (
	AboutMember      = "member"
	AboutPartition   = "partition"
	AboutCoordinator = "coordinator"
	AboutAsk         = "ask" // an owner is asked to release a partition
)

// An Event is one change of a group.
type Event struct {
	At     time.Time `json:"at"`
	About  string    `json:"about"`
	Member string    `json:"member,omitempty"`
	// State of the member from now on.
	State State `json:"state,omitempty"`
	// Partition goes From a member To another; at an ask it does not yet. Nil if it is about none.
	Partition  *int   `json:"partition,omitempty"`
	From       string `json:"from,omitempty"`
	To         string `json:"to,omitempty"`
	Generation uint64 `json:"generation,omitempty"`
	Reason     string `json:"reason,omitempty"`
}

// String is the event in a few words.
func (e Event) String() string {
	switch e.About {
	case AboutMember:
		return fmt.Sprintf("member %s: %s (%s)", e.Member, e.State, e.Reason)
	case AboutCoordinator:
		return fmt.Sprintf("%s coordinates", e.Member)
	case AboutAsk:
		return fmt.Sprintf("partition %d: %s is asked to release it to %s (%s)", *e.Partition, e.From, e.To, e.Reason)
	}
	from, to := e.From, e.To
	if from == "" {
		from = "nobody"
	}
	if to == "" {
		to = "nobody"
	}
	return fmt.Sprintf("partition %d: %s → %s, generation %d (%s)", *e.Partition, from, to, e.Generation, e.Reason)
}

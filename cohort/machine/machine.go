package machine

import (
	"maps"
	"slices"
	"time"

	"github.com/rollcall-io/rollcall/subjects"
)

// An Entry is one record of a group as it was stored, or its end.
type Entry struct {
	Kind     subjects.CohortKind
	ID       string // of the member, if the record is one's
	Revision uint64
	Time     time.Time // given by the store
	// Record is what the kind says, as a pointer; nil if the record was ended or cannot be read, which
	// is the same.
	Record any
	// Reason is why it was ended, if anybody said so, or [ReasonUnreadable].
	Reason string
}

// A Machine is a group as of the last record applied. The zero value is a group of which
// nothing is known.
type Machine struct {
	clock   time.Time
	group   *subjects.CohortGroup
	lease   subjects.CohortLease
	ticked  time.Time // when the lease was last renewed
	grace   time.Time // nobody is declared dead before
	orders  subjects.CohortOrders
	members map[string]*member
	plan    subjects.CohortPlan
	// planRevision is zero before the first plan.
	planRevision uint64
	changed      bool              // something that a decision depends on, since the last one
	restate      bool              // the plan is to be written again
	asked        map[int]time.Time // since when a partition is to be released
	ended        map[string]ending // why members were ended whose partitions have not moved yet
}

type member struct {
	record   subjects.CohortMember
	revision uint64
	seen     time.Time // when it was last stored
	joined   time.Time // when this connection was first seen
	shown    State     // as the last event said
	why      string
}

type ending struct {
	state  State
	reason string
}

// Apply takes the next record and returns what it changed.
func (m *Machine) Apply(e Entry) []Event {
	if m.members == nil {
		m.members, m.asked, m.ended = make(map[string]*member), make(map[int]time.Time), make(map[string]ending)
	}
	if e.Time.After(m.clock) {
		m.clock = e.Time
	}
	var events []Event
	m.changed = m.changed || e.Kind != subjects.CohortMemberKind
	switch e.Kind {
	case subjects.CohortGroupKind:
		if group, ok := e.Record.(*subjects.CohortGroup); ok {
			m.group = group
		}
	case subjects.CohortLeaseKind:
		events = m.tick(e)
	case subjects.CohortOrdersKind:
		m.orders = subjects.CohortOrders{}
		if orders, ok := e.Record.(*subjects.CohortOrders); ok {
			m.orders = *orders
		}
	case subjects.CohortPlanKind:
		m.planRevision = e.Revision // also of one that must be written anew
		m.restate = false
		if plan, ok := e.Record.(*subjects.CohortPlan); ok {
			events = m.adopt(*plan)
		}
	case subjects.CohortMemberKind:
		if record, ok := e.Record.(*subjects.CohortMember); ok {
			m.hear(e, *record)
			events = m.look(e.ID)
			m.changed = m.changed || len(events) > 0
			return events
		}
		m.changed = true
		return m.end(e)
	}
	for _, id := range slices.Sorted(maps.Keys(m.members)) {
		events = append(events, m.look(id)...)
	}
	return events
}

// Changed says whether [Machine.Decide] may say something else than it said last. Most heartbeats
// change nothing. A deadline that falls due between two renewals of the lease waits for the second,
// which always counts as a change.
func (m *Machine) Changed() bool { return m.changed }

// Restate has the plan written again even if it stays the same: the store has lost records, and members
// may still follow a plan that is no longer there.
func (m *Machine) Restate() { m.restate, m.changed = true, true }

// Term is the connection id of the lease: of the term of office that may decide.
func (m *Machine) Term() string { return m.lease.Conn }

// tick takes a renewal of the lease. A new coordinator gives everybody the time for one more
// heartbeat, and one that could not renew for long concludes that nobody could write.
func (m *Machine) tick(e Entry) (events []Event) {
	lease, ok := e.Record.(*subjects.CohortLease)
	if !ok {
		m.lease = subjects.CohortLease{}
		return nil
	}
	timing := m.timing()
	switch {
	case lease.Conn != m.lease.Conn:
		m.spare(e.Time.Add(timing.Heartbeat))
		events = []Event{{At: m.clock, About: AboutCoordinator, Member: lease.Holder}}
	case e.Time.Sub(m.ticked) > timing.Lease:
		m.spare(e.Time.Add(timing.Timeout))
	}
	m.lease, m.ticked = *lease, e.Time
	return events
}

func (m *Machine) spare(until time.Time) {
	if until.After(m.grace) {
		m.grace = until
	}
}

func (m *Machine) timing() subjects.CohortTiming {
	if m.group == nil {
		return subjects.CohortTiming{}
	}
	return m.group.Timing
}

func (m *Machine) hear(e Entry, record subjects.CohortMember) {
	heard := m.members[e.ID]
	if heard == nil {
		heard = new(member)
		m.members[e.ID] = heard
	}
	if heard.record.Conn != record.Conn {
		heard.joined, heard.shown = e.Time, ""
		delete(m.ended, e.ID)
	}
	// Load and progress matter where they change the state, which shows in an event.
	m.changed = m.changed || record.Weight != heard.record.Weight || !maps.Equal(record.Released, heard.record.Released)
	heard.record, heard.revision, heard.seen = record, e.Revision, e.Time
}

// end forgets a member. Why, is in what ended its record, or else follows from what it said.
func (m *Machine) end(e Entry) []Event {
	gone := m.members[e.ID]
	if gone == nil && m.plan.Members[e.ID] == "" {
		return nil
	}
	delete(m.members, e.ID)
	why := ending{Expired, e.Reason}
	switch {
	case e.Reason == ReasonFinal, e.Reason == ReasonHoldOver:
		why.state = Left
	case e.Reason == "" && gone != nil && gone.record.Bye != "":
		why = ending{Left, ReasonHoldOver}
	case e.Reason == "":
		why.reason = ReasonVanished
	}
	m.ended[e.ID] = why
	if gone != nil && gone.shown == why.state && gone.why == why.reason {
		return nil // as it had said itself
	}
	return []Event{{At: m.clock, About: AboutMember, Member: e.ID, State: why.state, Reason: why.reason}}
}

// adopt takes a plan and tells what it changes.
func (m *Machine) adopt(plan subjects.CohortPlan) (events []Event) {
	old := m.plan
	m.plan = plan
	asked := make(map[int]time.Time)
	for n, share := range plan.Partitions {
		var was subjects.CohortShare
		if n < len(old.Partitions) {
			was = old.Partitions[n]
		}
		if share.Next != "" {
			asked[n] = m.clock
			if since, before := m.asked[n]; before && was == share {
				asked[n] = since
			}
		}
		switch {
		case was.Owner != share.Owner || was.Generation != share.Generation:
			events = append(events, Event{At: m.clock, About: AboutPartition, Partition: new(n), From: was.Owner, To: share.Owner,
				Generation: share.Generation, Reason: share.Why})
		case share.Next != "" && was.Next != share.Next:
			events = append(events, Event{At: m.clock, About: AboutAsk, Partition: new(n), From: share.Owner, To: share.Next, Reason: share.Why})
		}
	}
	m.asked = asked
	maps.DeleteFunc(m.ended, func(id string, _ ending) bool { return plan.Members[id] == "" })
	return events
}

// look tells whether a member's state has changed.
func (m *Machine) look(id string) []Event {
	seen := m.members[id]
	state, reason := m.state(id, seen)
	if state == seen.shown && (reason == seen.why || state == Healthy) {
		return nil
	}
	if state == Healthy && seen.shown == Suspect {
		reason = ReasonRecovered
	}
	seen.shown, seen.why = state, reason
	return []Event{{At: m.clock, About: AboutMember, Member: id, State: state, Reason: reason}}
}

func (m *Machine) state(id string, seen *member) (State, string) {
	timing := m.timing()
	switch r := seen.record; {
	case r.Bye != "":
		return Left, string(r.Bye)
	case m.plan.Members[id] != r.Conn:
		return Joining, ReasonRegistered
	case m.group != nil && m.clock.Sub(seen.seen) > timing.Heartbeat+timing.Sweep:
		return Suspect, ReasonSilent
	case timing.Stall > 0 && r.Load > 0 && m.clock.Sub(seen.progress()) > timing.Stall:
		return Suspect, ReasonNoProgress
	}
	return Healthy, ReasonAdmitted
}

// progress is when the member last made some.
func (s *member) progress() time.Time {
	return s.seen.Add(-time.Duration(s.record.IdleMS) * time.Millisecond)
}

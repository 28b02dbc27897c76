package machine

import (
	"maps"
	"slices"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
)

// A Removal ends the record of a member, if it still has this revision: whoever speaks up at
// the last moment stays.
type Removal struct {
	ID       string
	Revision uint64
	Reason   string
}

// A Decision is what the coordinator must write, each part expecting the revision from which
// it was decided. Nothing of it holds before it is stored and applied.
type Decision struct {
	Remove []Removal
	// Plan, if any, expects the plan before it to have this revision.
	Plan    *subjects.CohortPlan
	Expects uint64
}

// Decide says what must be written next, by the coordinator of this name. Members go before
// the plan is made that gives away what they had.
func (m *Machine) Decide(by string) Decision {
	m.changed = false
	if m.group == nil {
		return Decision{}
	}
	if remove := m.removals(); len(remove) > 0 {
		return Decision{Remove: remove}
	}
	plan := m.propose()
	same := maps.Equal(plan.Members, m.plan.Members) && slices.Equal(plan.Partitions, m.plan.Partitions)
	if same && !m.restate || m.planRevision == 0 && len(plan.Members) == 0 {
		return Decision{}
	}
	plan.By = by
	return Decision{Plan: &plan, Expects: m.planRevision}
}

func (m *Machine) removals() (remove []Removal) {
	for _, id := range slices.Sorted(maps.Keys(m.members)) {
		gone := m.members[id]
		if m.clock.Before(m.deadline(gone)) {
			continue
		}
		reason := ReasonTimeout
		switch gone.record.Bye {
		case subjects.ByeRestart:
			reason = ReasonHoldOver
		case subjects.ByeFinal:
			reason = ReasonFinal
		}
		remove = append(remove, Removal{id, gone.revision, reason})
	}
	return remove
}

// deadline is when a member is over unless it speaks.
func (m *Machine) deadline(s *member) time.Time {
	switch s.record.Bye {
	case subjects.ByeRestart:
		return s.seen.Add(m.group.Timing.Hold)
	case subjects.ByeFinal:
		return s.seen
	}
	if d := s.seen.Add(m.group.Timing.Timeout); d.After(m.grace) {
		return d
	}
	return m.grace
}

// Next is the first instant, in store time, at which Decide may say something that it does not
// say now, if nothing is applied before; zero for never.
func (m *Machine) Next() (next time.Time) {
	if m.group == nil {
		return next
	}
	sooner := func(t time.Time) {
		if t.After(m.clock) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	for _, s := range m.members {
		sooner(m.deadline(s))
	}
	for _, since := range m.asked {
		sooner(since.Add(m.group.Timing.Release))
	}
	if until, joining := m.settling(); joining {
		sooner(until)
	}
	return next
}

// Clock is the highest store time applied.
func (m *Machine) Clock() time.Time { return m.clock }

// maxSettle is how many settle times a burst of joins can be long.
const maxSettle = 5

// settling says until when those who join wait for others.
func (m *Machine) settling() (until time.Time, joining bool) {
	var first, last time.Time
	for id, s := range m.members {
		if s.record.Bye != "" || m.plan.Members[id] == s.record.Conn {
			continue
		}
		if first.IsZero() || s.joined.Before(first) {
			first = s.joined
		}
		if s.joined.After(last) {
			last = s.joined
		}
	}
	settle := m.group.Timing.Settle
	until = last.Add(settle)
	if longest := first.Add(maxSettle * settle); longest.Before(until) {
		until = longest
	}
	return until, !first.IsZero()
}

// propose is the plan as it should be now. It differs from the present one only where
// something must change.
func (m *Machine) propose() subjects.CohortPlan {
	p := proposal{
		Machine: m, generation: rollcall.NextGeneration(m.plan.Generation, m.clock),
		shares: make([]subjects.CohortShare, m.group.Partitions), members: make(map[string]string),
	}
	copy(p.shares, m.plan.Partitions)
	p.admit()
	target := p.targets()
	for n := range p.shares {
		if !p.waits(n) {
			p.shares[n] = p.settle(n, target[n])
		}
	}
	return subjects.CohortPlan{Generation: p.generation, Members: p.members, Partitions: p.shares}
}

type proposal struct {
	*Machine
	generation uint64
	shares     []subjects.CohortShare
	members    map[string]string // who takes part; those who are away as they were
	seats      []Seat
}

// admit decides who takes part. Those who join wait for others, unless partitions move anyway.
func (p *proposal) admit() {
	until, _ := p.settling()
	everybody := !p.clock.Before(until) || len(p.ended) > 0
	for id, s := range p.Machine.members {
		conn := p.plan.Members[id]
		switch {
		case s.record.Bye == "" && (everybody || conn == s.record.Conn):
			p.members[id] = s.record.Conn
			p.seats = append(p.seats, p.seat(id, s))
		case conn != "":
			p.members[id] = conn
		}
	}
}

func (p *proposal) seat(id string, s *member) Seat {
	seat := Seat{ID: id, Weight: max(s.record.Weight, 1), Frozen: s.shown == Suspect}
	if p.drained(id) {
		seat.Weight = 0
	}
	return seat
}

func (m *Machine) drained(id string) bool { return slices.Contains(m.orders.Drained, id) }

// seated says whether a member takes part with the connection over which it now speaks.
func (p *proposal) seated(id string) bool {
	s := p.Machine.members[id]
	return s != nil && s.record.Bye == "" && p.members[id] == s.record.Conn
}

// waits says whether a partition waits for its owner, who is restarting. Nobody works on it
// meanwhile; if it was to go to somebody else anyway, it goes.
func (p *proposal) waits(n int) bool {
	share := p.shares[n]
	return share.Owner != "" && p.members[share.Owner] != "" && !p.seated(share.Owner) && !p.seated(share.Next)
}

// targets is who shall have each partition in the end. What is under way already counts as
// done, so that an order that was given is not taken back without need.
func (p *proposal) targets() []string {
	var movable []int
	var current []string
	pinned := make(map[int]string)
	for n, share := range p.shares {
		if p.waits(n) {
			continue
		}
		at := share.Owner
		if p.seated(share.Next) {
			at = share.Next
		}
		if pin := p.orders.Pinned[n]; pin != "" && !p.drained(pin) {
			pinned[len(movable)] = pin
		}
		movable, current = append(movable, n), append(current, at)
	}
	target := make([]string, len(p.shares))
	for i, id := range Assign(current, p.seats, pinned) {
		target[movable[i]] = id
	}
	return target
}

// settle is the share of a partition that shall belong to target.
func (p *proposal) settle(n int, target string) subjects.CohortShare {
	share := p.shares[n]
	give := func(why string) subjects.CohortShare {
		if target == "" {
			return subjects.CohortShare{Generation: share.Generation, Why: why}
		}
		return subjects.CohortShare{Owner: target, Generation: p.generation, Why: why}
	}
	owner := p.Machine.members[share.Owner]
	switch {
	case share.Owner == "" && target == "":
		return share
	case share.Owner == "" && share.Why != "":
		return give(share.Why) // why it lost its last owner
	case share.Owner == "":
		return give(WhyFirst)
	case owner == nil && p.ended[share.Owner].state == Left:
		return give(WhyLeft)
	case owner == nil:
		return give(WhyExpired)
	case owner.record.Bye != "":
		return give(WhyLeft) // it was to go anyway
	case p.plan.Members[share.Owner] != owner.record.Conn:
		return give(WhyRestarted)
	case owner.record.Released[n] == share.Generation:
		return give(p.whyReleased(share, target))
	case target == "" || target == share.Owner:
		share.Next = ""
		return share
	case share.Next != "" && !p.clock.Before(p.overdue(n)):
		return give(WhyOverdue)
	}
	if share.Next != target {
		share.Next, share.Why = target, p.whyMove(n, share.Owner, target)
	}
	return share
}

func (p *proposal) overdue(n int) time.Time {
	since, asked := p.asked[n]
	if !asked {
		since = p.clock
	}
	return since.Add(p.group.Timing.Release)
}

func (p *proposal) whyMove(n int, from, to string) string {
	switch {
	case p.orders.Pinned[n] == to:
		return WhyMoved
	case p.drained(from):
		return WhyDrained
	}
	return WhyBalance
}

func (p *proposal) whyReleased(share subjects.CohortShare, target string) string {
	if share.Next != "" && target != share.Owner {
		return share.Why
	}
	return WhyReturned
}

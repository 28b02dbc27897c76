package machine

import (
	"cmp"
	"slices"
	"time"

	"github.com/rollcall-io/rollcall/subjects"
)

// A View is a group for people to look at.
type View struct {
	At          time.Time              `json:"at"`
	Timing      subjects.CohortTiming  `json:"timing"`
	Coordinator string                 `json:"coordinator,omitempty"`
	Generation  uint64                 `json:"generation"`
	Members     []MemberView           `json:"members"`
	Partitions  []subjects.CohortShare `json:"partitions"`
	Pinned      map[int]string         `json:"pinned,omitempty"`
	// Unreadable are the keys of records that make no sense. They count as not there.
	Unreadable []string `json:"unreadable,omitempty"`
}

// A MemberView is one member of a group.
type MemberView struct {
	ID     string `json:"id"`
	Conn   string `json:"conn"`
	State  State  `json:"state"`
	Reason string `json:"reason"`
	// Seen is when it was last heard, Progress when it last said to have made some.
	Seen       time.Time `json:"seen"`
	Progress   time.Time `json:"progress"`
	Load       float64   `json:"load"`
	Weight     int       `json:"weight"`
	Drained    bool      `json:"drained,omitempty"`
	Partitions int       `json:"partitions"`
	Info       string    `json:"info,omitempty"`
}

// View shows the group; members by id.
func (m *Machine) View() View {
	v := View{
		At: m.clock, Timing: m.timing(), Coordinator: m.lease.Holder, Generation: m.plan.Generation,
		Members: []MemberView{}, Partitions: slices.Clone(m.plan.Partitions), Pinned: m.orders.Pinned,
	}
	if m.group != nil && len(v.Partitions) < m.group.Partitions { // before the first plan
		v.Partitions = make([]subjects.CohortShare, m.group.Partitions)
	}
	owned := make(map[string]int)
	for _, s := range v.Partitions {
		owned[s.Owner]++
	}
	for id, s := range m.members {
		state, reason := m.state(id, s)
		v.Members = append(v.Members, MemberView{
			ID: id, Conn: s.record.Conn, State: state, Reason: reason, Seen: s.seen, Progress: s.progress(), Load: s.record.Load,
			Weight: max(s.record.Weight, 1), Drained: m.drained(id), Partitions: owned[id], Info: s.record.Info,
		})
	}
	slices.SortFunc(v.Members, func(a, b MemberView) int { return cmp.Compare(a.ID, b.ID) })
	return v
}

package cohort

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/rollcall-io/rollcall/internal/feed"
	"github.com/rollcall-io/rollcall/subjects"
)

// A Partition is one that the member owns.
type Partition struct {
	Number int
	// Generation grows with every owner, and whenever the same one is given it again.
	Generation uint64
	// Offset is what was committed last; work begins behind it. Zero before the first commit.
	Offset uint64
	// Why the member was given it, as the log and `rollcall cohort watch` say it.
	Why string
}

// An Assignment is all that a member shall work on from now on.
type Assignment struct {
	// Generation of the plan.
	Generation uint64
	// Partitions by number. One that comes with another generation than before was somebody
	// else's meanwhile, or may have been: begin it anew.
	Partitions []Partition
	// Asked are partitions that somebody else shall have: finish, commit, and release them. What
	// is in neither list is lost; nothing can be committed there.
	Asked []int
}

// Assignments hands over what the member shall work on, whenever that changes. Each value says
// all, so that only the last one is kept for a slow reader. The channel is closed when the member
// takes part no more.
func (m *Member) Assignments() <-chan Assignment { return m.assignments }

// handOverLocked tells the reader what the member has now, unless it has been told already.
func (m *Member) handOverLocked() {
	a := Assignment{Generation: m.plan.Generation}
	for _, h := range slices.SortedFunc(maps.Values(m.held), func(a, b *holding) int { return cmp.Compare(a.Number, b.Number) }) {
		if h.asked {
			a.Asked = append(a.Asked, h.Number)
		} else {
			a.Partitions = append(a.Partitions, h.Partition)
		}
	}
	same := func(a, b Partition) bool { return a.Number == b.Number && a.Generation == b.Generation }
	if m.over || slices.Equal(a.Asked, m.last.Asked) && slices.EqualFunc(a.Partitions, m.last.Partitions, same) {
		return
	}
	m.last = a
	select {
	case <-m.assignments: // nobody has read it, and this one says more
	default:
	}
	m.assignments <- a
}

// follow reads plans, and the coordinator's lease.
func (m *Member) follow(ctx context.Context) error {
	for {
		reader := m.store.follow(subjects.KeyCohort(m.cfg.Group, subjects.CohortPlanKind), subjects.KeyCohort(m.cfg.Group, subjects.CohortLeaseKind))
		m.lease.watch(reader)
		err := reader.Run(ctx, func(_ context.Context, b feed.Batch) error {
			for _, msg := range b.Msgs {
				m.read(msg)
			}
			return nil
		})
		if !errors.As(err, new(*feed.RollbackError)) {
			return err
		}
		m.log.Warn("the store has lost records of the group, reading it again", "err", err)
		m.mu.Lock()
		m.plan = subjects.CohortPlan{}
		m.mu.Unlock()
	}
}

func (m *Member) read(msg feed.Msg) {
	e, err := m.store.entry(msg)
	if err != nil {
		m.log.Error("a record of the group cannot be read", "key", subjects.KVKey(m.store.bucket, msg.Subject), "err", err)
		return
	}
	switch plan, ok := e.Record.(*subjects.CohortPlan); {
	case ok:
		m.adopt(*plan)
	case e.Kind == subjects.CohortLeaseKind:
		m.lease.saw(e.Revision, e.Record != nil)
	}
}

// adopt takes a new plan: what is somebody else's is lost, what is asked for shows as such, and
// what is new must be claimed.
func (m *Member) adopt(plan subjects.CohortPlan) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.plan = plan
	for n, h := range m.held {
		if gen, ours := m.oursLocked(n); !ours || gen != h.Generation {
			m.log.Info("partition lost", "partition", n, "generation", h.Generation, "to", m.shareLocked(n).Owner, "reason", m.shareLocked(n).Why)
			delete(m.held, n)
		}
	}
	maps.DeleteFunc(m.released, func(n int, gen uint64) bool { return m.shareLocked(n).Generation != gen })
	for n, share := range plan.Partitions {
		if gen, ours := m.oursLocked(n); ours {
			m.considerLocked(n, gen, share.Next != "")
		}
	}
	m.handOverLocked()
}

// considerLocked looks at a partition that the plan says is ours, perhaps not for long.
func (m *Member) considerLocked(n int, gen uint64, asked bool) {
	h := m.held[n]
	switch {
	case h != nil:
		h.asked = asked
	case m.released[n] == gen:
	case asked: // not claimed, and not worth it
		m.released[n] = gen
		wake(m.beatNow)
	default:
		wake(m.claimNow)
	}
}

func (m *Member) shareLocked(n int) subjects.CohortShare {
	if n < len(m.plan.Partitions) {
		return m.plan.Partitions[n]
	}
	return subjects.CohortShare{}
}

// oursLocked says whether the plan gives a partition to this connection, and in which generation.
func (m *Member) oursLocked(n int) (generation uint64, ours bool) {
	share := m.shareLocked(n)
	return share.Generation, m.bye == "" && share.Owner == m.cfg.ID && m.plan.Members[m.cfg.ID] == m.conn
}

// dropAll forgets every partition.
func (m *Member) dropAll() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.held)
	m.handOverLocked()
}

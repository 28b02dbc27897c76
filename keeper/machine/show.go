package machine

import (
	"container/heap"
	"container/list"

	"github.com/rollcall-io/rollcall"
)

// settle shows the users whose connections changed. One entry, or one tick, is one
// change: who loses several devices at once is not shown with fewer in between.
func (m *Machine) settle(seq uint64) {
	for i, u := range m.unsettled {
		m.show(u, seq)
		m.unsettled[i] = nil
	}
	m.unsettled = m.unsettled[:0]
}

// show brings what is shown of a user in line with its endpoints: more presence
// at once, none only after the debounce.
func (m *Machine) show(u *user, seq uint64) {
	best := u.best()
	if best == nil {
		m.showNobody(u, seq)
		return
	}
	m.cancelOffline(u)
	if u.shown.version == 0 || u.shown.state != best.state || u.shown.activity != best.activity {
		m.publish(u, seq, best.state, best.activity)
	}
}

func (m *Machine) showNobody(u *user, seq uint64) {
	switch {
	case u.shown.version == 0: // nothing was ever shown, so there is nothing to take back
	case u.shown.state != rollcall.Offline:
		if u.offlineAt == 0 {
			m.dueOffline(u, m.now.Add(m.params.Debounce))
		}
	}
}

// best is the connection that decides the user's state: the most present one, of
// those the newest.
func (u *user) best() *claim {
	var best *claim
	for _, ep := range u.endpoints {
		c := ep.current
		if c == nil {
			continue
		}
		if best == nil || c.state > best.state || c.state == best.state && c.newer(best) {
			best = c
		}
	}
	return best
}

func (m *Machine) publish(u *user, seq uint64, state rollcall.State, activity string) {
	m.countOnline(u.shown.state, state)
	m.stats.Changes++
	// Two changes by one message are one change to everyone else.
	u.shown = shown{state, activity, m.now, u.seen, max(seq, u.shown.version)}
	u.viewDirty = true
	m.markDirty(u)
	m.noteGone(u)
}

func (m *Machine) countOnline(before, after rollcall.State) {
	if before != rollcall.Offline {
		m.stats.Online--
	}
	if after != rollcall.Offline {
		m.stats.Online++
	}
}

// tick lets the deadlines fire that are due.
func (m *Machine) tick(seq uint64) {
	m.stats.Ticks++
	m.expire(seq)
	m.settle(seq)
	var ahead []*user // their deadline began after this tick
	for len(m.deadlines) > 0 && m.offlineDue(m.deadlines[0]) <= m.now {
		u := heap.Pop(&m.deadlines).(*user)
		if m.recorded(u, seq) {
			ahead = append(ahead, u)
			continue
		}
		m.goOffline(u, seq)
	}
	for _, u := range ahead {
		heap.Push(&m.deadlines, u)
	}
	m.forget()
}

func (m *Machine) goOffline(u *user, seq uint64) {
	u.offlineAt = 0
	m.touch(u, seq)
	m.publish(u, seq, rollcall.Offline, "")
	m.departures = append(m.departures, Departure{u.id, u.left.way, m.now.Sub(u.left.since)})
	u.left = departure{}
}

// offlineDue is when a debounce ends: after a gap in the log it runs once more,
// so that edges can say who came back meanwhile.
func (m *Machine) offlineDue(u *user) rollcall.Micros {
	if m.resumed == 0 {
		return u.offlineAt
	}
	return max(u.offlineAt, m.resumed.Add(m.params.Debounce))
}

// NextDeadline is the store time at which a tick is needed; ok is false while no
// debounce runs. Leases are left to the periodic ticks.
func (m *Machine) NextDeadline() (at rollcall.Micros, ok bool) {
	if len(m.deadlines) == 0 {
		return 0, false
	}
	return m.offlineDue(m.deadlines[0]), true
}

func (m *Machine) dueOffline(u *user, at rollcall.Micros) {
	u.offlineAt = at
	heap.Push(&m.deadlines, u)
	m.markDirty(u)
}

func (m *Machine) cancelOffline(u *user) {
	if u.offlineAt != 0 {
		u.offlineAt, u.left = 0, departure{}
		heap.Remove(&m.deadlines, u.slot)
		m.markDirty(u)
	}
}

// noteGone keeps the offline users in the order of publication.
func (m *Machine) noteGone(u *user) {
	if u.gone != nil {
		m.gone.Remove(u.gone)
		u.gone = nil
	}
	if u.shown.version != 0 && u.shown.state == rollcall.Offline {
		u.gone = m.insertGone(u)
	}
}

// insertGone looks for the place from the back: only in a replay can there be
// users who went later.
func (m *Machine) insertGone(u *user) *list.Element {
	at := m.gone.Back()
	for at != nil && at.Value.(*user).shown.observed > u.shown.observed {
		at = at.Prev()
	}
	if at == nil {
		return m.gone.PushFront(u)
	}
	return m.gone.InsertAfter(u, at)
}

// forget drops users who have been offline for so long that nothing older than
// their last connection can still arrive. Their view stays. A record that a
// restarted keeper would need to read the log again is kept.
func (m *Machine) forget() {
	for at := m.gone.Front(); at != nil; {
		u := at.Value.(*user)
		at = at.Next()
		if m.now.Sub(u.shown.observed) <= m.params.Buffer {
			return
		}
		if u.seq > m.saved || u.claimed() {
			continue
		}
		m.gone.Remove(u.gone)
		delete(m.users, u.id)
		u.removed = true
		m.markDirty(u)
	}
}

// claimed says whether any edge still says it holds a connection of the user.
func (u *user) claimed() bool {
	for _, ep := range u.endpoints {
		if ep.current != nil || len(ep.stale) > 0 {
			return true
		}
	}
	return false
}

// deadlines is a heap of users by the end of their debounce.
type deadlines []*user

func (d deadlines) Len() int { return len(d) }
func (d deadlines) Less(i, j int) bool {
	if d[i].offlineAt != d[j].offlineAt {
		return d[i].offlineAt < d[j].offlineAt
	}
	return d[i].id < d[j].id // the same order in every replay
}

func (d deadlines) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].slot, d[j].slot = i, j
}

func (d *deadlines) Push(x any) {
	u := x.(*user)
	u.slot = len(*d)
	*d = append(*d, u)
}

func (d *deadlines) Pop() any {
	last := len(*d) - 1
	u := (*d)[last]
	(*d)[last] = nil
	*d, u.slot = (*d)[:last], -1
	return u
}

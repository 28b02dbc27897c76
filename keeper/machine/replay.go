package machine

import (
	"maps"
	"slices"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// A replay is what a loaded machine must know while it reads again what its
// predecessor has read: records and views can be ahead of the log.
type replay struct {
	// end is the highest sequence in the records: up to here the claims may be
	// ahead of the log, so digests say nothing and edges have been told.
	end uint64
	// whole is a sequence up to which every user's record is complete: users are
	// written before edges, so where one edge's record is, all users' are.
	whole uint64
	ahead map[string]*wire.View // views that are newer than their user's record
}

func newReplay(r Records) replay {
	p := replay{end: r.LastSequence(), whole: r.Checkpoint.GetSequence(), ahead: make(map[string]*wire.View)}
	for _, e := range r.Edges {
		p.whole = max(p.whole, e.Sequence)
	}
	for id, view := range r.Views {
		record := r.Users[id]
		forgotten := record == nil && view.State == wire.State_STATE_OFFLINE && view.Version <= p.whole
		if view.Version > record.GetShown().GetVersion() && !forgotten {
			p.ahead[id] = view
		}
	}
	return p
}

// recorded says whether the records already hold what a message did to a user,
// who is nil if unknown.
func (m *Machine) recorded(u *user, seq uint64) bool {
	return seq <= m.replay.whole || u != nil && seq <= u.loaded
}

// published says whether a view as new as the user's has been written before.
func (p *replay) published(u *user) bool {
	return u.shown.version <= p.ahead[u.id].GetVersion()
}

// adoptAhead takes over the views that the log, read up to the records, does not
// explain.
func (m *Machine) adoptAhead() {
	if len(m.replay.ahead) == 0 || m.seq <= m.replay.end {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(m.replay.ahead)) {
		view := m.replay.ahead[id]
		u := m.users[id]
		switch {
		case u == nil && view.State == wire.State_STATE_OFFLINE:
			continue
		case u == nil:
			u = m.newUser(id)
		case u.shown.version >= view.Version:
			continue
		}
		m.adopt(u, shownOf(view))
	}
	m.replay.ahead = nil
}

// adopt goes on from a view. If it shows a user of whom no connection is known,
// every edge gets the time to renew and to answer with its roster.
func (m *Machine) adopt(u *user, view shown) {
	m.countOnline(u.shown.state, view.state)
	u.shown = view
	u.seen = max(u.seen, view.seen)
	m.touch(u, m.seq)
	m.noteGone(u)
	switch {
	case u.best() != nil:
		m.show(u, m.seq)
	case view.state == rollcall.Offline:
		m.cancelOffline(u)
	case u.offlineAt == 0:
		u.left = departure{rollcall.WayRepaired, m.now}
		m.dueOffline(u, m.now.Add(m.params.LongestRenewal()+m.params.Outage+m.params.Debounce))
	}
}

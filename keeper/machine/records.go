package machine

import (
	"cmp"
	"container/heap"
	"maps"
	"slices"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// Records is what a keeper finds in the buckets when it takes a shard over.
type Records struct {
	Checkpoint *wire.CheckpointRecord // nil if there never was one
	Edges      map[string]*wire.EdgeRecord
	Users      map[string]*wire.UserRecord
	Views      map[string]*wire.View
}

// LastSequence is the highest sequence that any record speaks of. A log that ends
// before it has lost its tail.
func (r Records) LastSequence() uint64 {
	last := r.Checkpoint.GetSequence()
	for _, e := range r.Edges {
		last = max(last, e.Sequence)
	}
	for _, u := range r.Users {
		last = max(last, u.Sequence)
	}
	for _, v := range r.Views {
		last = max(last, v.Version)
	}
	return last
}

// Load makes the machine that has written these records, some of them perhaps
// after others of the same moment were not. The log must be applied from the
// checkpoint on.
//
// A store that lost writes can leave views that no record explains. They are kept
// as they are until the log is read up to the records; whoever then has no
// connection goes offline after every edge had the time to speak.
func Load(params rollcall.Params, shard int, r Records) *Machine {
	m := New(params, shard)
	m.seq = r.Checkpoint.GetSequence()
	m.now = rollcall.Micros(r.Checkpoint.GetNow())
	m.resumed = rollcall.Micros(r.Checkpoint.GetResumed())
	m.loaded = r.LastSequence()
	for id, record := range r.Edges {
		e := newEdge(id, record.Incarnation)
		e.renewed, e.seq = rollcall.Micros(record.Renewed), record.Sequence
		m.edges[id] = e
	}
	for _, id := range slices.Sorted(maps.Keys(r.Users)) {
		m.loadUser(id, r.Users[id], r.Views[id])
	}
	for id, view := range r.Views {
		if view.Version > r.Users[id].GetShown().GetVersion() && (r.Users[id] != nil || view.State != wire.State_STATE_OFFLINE) {
			m.ahead = append(m.ahead, aheadView{id, view})
		}
	}
	slices.SortFunc(m.ahead, func(a, b aheadView) int { return cmp.Compare(a.user, b.user) })
	slices.SortFunc(m.gone, func(a, b *user) int {
		return cmp.Or(cmp.Compare(a.shown.observed, b.shown.observed), cmp.Compare(a.id, b.id))
	})
	for _, e := range m.edges {
		if ends := m.leaseEnds(e); m.leaseCheck == 0 || ends < m.leaseCheck {
			m.leaseCheck = ends
		}
	}
	return m
}

func (m *Machine) loadUser(id string, r *wire.UserRecord, view *wire.View) {
	u := m.user(id)
	u.seq, u.seen = r.Sequence, rollcall.Micros(r.Seen)
	u.left = departure{rollcall.Way(r.Departure.GetWay()), rollcall.Micros(r.Departure.GetSince())}
	u.shown = shownOf(r.Shown)
	for _, endpoint := range r.Endpoints {
		ep := u.endpoint(endpoint.Device)
		ep.epoch = endpoint.Epoch
		if endpoint.Current != nil {
			ep.current = m.loadClaim(ep, endpoint.Current)
		}
		for _, stale := range endpoint.Stale {
			c := m.loadClaim(ep, stale)
			ep.stale = append(ep.stale, c)
			c.edge.stale++
		}
	}
	if r.OfflineAt != 0 {
		u.offlineAt = rollcall.Micros(r.OfflineAt)
		heap.Push(&m.deadlines, u)
	}
	if u.shown.state != rollcall.Offline {
		m.stats.Online++
	} else if u.shown.version != 0 {
		m.gone = append(m.gone, u)
	}
	if u.shown.version > view.GetVersion() { // the views bucket lost it
		u.viewDirty = true
		m.markDirty(u)
	}
}

// loadClaim adds a claim. An edge without a record, because the store's own TTL
// ran out while no keeper was there, is taken to have been alive at the
// checkpoint; if it is not, its lease runs out.
func (m *Machine) loadClaim(ep *endpoint, r *wire.UserRecord_Connection) *claim {
	e := m.edges[r.Edge]
	if e == nil {
		e = newEdge(r.Edge, r.Incarnation)
		e.renewed = m.now
		m.edges[r.Edge] = e
	}
	if ep.user.seq > e.seq {
		e.incarnation = max(e.incarnation, r.Incarnation) // the hello was applied, its record not yet written
	}
	c := &claim{
		claimKey: claimKey{r.Incarnation, r.Conn}, endpoint: ep, edge: e, epoch: r.Epoch,
		state: stateOf(r.State), activity: r.Activity, digest: subjects.Digest(r.Digest),
	}
	e.claims[c.claimKey] = c
	e.digest += c.digest
	return c
}

// An aheadView is a view that is newer than its user's record.
type aheadView struct {
	user string
	view *wire.View
}

// adoptAhead takes over the views that the log, read up to the records, does not
// explain.
func (m *Machine) adoptAhead() {
	if len(m.ahead) == 0 || m.seq <= m.loaded {
		return
	}
	for _, a := range m.ahead {
		u := m.user(a.user)
		if u.shown.version >= a.view.Version {
			continue
		}
		if u.shown.state != rollcall.Offline {
			m.stats.Online--
		}
		u.shown = shownOf(a.view)
		if u.shown.state != rollcall.Offline {
			m.stats.Online++
		}
		u.seen = max(u.seen, u.shown.seen)
		m.touch(u, m.seq)
		switch {
		case u.best() != nil:
			m.show(u, m.seq)
		case u.shown.state != rollcall.Offline && u.offlineAt == 0:
			m.dueOffline(u, m.now.Add(m.params.LongestRenewal()+m.params.Debounce))
		}
	}
	m.ahead = nil
}

func shownOf(v *wire.View) shown {
	if v == nil {
		return shown{}
	}
	return shown{stateOf(v.State), v.Activity, rollcall.Micros(v.Observed), rollcall.Micros(v.Seen), v.Version}
}

func (u *user) view() *wire.View {
	return &wire.View{
		State: wire.State(u.shown.state), Activity: u.shown.activity,
		Observed: int64(u.shown.observed), Seen: int64(u.shown.seen), Version: u.shown.version,
	}
}

func (u *user) record() *wire.UserRecord {
	r := &wire.UserRecord{Sequence: u.seq, OfflineAt: int64(u.offlineAt), Seen: int64(u.seen)}
	if u.shown.version != 0 {
		r.Shown = u.view()
	}
	if u.left.way != rollcall.WayNone {
		r.Departure = &wire.UserRecord_Departure{Way: uint32(u.left.way), Since: int64(u.left.since)}
	}
	for _, ep := range u.endpoints {
		r.Endpoints = append(r.Endpoints, ep.record())
	}
	return r
}

func (ep *endpoint) record() *wire.UserRecord_Endpoint {
	r := &wire.UserRecord_Endpoint{Device: ep.device, Epoch: ep.epoch, Current: ep.current.record()}
	for _, c := range ep.stale {
		r.Stale = append(r.Stale, c.record())
	}
	return r
}

func (c *claim) record() *wire.UserRecord_Connection {
	if c == nil {
		return nil
	}
	return &wire.UserRecord_Connection{
		Edge: c.edge.id, Incarnation: c.incarnation, Conn: c.conn, Epoch: c.epoch,
		State: wire.State(c.state), Activity: c.activity, Digest: uint64(c.digest),
	}
}

func (e *edge) record() *wire.EdgeRecord {
	if e == nil {
		return nil
	}
	return &wire.EdgeRecord{Incarnation: e.incarnation, Renewed: int64(e.renewed), Sequence: e.seq}
}

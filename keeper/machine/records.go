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
	m.users = make(map[string]*user, len(r.Users))
	m.seq = r.Checkpoint.GetSequence()
	m.now = rollcall.Micros(r.Checkpoint.GetNow())
	m.resumed = rollcall.Micros(r.Checkpoint.GetResumed())
	m.replay = newReplay(r)
	for id, record := range r.Edges {
		e := &edge{id: id}
		e.leased, e.incarnation, e.renewed = true, record.Incarnation, rollcall.Micros(record.Renewed)
		e.seq, e.loaded = record.Sequence, record.Sequence
		m.edges[id] = e
	}
	for _, id := range slices.Sorted(maps.Keys(r.Users)) {
		m.loadUser(id, r.Users[id], r.Views[id])
	}
	m.loadGone()
	for _, e := range m.edges {
		m.watchLease(e)
	}
	return m
}

// loadGone restores the order in which users went offline.
func (m *Machine) loadGone() {
	users := slices.SortedFunc(maps.Values(m.users), func(a, b *user) int {
		return cmp.Or(cmp.Compare(a.shown.observed, b.shown.observed), cmp.Compare(a.id, b.id))
	})
	for _, u := range users {
		m.noteGone(u)
	}
}

func (m *Machine) loadUser(id string, r *wire.UserRecord, view *wire.View) {
	u := m.newUser(id)
	u.seq, u.loaded, u.seen = r.Sequence, r.Sequence, rollcall.Micros(r.Seen)
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
	}
	if u.shown.version > view.GetVersion() { // the views bucket lost it
		u.viewDirty = true
		m.markDirty(u)
	}
}

// loadClaim adds a claim. There may be no record of its edge: because the edge
// registered after the checkpoint, which the log will tell, or because the store's
// own TTL ran out while no keeper was there. A claim that is as old as the
// checkpoint proves the latter; its edge is taken to have been alive then, and if
// it is not, its lease runs out.
func (m *Machine) loadClaim(ep *endpoint, r *wire.UserRecord_Connection) *claim {
	e := m.edges[r.Edge]
	if e == nil {
		e = &edge{id: r.Edge}
		e.renewed = m.now
		m.edges[r.Edge] = e
	}
	if !e.leased && ep.user.loaded <= m.seq {
		e.leased, e.incarnation = true, r.Incarnation
	}
	c := &claim{
		incarnation: r.Incarnation, conn: r.Conn, endpoint: ep, edge: e, epoch: r.Epoch,
		state: present(r.State), activity: r.Activity, digest: subjects.Digest(r.Digest),
	}
	e.add(c)
	return c
}

func shownOf(v *wire.View) shown {
	if v == nil {
		return shown{}
	}
	return shown{rollcall.State(v.State), v.Activity, rollcall.Micros(v.Observed), rollcall.Micros(v.Seen), v.Version}
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
	if e == nil || !e.leased {
		return nil
	}
	return &wire.EdgeRecord{Incarnation: e.incarnation, Renewed: int64(e.renewed), Sequence: e.seq}
}

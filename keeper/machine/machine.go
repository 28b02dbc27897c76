package machine

import (
	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// Machine is the state of one shard. It is not safe for concurrent use.
type Machine struct {
	params rollcall.Params
	shard  uint32

	users     map[string]*user
	edges     map[string]*edge
	deadlines deadlines // users whose offline is due
	gone      []*user   // offline users, in the order of publication

	now     rollcall.Micros // highest store time applied
	resumed rollcall.Micros // when the log went on after its last gap
	seq     uint64          // last sequence applied
	// loaded is the highest sequence in the records: up to here the claims may
	// be ahead of the log that is being read again, so digests say nothing.
	loaded uint64
	ahead  []aheadView // views that the records do not explain; see Load

	// leaseCheck is the earliest instant at which a lease can have run out.
	leaseCheck rollcall.Micros

	dirtyUsers []*user
	dirtyEdges map[string]struct{}
	controls   controls
	departures []Departure
	stats      Stats
}

// New returns the machine of a shard that has no history.
func New(params rollcall.Params, shard int) *Machine {
	return &Machine{
		params: params, shard: uint32(shard),
		users: make(map[string]*user), edges: make(map[string]*edge), dirtyEdges: make(map[string]struct{}),
	}
}

// Now is the highest store time applied.
func (m *Machine) Now() rollcall.Micros { return m.now }

// Sequence is the last sequence applied.
func (m *Machine) Sequence() uint64 { return m.seq }

// Stats returns the counters.
func (m *Machine) Stats() Stats {
	s := m.stats
	s.Users, s.Edges, s.Connections, s.Online = len(m.users), len(m.edges), 0, m.stats.Online
	for _, e := range m.edges {
		s.Connections += len(e.claims)
	}
	return s
}

// A user is online while an endpoint has a current connection, and is shown
// online until the debounce is over.
type user struct {
	id        string
	endpoints []*endpoint
	seq       uint64 // last sequence applied here
	seen      rollcall.Micros
	offlineAt rollcall.Micros // when offline is due; 0 while not
	slot      int             // place in Machine.deadlines, −1 while not in it
	shown     shown
	left      departure

	dirty     bool // the record must be written
	viewDirty bool // the view must be written
	removed   bool // the record must be deleted
}

// shown is what the views bucket says. A version of 0 means that it says nothing.
type shown struct {
	state    rollcall.State
	activity string
	observed rollcall.Micros
	seen     rollcall.Micros
	version  uint64
}

// departure is how the last connection left, and from when its bound counts.
type departure struct {
	way   rollcall.Way
	since rollcall.Micros
}

type endpoint struct {
	user    *user
	device  string
	epoch   int64  // the newest seen, also of a connection that is gone
	current *claim // nil while offline
	stale   []*claim
}

// A claim is a connection that an edge says it holds.
type claim struct {
	claimKey
	endpoint *endpoint
	edge     *edge
	epoch    int64
	state    rollcall.State
	activity string
	digest   subjects.Digest
	roster   uint32 // the roster that last listed it
}

// claimKey names a connection of an edge. The incarnation matters when records
// are loaded of which only some were written after the edge had restarted.
type claimKey struct {
	incarnation uint64
	conn        uint64
}

func (c *claim) current() bool { return c.endpoint.current == c }

// newer orders two connections of an endpoint in the same way on both sides of a
// clock tick: by epoch, then by edge and number.
func (c *claim) newer(than *claim) bool {
	switch {
	case c.epoch != than.epoch:
		return c.epoch > than.epoch
	case c.edge.id != than.edge.id:
		return c.edge.id > than.edge.id
	}
	return c.conn > than.conn
}

type edge struct {
	id          string
	incarnation uint64
	renewed     rollcall.Micros
	seq         uint64 // last sequence that changed the lease
	claims      map[claimKey]*claim
	digest      subjects.Digest
	stale       int // claims that are not current

	roster      uint32 // number of the last roster begun
	rosterSince uint64 // its sequence while it is open, else 0
}

func newEdge(id string, incarnation uint64) *edge {
	return &edge{id: id, incarnation: incarnation, claims: make(map[claimKey]*claim)}
}

func (m *Machine) user(id string) *user {
	u := m.users[id]
	if u == nil {
		u = &user{id: id, slot: -1}
		m.users[id] = u
	}
	return u
}

func (u *user) endpoint(device string) *endpoint {
	for _, ep := range u.endpoints {
		if ep.device == device {
			return ep
		}
	}
	ep := &endpoint{user: u, device: device}
	u.endpoints = append(u.endpoints, ep)
	return ep
}

// touch notes that seq is applied to the user and that its record must be written.
func (m *Machine) touch(u *user, seq uint64) {
	u.seq = max(u.seq, seq)
	m.markDirty(u)
}

func (m *Machine) markDirty(u *user) {
	if !u.dirty {
		u.dirty = true
		m.dirtyUsers = append(m.dirtyUsers, u)
	}
}

func (m *Machine) touchEdge(e *edge, seq uint64) {
	e.seq = max(e.seq, seq)
	m.dirtyEdges[e.id] = struct{}{}
}

// clamp brings an edge's stamp into what can be true: not after now, and not
// longer ago than an edge buffers.
func (m *Machine) clamp(at int64) rollcall.Micros {
	oldest := max(m.now.Add(-m.params.Buffer), 0)
	if rollcall.Micros(at) < oldest {
		m.stats.Clamped++
		return oldest
	}
	return m.notAfterNow(at)
}

// notAfterNow is all the clamping that an epoch gets: raising one that is old
// could let it win over a newer connection, and a connection may be old.
func (m *Machine) notAfterNow(at int64) rollcall.Micros {
	if rollcall.Micros(at) > m.now {
		m.stats.Clamped++
		return m.now
	}
	return rollcall.Micros(at)
}

func stateOf(s wire.State) rollcall.State { return rollcall.State(s) }

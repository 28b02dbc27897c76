package machine

import (
	"cmp"
	"container/list"

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
	gone      list.List // offline users, in the order of publication

	now     rollcall.Micros // highest store time applied
	resumed rollcall.Micros // when the log went on after its last gap
	seq     uint64          // last sequence applied
	before  position        // where the log was before the last message
	saved   uint64          // the last checkpoint handed out
	replay  replay

	// leaseCheck is the earliest instant at which a lease can have run out.
	leaseCheck rollcall.Micros

	unsettled  []*user // whose connections changed; see settle
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
	s.Users = len(m.users)
	for _, e := range m.edges {
		s.Connections += len(e.claims)
		if e.leased {
			s.Leases++
		}
	}
	return s
}

// A user is online while an endpoint has a current connection, and is shown
// online until the debounce is over.
type user struct {
	id        string
	endpoints []*endpoint
	spare     *endpoint // room for the first one
	seq       uint64    // last sequence applied here
	loaded    uint64    // the sequence of the record that was loaded
	seen      rollcall.Micros
	offlineAt rollcall.Micros // when offline is due; 0 while not
	slot      int             // place in Machine.deadlines, −1 while not in it
	shown     shown
	left      departure
	gone      *list.Element // place in Machine.gone, nil while not in it

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
	endpoint    *endpoint
	edge        *edge
	incarnation uint64 // of a process after the edge's, if its record is ahead
	conn        uint64
	epoch       int64
	state       rollcall.State
	activity    string
	digest      subjects.Digest
	slot        int    // place in edge.claims
	roster      uint32 // the roster that last listed it
}

func (c *claim) current() bool { return c.endpoint.current == c }

// newer orders two connections of a user in the same way on both sides of a clock
// tick: by epoch, then by edge and number.
func (c *claim) newer(than *claim) bool {
	switch {
	case c.epoch != than.epoch:
		return c.epoch > than.epoch
	case c.edge.id != than.edge.id:
		return c.edge.id > than.edge.id
	}
	return cmp.Or(cmp.Compare(c.conn, than.conn), cmp.Compare(c.endpoint.device, than.endpoint.device)) > 0
}

// An edge without a lease is known only while records hold claims of it.
type edge struct {
	id          string
	leased      bool
	incarnation uint64
	renewed     rollcall.Micros
	seq         uint64   // last sequence that changed the lease
	loaded      uint64   // the sequence of the record that was loaded
	claims      []*claim // in no order
	digest      subjects.Digest
	stale       int // claims that are not current

	frame   uint64    // number of the last frame
	roster  uint32    // number of the last roster begun
	listing *position // where it began while it is open
}

func (e *edge) add(c *claim) {
	c.slot = len(e.claims)
	e.claims = append(e.claims, c)
	e.digest += c.digest
}

func (e *edge) remove(c *claim) {
	last := len(e.claims) - 1
	e.claims[c.slot] = e.claims[last]
	e.claims[c.slot].slot = c.slot
	e.claims[last] = nil
	e.claims = e.claims[:last]
	e.digest -= c.digest
}

func (e *edge) registered(incarnation uint64) bool {
	return e != nil && e.leased && e.incarnation == incarnation
}

// A position is a place in the log, and what time it was there.
type position struct {
	seq          uint64
	now, resumed rollcall.Micros
}

// newUser makes room for the first endpoint at once: most users have one.
func (m *Machine) newUser(id string) *user {
	single := &struct {
		user
		first     endpoint
		endpoints [1]*endpoint
	}{user: user{id: id, slot: -1}}
	u := &single.user
	u.endpoints, u.spare = single.endpoints[:0], &single.first
	m.users[id] = u
	return u
}

func (u *user) endpoint(device string) *endpoint {
	for _, ep := range u.endpoints {
		if ep.device == device {
			return ep
		}
	}
	ep := u.spare
	if ep == nil {
		ep = new(endpoint)
	}
	u.spare = nil
	ep.user, ep.device = u, device
	u.endpoints = append(u.endpoints, ep)
	return ep
}

// touch notes that seq is applied to the user and that its record must be written.
func (m *Machine) touch(u *user, seq uint64) {
	u.seq = max(u.seq, seq)
	m.markDirty(u)
}

// change is a touch of the user's connections.
func (m *Machine) change(u *user, seq uint64) {
	m.touch(u, seq)
	m.unsettled = append(m.unsettled, u)
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
	return m.within(max(m.now.Add(-m.params.Buffer), 0), at)
}

// epoch is clamped less: raising one that is old could let it win over a newer
// connection, and a connection may be old.
func (m *Machine) epoch(at int64) rollcall.Micros { return m.within(0, at) }

func (m *Machine) within(oldest rollcall.Micros, at int64) rollcall.Micros {
	clamped := min(max(rollcall.Micros(at), oldest), m.now)
	if clamped != rollcall.Micros(at) {
		m.stats.Clamped++
	}
	return clamped
}

// present is the state of a connection: whoever is connected is not offline.
func present(s wire.State) rollcall.State {
	return max(rollcall.State(s), rollcall.Background)
}

package machine

import (
	"cmp"
	"slices"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// A Source says who wrote a frame: an edge, or a keeper that lets time pass.
type Source struct {
	Edge string
	Tick bool
}

// Apply applies one message of the log: its store time, its sequence and its
// frame. Sequences that are not above the last one are ignored.
func (m *Machine) Apply(at rollcall.Micros, seq uint64, from Source, f *wire.Frame) {
	if !m.advance(at, seq) {
		return
	}
	if from.Tick {
		m.tick(seq)
		return
	}
	m.stats.Frames++
	if e := m.edges[from.Edge]; e != nil && f.Number != e.frame+1 {
		e.listing = nil // a frame is lost: it may have been a part of the roster
	}
	for _, entry := range f.Entries {
		m.stats.Entries++
		m.entry(seq, from.Edge, f.Incarnation, entry)
		m.settle(seq)
	}
	if e := m.edges[from.Edge]; e != nil {
		e.frame = f.Number
	}
}

// Pass notes a message that cannot be read. Its time and sequence count all the
// same; what it said is repaired by the next digest. It may have been a part of
// any roster, so that no open one can be believed to be whole.
func (m *Machine) Pass(at rollcall.Micros, seq uint64) {
	if !m.advance(at, seq) {
		return
	}
	m.stats.Malformed++
	for _, e := range m.edges {
		e.listing = nil
	}
}

// advance moves time and sequence on; it is false for a repetition.
func (m *Machine) advance(at rollcall.Micros, seq uint64) bool {
	if seq <= m.seq {
		return false
	}
	m.before = position{m.seq, m.now, m.resumed}
	m.seq = seq
	if m.now != 0 && at.Sub(m.now) > m.params.Outage {
		m.resumed = at
		m.stats.Gaps++
	}
	m.now = max(m.now, at)
	m.adoptAhead()
	return true
}

func (m *Machine) entry(seq uint64, edgeID string, incarnation uint64, entry *wire.Entry) {
	if entry.Kind == wire.Kind_KIND_HELLO {
		m.hello(seq, edgeID, incarnation)
		return
	}
	e := m.edges[edgeID]
	if !e.registered(incarnation) {
		if e != nil && !e.leased {
			e.renewed = m.now // it is alive, and registers when it is told to
		}
		m.stats.Unregistered++
		m.tell(seq, edgeID, incarnation, wire.Control_KIND_UNREGISTERED)
		return
	}
	switch entry.Kind {
	case wire.Kind_KIND_OPEN:
		m.open(seq, e, entry)
	case wire.Kind_KIND_STATE:
		m.state(seq, e, entry)
	case wire.Kind_KIND_CLOSE:
		m.close(seq, e, entry)
	case wire.Kind_KIND_RENEW:
		m.renew(seq, e, entry)
	case wire.Kind_KIND_ROSTER_BEGIN:
		m.rosterBegin(e)
	case wire.Kind_KIND_ROSTER:
		m.rosterEntry(seq, e, entry)
	case wire.Kind_KIND_ROSTER_END:
		m.rosterEnd(seq, e)
	case wire.Kind_KIND_LEAVE:
		m.leave(seq, e)
	default: // of a newer writer
		m.stats.Ignored++
	}
}

// find returns the connection of a user, who is nil if unknown, of which an entry
// of the edge's present process speaks. The user is a part of its name, although
// its number would do: so an entry can depend on no other user's record, which may
// be ahead in a replay.
func (u *user) find(e *edge, entry *wire.Entry) *claim {
	if u == nil {
		return nil
	}
	for _, ep := range u.endpoints {
		if ep.device == entry.Device {
			return ep.claim(e, entry.Conn)
		}
	}
	return nil
}

func (ep *endpoint) claim(e *edge, conn uint64) *claim {
	if c := ep.current; c != nil && c.is(e, conn) {
		return c
	}
	for _, c := range ep.stale {
		if c.is(e, conn) {
			return c
		}
	}
	return nil
}

func (c *claim) is(e *edge, conn uint64) bool {
	return c.edge == e && c.incarnation == e.incarnation && c.conn == conn
}

// open adds a claim and makes it current unless a newer connection of its
// endpoint is known.
func (m *Machine) open(seq uint64, e *edge, entry *wire.Entry) {
	u := m.users[entry.User]
	if c := u.find(e, entry); c != nil {
		c.roster = e.roster
		m.setState(seq, c, entry) // a repetition is news of the state
		return
	}
	if m.recorded(u, seq) {
		return
	}
	if u == nil {
		u = m.newUser(entry.User)
	}
	c := m.claim(e, u.endpoint(entry.Device), entry)
	m.change(u, seq)
	if m.isStale(c) {
		m.stats.RejectedStale++
		m.setStale(seq, c)
		return
	}
	m.setCurrent(seq, c)
	if u.shown.state == rollcall.Offline && rollcall.Micros(c.epoch) < u.shown.observed {
		m.stats.FalseOfflines++
	}
}

// isStale says whether a newer connection of the endpoint is or was there. One of
// the very same epoch is the connection itself, back after its lease was lost.
func (m *Machine) isStale(c *claim) bool {
	if current := c.endpoint.current; current != nil {
		return current.newer(c)
	}
	return c.epoch < c.endpoint.epoch
}

func (m *Machine) setCurrent(seq uint64, c *claim) {
	ep := c.endpoint
	if ep.current != nil {
		m.setStale(seq, ep.current)
	} else {
		m.stats.DeviceFlips++
	}
	ep.current, ep.epoch = c, c.epoch
}

// claim adds what an edge says it holds; whether it counts is decided later.
func (m *Machine) claim(e *edge, ep *endpoint, entry *wire.Entry) *claim {
	c := &claim{
		incarnation: e.incarnation, conn: entry.Conn, endpoint: ep, edge: e, epoch: int64(m.epoch(entry.Epoch)),
		state: present(entry.State), activity: entry.Activity, digest: digestOf(entry), roster: e.roster,
	}
	e.add(c)
	return c
}

func (m *Machine) state(seq uint64, e *edge, entry *wire.Entry) {
	c := m.users[entry.User].find(e, entry)
	if c == nil {
		m.stats.Ignored++ // lost with its open; the digest brings both back
		return
	}
	m.setState(seq, c, entry)
}

func (m *Machine) setState(seq uint64, c *claim, entry *wire.Entry) {
	d := digestOf(entry)
	if d == c.digest || m.recorded(c.endpoint.user, seq) {
		return
	}
	c.edge.digest += d - c.digest
	c.digest, c.state, c.activity = d, present(entry.State), entry.Activity
	m.change(c.endpoint.user, seq)
}

// close ends exactly the connection that it names. A connection that is no longer
// current ends without any effect on its user.
func (m *Machine) close(seq uint64, e *edge, entry *wire.Entry) {
	c := m.users[entry.User].find(e, entry)
	switch {
	case c == nil:
		m.stats.Ignored++
		return
	case m.recorded(c.endpoint.user, seq):
		return
	}
	if !c.current() && entry.Reason != wire.Reason_REASON_REPLACED {
		m.stats.RejectedStale++
	}
	left := departure{rollcall.WayClose, m.clamp(cmp.Or(entry.At, int64(m.now)))}
	seen := m.clamp(cmp.Or(entry.Seen, int64(left.since)))
	if entry.Reason == wire.Reason_REASON_PING_TIMEOUT {
		left = departure{rollcall.WayHalfOpen, seen}
	}
	m.drop(seq, c, left, seen)
}

// drop removes a claim, and its connection if it is the current one.
func (m *Machine) drop(seq uint64, c *claim, left departure, seen rollcall.Micros) {
	ep, u, e := c.endpoint, c.endpoint.user, c.edge
	e.remove(c)
	if c.current() {
		ep.current = nil
		u.left = left
		u.seen = max(u.seen, seen)
		m.stats.DeviceFlips++
	} else {
		e.stale--
		ep.removeStale(c)
	}
	u.forgetDevice()
	m.change(u, seq)
}

// setStale keeps a claim that is not current, so that its edge's digest is still
// understood, and tells the edge.
func (m *Machine) setStale(seq uint64, c *claim) {
	c.endpoint.stale = append(c.endpoint.stale, c)
	c.edge.stale++
	m.tell(seq, c.edge.id, c.incarnation, wire.Control_KIND_SUPERSEDED, c.conn)
}

func (ep *endpoint) removeStale(c *claim) {
	if i := slices.Index(ep.stale, c); i >= 0 {
		ep.stale = slices.Delete(ep.stale, i, i+1)
	}
}

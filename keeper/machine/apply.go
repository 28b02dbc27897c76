package machine

import (
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
	for _, entry := range f.Entries {
		m.stats.Entries++
		m.entry(seq, from.Edge, f.Incarnation, entry)
	}
}

// Pass notes a message that cannot be read. Its time and sequence count all the
// same; what it said is repaired by the next digest.
func (m *Machine) Pass(at rollcall.Micros, seq uint64) {
	if m.advance(at, seq) {
		m.stats.Malformed++
	}
}

// advance moves time and sequence on; it is false for a repetition.
func (m *Machine) advance(at rollcall.Micros, seq uint64) bool {
	if seq <= m.seq {
		return false
	}
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
	if e == nil || e.incarnation != incarnation {
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
		e.roster++
		e.rosterSince = seq
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

// key names a connection of the edge's present process.
func (e *edge) key(conn uint64) claimKey { return claimKey{e.incarnation, conn} }

// open adds a claim and makes it current unless a newer connection of its
// endpoint is known.
func (m *Machine) open(seq uint64, e *edge, entry *wire.Entry) {
	u := m.user(entry.User)
	c := e.claims[e.key(entry.Conn)]
	if c != nil {
		c.roster = e.roster
	}
	switch {
	case seq <= u.seq:
		return // in the record that was loaded
	case c != nil:
		m.reopen(seq, c, entry)
		return
	}
	ep := u.endpoint(entry.Device)
	c = &claim{
		claimKey: e.key(entry.Conn), endpoint: ep, edge: e, epoch: int64(m.notAfterNow(entry.Epoch)),
		state: stateOf(entry.State), activity: entry.Activity, digest: digestOf(entry), roster: e.roster,
	}
	e.claims[c.claimKey] = c
	e.digest += c.digest
	m.touch(u, seq)
	if m.isStale(c) {
		m.stats.RejectedStale++
		m.setStale(seq, c)
		return
	}
	if old := ep.current; old != nil {
		m.setStale(seq, old)
	} else {
		m.stats.DeviceFlips++
	}
	ep.current, ep.epoch = c, c.epoch
	if u.shown.state == rollcall.Offline && rollcall.Micros(c.epoch) < u.shown.observed {
		m.stats.FalseOfflines++
	}
	m.show(u, seq)
}

// isStale says whether a newer connection of the endpoint is or was there. One of
// the very same epoch is the connection itself, back after its lease was lost.
func (m *Machine) isStale(c *claim) bool {
	if current := c.endpoint.current; current != nil {
		return current.newer(c)
	}
	return c.epoch < c.endpoint.epoch
}

// reopen takes a repetition of an open as news of the state.
func (m *Machine) reopen(seq uint64, c *claim, entry *wire.Entry) {
	if c.endpoint.device != entry.Device || c.endpoint.user.id != entry.User {
		m.stats.Malformed++
		return
	}
	m.setState(seq, c, entry)
}

func (m *Machine) state(seq uint64, e *edge, entry *wire.Entry) {
	c := e.claims[e.key(entry.Conn)]
	if c == nil || c.endpoint.user.id != entry.User {
		m.stats.Ignored++ // lost with its open; the digest brings both back
		return
	}
	if seq > c.endpoint.user.seq {
		m.setState(seq, c, entry)
	}
}

func (m *Machine) setState(seq uint64, c *claim, entry *wire.Entry) {
	d := digestOf(entry)
	if d == c.digest {
		return
	}
	c.edge.digest += d - c.digest
	c.digest, c.state, c.activity = d, stateOf(entry.State), entry.Activity
	m.touch(c.endpoint.user, seq)
	m.show(c.endpoint.user, seq)
}

// close ends exactly the connection that it names. A connection that is no longer
// current ends without any effect on its user.
func (m *Machine) close(seq uint64, e *edge, entry *wire.Entry) {
	c := e.claims[e.key(entry.Conn)]
	if c == nil || c.endpoint.user.id != entry.User {
		m.stats.Ignored++
		return
	}
	if seq <= c.endpoint.user.seq {
		return
	}
	if !c.current() && entry.Reason != wire.Reason_REASON_REPLACED {
		m.stats.RejectedStale++
	}
	left := departure{rollcall.WayClose, m.clamp(entry.At)}
	seen := left.since
	if entry.Seen != 0 {
		seen = m.clamp(entry.Seen)
	}
	if entry.Reason == wire.Reason_REASON_PING_TIMEOUT {
		left = departure{rollcall.WayHalfOpen, seen}
	}
	m.drop(seq, c, left, seen)
}

// drop removes a claim, and its connection if it is the current one.
func (m *Machine) drop(seq uint64, c *claim, left departure, seen rollcall.Micros) {
	ep, u, e := c.endpoint, c.endpoint.user, c.edge
	delete(e.claims, c.claimKey)
	e.digest -= c.digest
	if c.current() {
		ep.current = nil
		u.left = left
		u.seen = max(u.seen, seen)
		m.stats.DeviceFlips++
	} else {
		e.stale--
		ep.removeStale(c)
	}
	m.touch(u, seq)
	m.show(u, seq)
}

// setStale keeps a claim that is not current, so that its edge's digest is still
// understood, and tells the edge.
func (m *Machine) setStale(seq uint64, c *claim) {
	c.endpoint.stale = append(c.endpoint.stale, c)
	c.edge.stale++
	m.tell(seq, c.edge.id, c.incarnation, wire.Control_KIND_SUPERSEDED, c.conn)
}

func (ep *endpoint) removeStale(c *claim) {
	for i, s := range ep.stale {
		if s == c {
			ep.stale = append(ep.stale[:i], ep.stale[i+1:]...)
			return
		}
	}
}

package machine

import (
	"cmp"
	"slices"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// hello registers an edge. A process that was not known before ends everything
// that an earlier one held under the same id.
func (m *Machine) hello(seq uint64, id string, incarnation uint64) {
	e := m.edges[id]
	if e == nil {
		e = &edge{id: id}
		m.edges[id] = e
	}
	e.listing = nil // whoever registers has begun anew
	if seq <= e.loaded {
		return
	}
	if e.leased && e.incarnation != incarnation {
		m.stats.EdgeRestarts++
	}
	e.leased, e.incarnation = true, incarnation
	m.dropIf(seq, e, departure{rollcall.WayEdgeRestart, m.now}, func(c *claim) bool { return c.incarnation != incarnation })
	m.extend(seq, e)
}

// renew extends the lease and compares what the edge holds with what it claimed.
func (m *Machine) renew(seq uint64, e *edge, entry *wire.Entry) {
	if e.listing != nil && m.now.Sub(e.listing.now) > m.params.LeaseTTL {
		e.listing = nil // its end is lost, and no checkpoint passes it
	}
	if seq <= e.loaded {
		return
	}
	m.stats.Renewals++
	m.stats.RenewedConnections += entry.Count
	m.extend(seq, e)
	if seq <= m.replay.end {
		return
	}
	if entry.Count != uint64(len(e.claims)) || subjects.Digest(entry.Digest) != e.digest {
		m.stats.Mismatches++
		m.tell(seq, e.id, e.incarnation, wire.Control_KIND_RESYNC)
	}
	if e.stale > 0 { // the edge did not hear of it, or its close is on the way
		for _, c := range e.sorted() {
			if !c.current() {
				m.tell(seq, e.id, c.incarnation, wire.Control_KIND_SUPERSEDED, c.conn)
			}
		}
	}
}

func (m *Machine) extend(seq uint64, e *edge) {
	e.renewed = m.now
	m.touchEdge(e, seq)
	m.watchLease(e)
}

func (m *Machine) watchLease(e *edge) {
	if ends := m.leaseEnds(e); m.leaseCheck == 0 || ends < m.leaseCheck {
		m.leaseCheck = ends
	}
}

// leaseEnds is when the lease runs out if nothing more is heard. After a gap in
// the log every edge gets one longest renewal to speak.
func (m *Machine) leaseEnds(e *edge) rollcall.Micros {
	ends := e.renewed.Add(m.params.LeaseTTL)
	if m.resumed != 0 {
		ends = max(ends, m.resumed.Add(m.params.LongestRenewal()))
	}
	return ends
}

// leave is the polite end of a lease.
func (m *Machine) leave(seq uint64, e *edge) {
	if seq <= e.loaded {
		return
	}
	m.dropAll(seq, e, departure{rollcall.WayClose, m.now})
	m.removeEdge(e)
}

// expire ends the leases that have run out.
func (m *Machine) expire(seq uint64) {
	if m.leaseCheck == 0 || m.now < m.leaseCheck {
		return
	}
	m.leaseCheck = 0
	var dead []*edge
	for _, e := range m.edges {
		if m.leaseEnds(e) <= m.now {
			dead = append(dead, e)
		} else {
			m.watchLease(e)
		}
	}
	slices.SortFunc(dead, func(a, b *edge) int { // who was on several edges left with the last one
		return cmp.Or(cmp.Compare(a.renewed, b.renewed), cmp.Compare(a.id, b.id))
	})
	for _, e := range dead {
		if e.leased {
			m.stats.LeaseExpiries++
		}
		m.dropAll(seq, e, departure{rollcall.WayEdgeCrash, e.renewed})
		m.removeEdge(e)
	}
}

// removeEdge ends a lease. What is left of the claims belongs to users whose
// records are ahead of the log that is being read again: the edge will be back
// before they are reached.
func (m *Machine) removeEdge(e *edge) {
	e.leased, e.listing = false, nil
	if len(e.claims) == 0 {
		delete(m.edges, e.id)
	} else {
		m.watchLease(e)
	}
	m.dirtyEdges[e.id] = struct{}{}
}

// dropAll ends every claim of an edge.
func (m *Machine) dropAll(seq uint64, e *edge, left departure) {
	m.dropIf(seq, e, left, func(*claim) bool { return true })
}

// dropIf ends some claims of an edge. The last sign of life that is known of its
// devices is the last renewal, or that they came.
func (m *Machine) dropIf(seq uint64, e *edge, left departure, chosen func(*claim) bool) (dropped int) {
	if len(e.claims) == 0 {
		return 0
	}
	for _, c := range e.sorted() {
		if chosen(c) && !m.recorded(c.endpoint.user, seq) {
			m.drop(seq, c, left, max(e.renewed, rollcall.Micros(c.epoch)))
			dropped++
		}
	}
	return dropped
}

// sorted lists the claims in a fixed order, so that a replay does the same things
// in the same order.
func (e *edge) sorted() []*claim {
	claims := slices.Clone(e.claims)
	slices.SortFunc(claims, func(a, b *claim) int {
		return cmp.Or(cmp.Compare(a.incarnation, b.incarnation), cmp.Compare(a.conn, b.conn),
			cmp.Compare(a.endpoint.user.id, b.endpoint.user.id), cmp.Compare(a.endpoint.device, b.endpoint.device))
	})
	return claims
}

// rosterBegin opens a roster. It is remembered where, because its marks are in no
// record: a restarted keeper reads it again.
func (m *Machine) rosterBegin(e *edge) {
	begin := m.before
	e.listing = &begin
	e.roster++
}

// rosterEntry is a connection that the edge holds; what differs is repaired.
func (m *Machine) rosterEntry(seq uint64, e *edge, entry *wire.Entry) {
	before := e.digest
	if m.open(seq, e, entry); e.digest != before {
		m.stats.Repaired++
	}
}

// rosterEnd drops what the edge no longer holds. The end of a roster whose begin
// was not seen says nothing.
func (m *Machine) rosterEnd(seq uint64, e *edge) {
	if e.listing == nil {
		return
	}
	e.listing = nil
	unlisted := func(c *claim) bool { return c.roster != e.roster }
	m.stats.Repaired += uint64(m.dropIf(seq, e, departure{rollcall.WayRepaired, m.now}, unlisted))
}

func digestOf(entry *wire.Entry) subjects.Digest {
	return subjects.ConnDigest(entry.User, entry.Device, entry.Epoch, entry.State, entry.Activity)
}

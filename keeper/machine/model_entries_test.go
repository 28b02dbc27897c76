package machine

import (
	"cmp"
	"slices"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// entry is one entry of an edge's frame.
func (m *model) entry(edge string, incarnation uint64, e *wire.Entry) {
	defer m.settle()
	if e.Kind == wire.Kind_KIND_HELLO {
		m.hello(edge, incarnation)
		return
	}
	l := m.lease(edge)
	if l == nil || l.incarnation != incarnation {
		m.controls[modelControl{edge, incarnation, 0, wire.Control_KIND_UNREGISTERED}] = true
		return
	}
	switch e.Kind {
	case wire.Kind_KIND_OPEN, wire.Kind_KIND_ROSTER:
		if l.listed != nil {
			l.listed[modelID{e.Conn, e.User, e.Device}] = true
		}
		m.open(l, e)
	case wire.Kind_KIND_STATE:
		if c := m.find(l, e); c != nil {
			c.update(e)
		}
	case wire.Kind_KIND_CLOSE:
		m.close(l, e)
	case wire.Kind_KIND_RENEW:
		m.renew(l, e)
	case wire.Kind_KIND_ROSTER_BEGIN:
		l.listed, l.began = make(map[modelID]bool), m.was
	case wire.Kind_KIND_ROSTER_END:
		if listed := l.listed; listed != nil {
			l.listed = nil
			m.end(edge, rollcall.WayRepaired, m.now, func(c modelClaim) bool { return !listed[modelID{c.conn, c.user, c.device}] })
		}
	case wire.Kind_KIND_LEAVE:
		m.end(edge, rollcall.WayClose, m.now, func(modelClaim) bool { return true })
		m.unlease(edge)
	}
}

func (m *model) find(l *modelLease, e *wire.Entry) *modelClaim {
	for i, c := range m.held {
		if c.edge == l.edge && c.incarnation == l.incarnation && c.conn == e.Conn && c.user == e.User && c.device == e.Device {
			return &m.held[i]
		}
	}
	return nil
}

func (c *modelClaim) update(e *wire.Entry) {
	c.rawEpoch, c.state, c.activity = e.Epoch, e.State, e.Activity
}

func (m *model) hello(edge string, incarnation uint64) {
	l := m.lease(edge)
	if l == nil {
		m.leases = append(m.leases, modelLease{edge: edge, incarnation: incarnation, renewed: m.now})
		return
	}
	if l.incarnation != incarnation {
		m.end(edge, rollcall.WayEdgeRestart, m.now, func(modelClaim) bool { return true })
	}
	l.incarnation, l.renewed, l.listed = incarnation, m.now, nil
}

func (m *model) open(l *modelLease, e *wire.Entry) {
	if c := m.find(l, e); c != nil {
		c.update(e)
		return
	}
	c := modelClaim{l.edge, l.incarnation, e.Conn, e.User, e.Device, min(max(e.Epoch, 0), int64(m.now)), e.Epoch, e.State, e.Activity}
	last, any := m.lastAccepted(c.user, c.device)
	stale := any && c.epoch < last.epoch
	if any && m.isHeld(last) {
		stale = modelOrder(c, last) < 0
		m.supersede(map[bool]modelClaim{true: c, false: last}[stale])
	} else if stale {
		m.supersede(c)
	}
	m.held = append(m.held, c)
	if !stale {
		m.accepted = append(m.accepted, c)
	}
}

func (m *model) supersede(c modelClaim) {
	m.controls[modelControl{c.edge, c.incarnation, c.conn, wire.Control_KIND_SUPERSEDED}] = true
}

func (m *model) close(l *modelLease, e *wire.Entry) {
	c := m.find(l, e)
	if c == nil {
		return
	}
	since := m.clamp(e.At)
	seen := since
	if e.Seen != 0 {
		seen = m.clamp(e.Seen)
	}
	way := rollcall.WayClose
	if e.Reason == wire.Reason_REASON_PING_TIMEOUT {
		way, since = rollcall.WayHalfOpen, seen
	}
	m.endOne(*c, way, since, seen)
}

func (m *model) clamp(at int64) rollcall.Micros {
	if at == 0 {
		return m.now
	}
	return min(max(rollcall.Micros(at), m.now.Add(-m.params.Buffer), 0), m.now)
}

func (m *model) renew(l *modelLease, e *wire.Entry) {
	if l.listed != nil && m.now.Sub(l.began) > m.params.LeaseTTL {
		l.listed = nil
	}
	l.renewed = m.now
	if count, digest := m.digest(l.edge); count != e.Count || digest != e.Digest {
		m.mismatches++
		m.controls[modelControl{l.edge, l.incarnation, 0, wire.Control_KIND_RESYNC}] = true
	}
	for _, c := range m.held {
		if c.edge == l.edge && !m.isCurrent(c) {
			m.supersede(c)
		}
	}
}

// end takes connections away from an edge. Its last renewal, or that they came, is
// the last that is known of them.
func (m *model) end(edge string, way rollcall.Way, since rollcall.Micros, chosen func(modelClaim) bool) {
	l := m.lease(edge)
	for _, c := range m.heldInOrder(edge) {
		if chosen(c) {
			m.endOne(c, way, since, max(l.renewed, rollcall.Micros(c.epoch)))
		}
	}
}

func (m *model) heldInOrder(edge string) (held []modelClaim) {
	for _, c := range m.held {
		if c.edge == edge {
			held = append(held, c)
		}
	}
	slices.SortFunc(held, func(a, b modelClaim) int {
		return cmp.Or(cmp.Compare(a.conn, b.conn), cmp.Compare(a.user, b.user), cmp.Compare(a.device, b.device))
	})
	return held
}

func (m *model) endOne(c modelClaim, way rollcall.Way, since, seen rollcall.Micros) {
	if m.isCurrent(c) {
		m.lives = append(m.lives, modelSign{c.user, seen})
		m.leaving = append(m.leaving, modelDeparture{c.user, way, since})
	}
	m.held = slices.DeleteFunc(m.held, c.same)
}

func (m *model) unlease(edge string) {
	m.leases = slices.DeleteFunc(m.leases, func(l modelLease) bool { return l.edge == edge })
}

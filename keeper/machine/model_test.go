package machine

import (
	"cmp"
	"slices"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// A model is what the machine must do, written without any care for cost: flat
// lists that are searched, and everything that can be computed is computed anew.
type model struct {
	params       rollcall.Params
	now, resumed rollcall.Micros
	was          rollcall.Micros // now before the message
	seq          uint64

	leases    []modelLease
	held      []modelClaim // what edges say they hold
	accepted  []modelClaim // every connection that was ever current, in order
	published []modelView
	offline   []modelDeadline
	lives     []modelSign // signs of life of connections that ended
	leaving   []modelDeparture

	controls   map[modelControl]bool
	departures []Departure
	mismatches uint64
}

type modelLease struct {
	edge        string
	incarnation uint64
	renewed     rollcall.Micros
	listed      map[modelID]bool // of the open roster; nil while none is open
	began       rollcall.Micros
	frame       uint64
}

// modelID names a connection of one process of an edge.
type modelID struct {
	conn         uint64
	user, device string
}

type modelClaim struct {
	edge              string
	incarnation, conn uint64
	user, device      string
	epoch, rawEpoch   int64
	state             wire.State
	activity          string
}

// same says whether this is one and the same connection, in whatever state.
func (c modelClaim) same(d modelClaim) bool {
	return c.edge == d.edge && c.incarnation == d.incarnation && c.conn == d.conn && c.user == d.user && c.device == d.device && c.epoch == d.epoch
}

type modelView struct {
	user  string
	shown shown
}

type modelDeadline struct {
	user string
	at   rollcall.Micros
}

type modelSign struct {
	user string
	at   rollcall.Micros
}

type modelDeparture struct {
	user  string
	way   rollcall.Way
	since rollcall.Micros
}

type modelControl struct {
	edge              string
	incarnation, conn uint64
	kind              wire.Control_Kind
}

func newModel(p rollcall.Params) *model {
	return &model{params: p, controls: make(map[modelControl]bool)}
}

// begin is the arrival of a message of any kind.
func (m *model) begin(at rollcall.Micros, seq uint64) {
	m.seq, m.was = seq, m.now
	if m.now > 0 && at > m.now.Add(m.params.Outage) {
		m.resumed = at
	}
	if at > m.now {
		m.now = at
	}
}

func (m *model) pass() {
	for i := range m.leases {
		m.leases[i].listed = nil
	}
}

func (m *model) frame(edge string, number uint64) {
	if l := m.lease(edge); l != nil && number != l.frame+1 {
		l.listed = nil
	}
}

func (m *model) framed(edge string, number uint64) {
	if l := m.lease(edge); l != nil {
		l.frame = number
	}
}

func (m *model) lease(edge string) *modelLease {
	for i := range m.leases {
		if m.leases[i].edge == edge {
			return &m.leases[i]
		}
	}
	return nil
}

// digest is what the edge's renewal would say if nothing were lost.
func (m *model) digest(edge string) (count uint64, digest uint64) {
	for _, c := range m.held {
		if c.edge == edge {
			count++
			digest += uint64(subjects.ConnDigest(c.user, c.device, c.rawEpoch, c.state, c.activity))
		}
	}
	return count, digest
}

// current lists the connections that count for a user: of each endpoint the last
// that was accepted, if it is still held. They are as they were opened; held has
// their present state.
func (m *model) current(user string) (counting []modelClaim) {
	for _, c := range m.held {
		if c.user == user && m.isCurrent(c) {
			counting = append(counting, c)
		}
	}
	return counting
}

func (m *model) isCurrent(c modelClaim) bool {
	last, ok := m.lastAccepted(c.user, c.device)
	return ok && last.same(c)
}

func (m *model) lastAccepted(user, device string) (modelClaim, bool) {
	for _, c := range slices.Backward(m.accepted) {
		if c.user == user && c.device == device {
			return c, true
		}
	}
	return modelClaim{}, false
}

func (m *model) isHeld(c modelClaim) bool { return slices.ContainsFunc(m.held, c.same) }

func (m *model) shown(user string) shown {
	for _, v := range slices.Backward(m.published) {
		if v.user == user {
			return v.shown
		}
	}
	return shown{}
}

func (m *model) seen(user string) (latest rollcall.Micros) {
	for _, s := range m.lives {
		if s.user == user {
			latest = max(latest, s.at)
		}
	}
	return latest
}

func (m *model) deadline(user string) rollcall.Micros {
	for _, d := range m.offline {
		if d.user == user {
			return d.at
		}
	}
	return 0
}

func (m *model) clearDeadline(user string) {
	m.offline = slices.DeleteFunc(m.offline, func(d modelDeadline) bool { return d.user == user })
}

func (m *model) publish(user string, state rollcall.State, activity string) {
	m.published = append(m.published, modelView{user, shown{state, activity, m.now, m.seen(user), m.seq}})
}

// settle brings what is shown of everybody in line with what is held.
func (m *model) settle() {
	users := make(map[string]bool)
	for _, c := range m.accepted {
		users[c.user] = true
	}
	for user := range users {
		counting := m.current(user)
		if len(counting) == 0 {
			if m.shown(user).state != rollcall.Offline && m.deadline(user) == 0 {
				m.offline = append(m.offline, modelDeadline{user, m.now.Add(m.params.Debounce)})
			}
			continue
		}
		m.clearDeadline(user)
		best := slices.MaxFunc(counting, func(a, b modelClaim) int {
			return cmp.Or(cmp.Compare(max(a.state, 1), max(b.state, 1)), modelOrder(a, b))
		})
		was := m.shown(user)
		if state := rollcall.State(max(best.state, 1)); was.version == 0 || was.state != state || was.activity != best.activity {
			m.publish(user, state, best.activity)
		}
	}
}

func modelOrder(a, b modelClaim) int {
	return cmp.Or(cmp.Compare(a.epoch, b.epoch), cmp.Compare(a.edge, b.edge), cmp.Compare(a.conn, b.conn), cmp.Compare(a.device, b.device))
}

// tick lets leases and debounces end.
func (m *model) tick() {
	oldestFirst := func(a, b modelLease) int {
		return cmp.Or(cmp.Compare(a.renewed, b.renewed), cmp.Compare(a.edge, b.edge))
	}
	for _, l := range slices.SortedFunc(slices.Values(m.leases), oldestFirst) {
		ends := l.renewed.Add(m.params.LeaseTTL)
		if m.resumed != 0 {
			ends = max(ends, m.resumed.Add(m.params.LongestRenewal()))
		}
		if ends <= m.now {
			m.end(l.edge, rollcall.WayEdgeCrash, l.renewed, func(modelClaim) bool { return true })
			m.unlease(l.edge)
		}
	}
	m.settle()
	for _, d := range slices.Clone(m.offline) {
		due := d.at
		if m.resumed != 0 {
			due = max(due, m.resumed.Add(m.params.Debounce))
		}
		if due <= m.now {
			m.clearDeadline(d.user)
			m.publish(d.user, rollcall.Offline, "")
			m.depart(d.user)
		}
	}
}

func (m *model) depart(user string) {
	for _, l := range slices.Backward(m.leaving) {
		if l.user == user {
			m.departures = append(m.departures, Departure{user, l.way, time.Duration(m.now-l.since) * time.Microsecond})
			return
		}
	}
}

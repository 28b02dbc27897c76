package machine

import (
	"maps"
	"slices"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// Changes is what must be written and said after some messages were applied.
// Write Views, then Users, then Edges, each completely before the next.
type Changes struct {
	Views []View
	Users []User
	Edges []Edge
	// Controls are sent after the records are written. They may be lost: the
	// next renewal repeats what still holds.
	Controls   []Control
	Departures []Departure
}

// View is the published state of a user.
type View struct {
	User   string
	Record *wire.View
}

// User is the record of a user; nil deletes it.
type User struct {
	ID     string
	Record *wire.UserRecord
}

// Edge is the record of a lease; nil deletes it.
type Edge struct {
	ID     string
	Record *wire.EdgeRecord
}

// Control is a message to an edge.
type Control struct {
	Edge    string
	Message *wire.Control
}

// Departure is one user's offline, measured: Latency counts from when the bound
// of Way counts.
type Departure struct {
	User    string
	Way     rollcall.Way
	Latency time.Duration
}

// Take returns the changes since the last Take.
func (m *Machine) Take() Changes {
	var c Changes
	for _, u := range m.dirtyUsers {
		u.dirty = false
		if u.viewDirty {
			u.viewDirty = false
			if !m.replay.published(u) {
				c.Views = append(c.Views, View{u.id, u.view()})
			}
		}
		switch {
		case !u.removed:
			c.Users = append(c.Users, User{u.id, u.record()})
		case m.users[u.id] == nil: // and not back under the same id
			c.Users = append(c.Users, User{u.id, nil})
		}
	}
	clear(m.dirtyUsers)
	m.dirtyUsers = m.dirtyUsers[:0]
	for _, id := range slices.Sorted(maps.Keys(m.dirtyEdges)) {
		c.Edges = append(c.Edges, Edge{id, m.edges[id].record()})
	}
	clear(m.dirtyEdges)
	c.Controls, m.controls = m.controls.messages(m.shard), controls{}
	c.Departures, m.departures = m.departures, nil
	return c
}

// Checkpoint is where a machine that loads the records written so far must read
// on. It stays before an open roster, whose marks no record holds. Write it before
// the next changes are taken: what no restart needs any more is then forgotten.
func (m *Machine) Checkpoint() *wire.CheckpointRecord {
	at := position{m.seq, m.now, m.resumed}
	for _, e := range m.edges {
		if e.listing != nil && e.listing.seq < at.seq {
			at = *e.listing
		}
	}
	m.saved = at.seq
	return &wire.CheckpointRecord{Sequence: at.seq, Now: int64(at.now), Resumed: int64(at.resumed)}
}

// ResyncAll asks every edge for its roster, also those that are sending one: the
// log has lost some of what they said.
func (m *Machine) ResyncAll() {
	m.stats.LogLost++
	for _, id := range slices.Sorted(maps.Keys(m.edges)) {
		e := m.edges[id]
		e.listing = nil
		m.controls.add(e.id, e.incarnation, wire.Control_KIND_RESYNC)
	}
}

// tell queues a control message, unless the log is only being read again.
func (m *Machine) tell(seq uint64, edge string, incarnation uint64, kind wire.Control_Kind, conns ...uint64) {
	if seq > m.replay.end {
		m.controls.add(edge, incarnation, kind, conns...)
	}
}

// controls merges what is said to one edge between two Takes.
type controls struct {
	order []controlKey
	conns map[controlKey][]uint64
}

type controlKey struct {
	edge        string
	incarnation uint64
	kind        wire.Control_Kind
}

func (c *controls) add(edge string, incarnation uint64, kind wire.Control_Kind, conns ...uint64) {
	key := controlKey{edge, incarnation, kind}
	if _, queued := c.conns[key]; !queued {
		if c.conns == nil {
			c.conns = make(map[controlKey][]uint64)
		}
		c.order = append(c.order, key)
	}
	c.conns[key] = append(c.conns[key], conns...)
}

// maxConns keeps a control message far below every message limit.
const maxConns = 10_000

func (c *controls) messages(shard uint32) (out []Control) {
	for _, key := range c.order {
		conns := c.conns[key]
		for first := true; first || len(conns) > 0; first = false {
			n := min(len(conns), maxConns)
			out = append(out, Control{key.edge, &wire.Control{
				Version: subjects.WireVersion, Kind: key.kind, Shard: shard, Incarnation: key.incarnation, Conns: conns[:n],
			}})
			conns = conns[n:]
		}
	}
	return out
}

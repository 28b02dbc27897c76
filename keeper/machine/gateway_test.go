package machine

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// A gateway is an edge's truth: the connections that it holds, and what it says.
type gateway struct {
	world       *world
	id          string
	incarnation uint64
	number      uint64                 // of the last frame
	last        uint64                 // of the last connection
	conns       map[uint64]*wire.Entry // as they were told
	inbox       []*wire.Control
	renewed     rollcall.Micros
	cut         bool // dead, or without network: says and hears nothing
	loses       func() bool
	inboxClosed bool // hears nothing
}

// say appends one frame. A store that loses it has acknowledged it.
func (g *gateway) say(entries ...*wire.Entry) {
	g.number++
	f := &wire.Frame{Version: 1, Incarnation: g.incarnation, Number: g.number}
	for _, e := range entries {
		e := proto.CloneOf(e)
		if e.At == 0 {
			e.At = int64(g.world.now)
		}
		f.Entries = append(f.Entries, e)
	}
	if g.loses != nil && g.loses() {
		return
	}
	g.world.append(Source{Edge: g.id}, f)
}

// open establishes a connection of an endpoint and tells it.
func (g *gateway) open(user, device string, s rollcall.State) uint64 {
	conn := g.accept(user, device, s)
	g.tell(conn)
	return conn
}

// accept establishes a connection without telling it yet.
func (g *gateway) accept(user, device string, s rollcall.State) uint64 {
	g.last++
	g.conns[g.last] = &wire.Entry{
		Kind: wire.Kind_KIND_OPEN, Conn: g.last, Epoch: int64(g.world.now), User: user, Device: device, State: wire.State(s),
	}
	return g.last
}

func (g *gateway) tell(conn uint64) { g.say(g.conns[conn]) }

func (g *gateway) setState(conn uint64, s rollcall.State, activity ...string) {
	c := g.conns[conn]
	c.State = wire.State(s)
	if len(activity) > 0 {
		c.Activity = activity[0]
	}
	e := proto.CloneOf(c)
	e.Kind = wire.Kind_KIND_STATE
	g.say(e)
}

func (g *gateway) close(conn uint64, reason wire.Reason) { g.closeSeen(conn, reason, g.world.now) }

func (g *gateway) closeSeen(conn uint64, reason wire.Reason, seen rollcall.Micros) {
	g.say(g.ending(conn, reason, seen))
}

// ending forgets a connection and is what is to be said of it.
func (g *gateway) ending(conn uint64, reason wire.Reason, seen rollcall.Micros) *wire.Entry {
	e := proto.CloneOf(g.conns[conn])
	delete(g.conns, conn)
	e.Kind, e.Reason, e.Seen = wire.Kind_KIND_CLOSE, reason, int64(seen)
	return e
}

func (g *gateway) renew() {
	g.renewed = g.world.now
	e := &wire.Entry{Kind: wire.Kind_KIND_RENEW, Count: uint64(len(g.conns))}
	for _, c := range g.conns {
		e.Digest += uint64(subjects.ConnDigest(c.User, c.Device, c.Epoch, c.State, c.Activity))
	}
	g.say(e)
}

// roster lists everything, a few connections to a frame.
func (g *gateway) roster() {
	g.say(&wire.Entry{Kind: wire.Kind_KIND_ROSTER_BEGIN})
	for part := range slices.Chunk(slices.Sorted(maps.Keys(g.conns)), 2) {
		var entries []*wire.Entry
		for _, conn := range part {
			e := proto.CloneOf(g.conns[conn])
			e.Kind = wire.Kind_KIND_ROSTER
			entries = append(entries, e)
		}
		g.say(entries...)
	}
	g.say(&wire.Entry{Kind: wire.Kind_KIND_ROSTER_END})
}

// answer does what keepers have asked for.
func (g *gateway) answer() {
	for len(g.inbox) > 0 && !g.cut && !g.inboxClosed {
		c := g.inbox[0]
		g.inbox = g.inbox[1:]
		switch c.Kind {
		case wire.Control_KIND_SUPERSEDED:
			for _, conn := range c.Conns {
				if g.conns[conn] != nil {
					g.close(conn, wire.Reason_REASON_REPLACED)
				}
			}
		case wire.Control_KIND_RESYNC:
			g.roster()
		case wire.Control_KIND_UNREGISTERED:
			g.inbox = slices.DeleteFunc(g.inbox, func(d *wire.Control) bool { return d.Kind == c.Kind })
			g.say(&wire.Entry{Kind: wire.Kind_KIND_HELLO})
			g.roster()
		}
	}
}

// crash ends the process; nobody is told.
func (g *gateway) crash() { g.cut, g.conns = true, nil }

package edge

import (
	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// onControl takes what a keeper says. A keeper speaks to one incarnation: what
// was meant for the process before this one is ignored.
func (n *Node) onControl(m *nats.Msg) {
	c, err := subjects.DecodeControl(m.Data)
	if err != nil || int(c.Shard) >= len(n.pipelines) {
		n.stats.malformed.Add(1)
		return
	}
	if c.Incarnation != n.incarnation {
		return
	}
	p := n.pipelines[c.Shard]
	switch c.Kind {
	case wire.Control_KIND_SUPERSEDED:
		p.supersede(c.Conns)
	case wire.Control_KIND_RESYNC:
		p.resync()
	case wire.Control_KIND_UNREGISTERED:
		n.stats.unregistered.Add(1)
		p.unregister()
	default:
		n.stats.malformed.Add(1)
	}
}

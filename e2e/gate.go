package e2e

import (
	"github.com/rollcall-io/rollcall/edge/door"
	"github.com/rollcall-io/rollcall/edge/natsgate"
)

// Gate is a front door for devices that speak NATS.
type Gate struct {
	*Process
	*natsgate.Gate
}

// StartGate starts a gate and waits until devices can reach it.
func (f *Fabric) StartGate(id string, c door.Config) *Gate {
	f.T.Helper()
	p := f.connect()
	c.Edge.ID = id
	g, err := natsgate.New(p.nc, c)
	if err != nil {
		f.T.Fatal(err)
	}
	f.process(g.Run, p)
	p.await(g.Ready())
	return &Gate{p, g}
}

package trace

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/edge"
	"github.com/rollcall-io/rollcall/internal/retry"
)

// A Gateway is one edge as a player needs it.
type Gateway struct {
	Node  *edge.Node
	Crash func() // ends the process without a word
}

// Player plays events into a fabric: one gateway per edge id, started at its first
// event, and devices that send heartbeats as [rollcall.Params] says.
type Player struct {
	Params rollcall.Params
	Start  func(ctx context.Context, edgeID string) (Gateway, error)
	// Speed divides the time between events; heartbeats keep theirs. 1 is real time.
	Speed float64
	Seed  uint64
	// Played is called after every event, with its index. May be nil.
	Played func(int)

	gateways map[string]Gateway
	devices  map[rollcall.Endpoint]*device
	beating  sync.WaitGroup
}

// A device is the newest connection of an endpoint.
type device struct {
	conn  *edge.Conn
	state edge.State
	stop  context.CancelFunc // of the heartbeats
}

// Play plays the events and returns when the last has happened. The devices that
// are still connected go on until ctx ends; wait for them with [Player.Wait].
func (p *Player) Play(ctx context.Context, events []Event) error {
	p.gateways = make(map[string]Gateway)
	p.devices = make(map[rollcall.Endpoint]*device)
	begin := time.Now()
	for i, e := range events {
		due := begin.Add(time.Duration(float64(e.At) / p.Speed))
		if !retry.Pause(ctx, time.Until(due)) {
			return ctx.Err()
		}
		if err := p.play(ctx, e); err != nil {
			return fmt.Errorf("trace: event %d (%s of %q at %s): %w", i+1, e.Kind, e.User, e.At, err)
		}
		if p.Played != nil {
			p.Played(i)
		}
	}
	return nil
}

// Wait returns when all devices have stopped, which they do when ctx ends.
func (p *Player) Wait() { p.beating.Wait() }

func (p *Player) play(ctx context.Context, e Event) error {
	endpoint := rollcall.Endpoint{User: e.User, Device: e.Device}
	d := p.devices[endpoint]
	if e.Kind == Open {
		return p.open(ctx, endpoint, e.Edge)
	}
	if e.Kind == EdgeCrash {
		if g, running := p.gateways[e.Edge]; running {
			g.Crash()
			delete(p.gateways, e.Edge)
		}
		return nil
	}
	if d == nil {
		return nil // never opened: nothing to end
	}
	switch e.Kind {
	case Close:
		d.stop()
		d.conn.Close()
		delete(p.devices, endpoint)
		return nil
	case Silent:
		d.stop()
		return nil
	case Foreground, Background:
		d.state.Foreground = e.Kind == Foreground
	case Active, Idle:
		d.state.Active = e.Kind == Active
	}
	if d.conn.Gone() {
		return nil
	}
	return d.conn.SetState(d.state)
}

func (p *Player) open(ctx context.Context, endpoint rollcall.Endpoint, edgeID string) error {
	if old := p.devices[endpoint]; old != nil {
		old.stop()
	}
	g, running := p.gateways[edgeID]
	if !running {
		var err error
		if g, err = p.Start(ctx, edgeID); err != nil {
			return fmt.Errorf("starting edge %q: %w", edgeID, err)
		}
		p.gateways[edgeID] = g
	}
	state := edge.State{Foreground: true, Active: true}
	conn, err := g.Node.Connect(endpoint.User, endpoint.Device, state)
	if err != nil {
		return err
	}
	beats, stop := context.WithCancel(ctx)
	p.devices[endpoint] = &device{conn, state, stop}
	p.Seed++
	random := rand.New(rand.NewPCG(p.Seed, 1))
	p.beating.Go(func() { Beat(beats, conn, p.Params, random) })
	return nil
}

// Beat sends a device's heartbeats until ctx ends or the connection is gone: the
// first at a random point of the interval, so that devices which reconnect together
// do not stay in step.
func Beat(ctx context.Context, conn *edge.Conn, params rollcall.Params, random *rand.Rand) {
	wait := time.Duration(random.Float64() * float64(params.Heartbeat))
	for seq := uint32(1); ; seq++ {
		if !retry.Pause(ctx, wait) || !conn.Beat(seq) {
			return
		}
		early := time.Duration(random.Float64() * params.Jitter * float64(params.Heartbeat))
		wait = params.Heartbeat - early
	}
}

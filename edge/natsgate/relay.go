package natsgate

import (
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall/subjects"
)

const (
	// relayTimeout is how long another gate may take to answer; one that takes longer is paused
	// or overloaded, and its devices do better elsewhere.
	relayTimeout = 2 * time.Second
	// maxRelays is how many requests wait for other gates at a time; more are refused.
	maxRelays = 4096
)

// relay passes a request on to the gate that has its session, and its answer back.
func (g *Gate) relay(holder string, r request) {
	select {
	case g.relays <- struct{}{}:
	default:
		g.refuse(r, &subjects.DeviceError{Code: subjects.DeviceUnavailable, Message: "too many requests wait for other gates", RetryAfter: time.Second})
		return
	}
	go func() {
		defer func() { <-g.relays }()
		m, err := g.nc.Request(g.names.GateRequest(holder, r.op, r.caller.User, r.caller.Device), r.body, relayTimeout)
		if err != nil {
			g.metrics.relayed.WithLabelValues(relayTrouble(err)).Inc()
			g.refuse(r, errUnregistered)
			return
		}
		g.metrics.relayed.WithLabelValues("answered").Inc()
		g.send(r.reply, m.Data)
	}()
}

func relayTrouble(err error) string {
	if errors.Is(err, nats.ErrNoResponders) {
		return "gone"
	}
	return "unanswered"
}

package lab

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// Connect connects a process over its link and disconnects it with the test. The
// connection survives everything that the lab can do to it. If the link is cut or
// the server stopped, Connect returns and the connection tries on.
func Connect(t testing.TB, link *Link, options ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect("", append(Options(link), options...)...)
	if err != nil {
		t.Fatalf("lab: connecting: %v", err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// Options are those of [Connect], for a process that connects by itself: a frozen
// link is noticed after 10 to 15 s, a server that is back after about half a
// second, and what is published without a connection fails at once instead of
// being sent later.
func Options(link *Link) []nats.Option {
	return []nats.Option{
		nats.InProcessServer(link),
		nats.PingInterval(5 * time.Second), nats.MaxPingsOutstanding(2),
		nats.ReconnectWait(500 * time.Millisecond), nats.ReconnectJitter(50*time.Millisecond, 50*time.Millisecond),
		nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true), nats.ReconnectBufSize(-1),
	}
}

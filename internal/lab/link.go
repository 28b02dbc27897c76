package lab

import (
	"errors"
	"net"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Errors of dialing.
var (
	ErrCut    = errors.New("lab: connection refused: the link is cut")
	ErrFrozen = errors.New("lab: no route: the link is frozen")
)

// Link is the network path between one process and the server. It carries any
// number of connections, and the faults hold for all of them, present and future.
type Link struct {
	server *Server
	clock  clock

	mu      sync.Mutex
	frozen  bool
	cut     bool
	delay   time.Duration
	detour  bool          // some fault needs the bytes to take the detour
	changed chan struct{} // closed and replaced when a fault comes or goes
	conns   map[*conn]struct{}
}

var _ nats.InProcessConnProvider = (*Link)(nil)

// NewLink returns the path of a further process. It is cut when the test ends.
func (s *Server) NewLink() *Link {
	l := &Link{server: s, changed: make(chan struct{}), conns: map[*conn]struct{}{}}
	s.t.Cleanup(l.Cut)
	return l
}

// Freeze stops all bytes in both directions, as on a path that drops every packet:
// nobody sees an error. What is written, and that an end was closed, is held as by
// a socket buffer without limit and arrives after [Link.Thaw], unless [Link.Cut]
// comes first. So a process that gave up a frozen connection is still there for the
// server until the link thaws or is cut.
//
// Dialing fails at once. On a real path it would time out, but nats.go holds a
// connection's mutex while it dials again, and in a bubble whoever waits for a mutex
// holds the time still for which the dialing would wait.
func (l *Link) Freeze() { l.change(func() { l.frozen, l.detour = true, true }) }

// Thaw ends [Link.Freeze].
func (l *Link) Thaw() { l.change(func() { l.frozen = false }) }

// Delay makes every byte written from now on arrive d later, in each direction and
// in order. Dialing itself takes no time.
func (l *Link) Delay(d time.Duration) {
	l.change(func() { l.delay, l.detour = d, l.detour || d > 0 })
}

// Cut closes every connection with an error on both sides, loses what was under
// way, and refuses dialing until [Link.Heal].
func (l *Link) Cut() {
	l.change(func() { l.cut = true })
	for _, c := range l.connections() {
		c.sever()
	}
}

// Heal ends [Link.Cut].
func (l *Link) Heal() { l.change(func() { l.cut = false }) }

// Skew shows the process behind the link a store whose clock jumps by d now, as
// after a change to a leader whose clock differs: whatever is stored from now on is
// stamped d later than it is (earlier if d is negative), and so are the answers to
// requests; stamps given before stay. A further call replaces d from then on; Skew(0)
// is the change back.
//
// What is rewritten is the time in the reply subjects of consumers' messages, in the
// JetStream API's "ts", "time", "first_ts" and "last_ts", and in the header of direct
// reads; see reframer. Skew takes a millisecond, so that no stamp is ambiguous.
func (l *Link) Skew(d time.Duration) { l.clock.jump(d) }

func (l *Link) change(f func()) {
	l.mu.Lock()
	f()
	detour := l.detour
	close(l.changed)
	l.changed = make(chan struct{})
	l.mu.Unlock()
	if detour {
		for _, c := range l.connections() {
			c.takeDetour()
		}
	}
}

func (l *Link) connections() []*conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]*conn, 0, len(l.conns))
	for c := range l.conns {
		all = append(all, c)
	}
	return all
}

func (l *Link) forget(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

// gate says whether bytes may pass now, and what tells of a change.
func (l *Link) gate() (open bool, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.frozen, l.changed
}

func (l *Link) latency() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.delay
}

// InProcessConn implements [nats.InProcessConnProvider]: it dials the server.
func (l *Link) InProcessConn() (net.Conn, error) {
	if open, _ := l.gate(); !open {
		return nil, ErrFrozen
	}
	far, err := l.server.dial()
	if err != nil {
		return nil, err
	}
	c := newConn(l, far)
	l.mu.Lock()
	cut, detour := l.cut, l.detour
	l.conns[c] = struct{}{}
	l.mu.Unlock()
	if cut {
		c.sever()
		return nil, ErrCut
	}
	if detour {
		c.takeDetour()
	}
	return c, nil
}

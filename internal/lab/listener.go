package lab

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"testing"
)

// Listener is where clients of a process connect over pipes, so that servers of HTTP run
// in virtual time. A pipe holds nothing: whoever writes waits for the reader.
type Listener struct {
	waiting chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

// NewListener returns a listener that is closed with the test.
func NewListener(t testing.TB) *Listener {
	l := &Listener{waiting: make(chan net.Conn), closed: make(chan struct{})}
	t.Cleanup(func() { l.Close() })
	return l
}

// Dial connects from an address such as "192.0.2.1".
func (l *Listener) Dial(ctx context.Context, from string) (net.Conn, error) {
	address := net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 1024))
	near, far := net.Pipe()
	select {
	case l.waiting <- caller{far, address}:
		return near, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements [net.Listener].
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.waiting:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements [net.Listener].
func (l *Listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 254), Port: 80} }

// A caller is a connection that says where it comes from.
type caller struct {
	net.Conn
	from net.Addr
}

func (c caller) RemoteAddr() net.Addr { return c.from }

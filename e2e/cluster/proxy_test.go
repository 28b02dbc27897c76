//go:build cluster

package cluster

import (
	"fmt"
	"net"
	"sync"
	"testing"
)

// A proxy passes connections on to a port, unless it is held: then nothing passes, and neither side
// is told.
type proxy struct {
	listener net.Listener
	to       string

	mu    sync.Mutex
	free  *sync.Cond
	held  bool
	ended bool
	conns map[net.Conn]bool
}

func newProxy(t *testing.T, port int) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, to: fmt.Sprintf("127.0.0.1:%d", port), conns: make(map[net.Conn]bool)}
	p.free = sync.NewCond(&p.mu)
	go p.accept()
	t.Cleanup(p.end)
	return p
}

func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		go p.serve(c)
	}
}

func (p *proxy) serve(from net.Conn) {
	defer from.Close()
	if !p.pass() {
		return
	}
	to, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer to.Close()
	if !p.note(from, to) {
		return
	}
	defer p.forget(from, to)
	done := make(chan struct{}, 2)
	go p.copy(to, from, done)
	go p.copy(from, to, done)
	<-done
}

// copy ends when either side does; serve then closes both.
func (p *proxy) copy(to, from net.Conn, done chan<- struct{}) {
	defer func() { done <- struct{}{} }()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && p.pass() {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// pass waits while the proxy is held; false if it has ended.
func (p *proxy) pass() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.held && !p.ended {
		p.free.Wait()
	}
	return !p.ended
}

func (p *proxy) hold(held bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = held
	p.free.Broadcast()
}

func (p *proxy) note(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		p.conns[c] = true
	}
	return !p.ended
}

func (p *proxy) forget(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		delete(p.conns, c)
	}
}

func (p *proxy) end() {
	p.listener.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	p.free.Broadcast()
	for c := range p.conns {
		c.Close()
	}
}

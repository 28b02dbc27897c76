package lab

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// A conn is a process's end of a connection. As long as its link had no fault, it
// reads and writes the server's pipe directly. From the first fault on, the bytes
// take a detour through two queues:
//
//	process ⇄ near ⇄ inner ⇄ queues ⇄ far ⇄ server
type conn struct {
	link *Link
	far  net.Conn      // the server's pipe
	gone chan struct{} // closed when severed
	once sync.Once

	mu                sync.Mutex
	near, inner       net.Conn // nil before the detour
	readBy, writeBy   time.Time
	reading           sync.Mutex // held while far is read directly
	in                reframer
	chunk, out, ready []byte // read from far; reframed; the part of it not yet handed over
}

func newConn(l *Link, far net.Conn) *conn {
	return &conn{
		link: l, far: far, gone: make(chan struct{}), chunk: make([]byte, 32<<10),
		in: reframer{clocks: clocks{&l.server.clock, &l.clock}},
	}
}

// Read implements [net.Conn].
func (c *conn) Read(b []byte) (int, error) {
	if n, err := c.readDirectly(b); !errors.Is(err, errDetour) {
		return n, err
	}
	return c.end().Read(b)
}

// errDetour says that far is no longer read directly.
var errDetour = errors.New("lab: detour")

func (c *conn) readDirectly(b []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	for c.end() == c.far {
		if len(c.ready) > 0 {
			n := copy(b, c.ready)
			c.ready = c.ready[n:]
			return n, nil
		}
		if err := c.fetch(); err != nil && c.end() == c.far {
			return 0, err
		}
	}
	return 0, errDetour
}

// fetch reads far once. Only one goroutine does so at a time: the process's before
// the detour, then receive.
func (c *conn) fetch() error {
	n, err := c.far.Read(c.chunk)
	c.out = c.in.feed(c.out[:0], c.chunk[:n])
	c.ready = c.out
	return err
}

// Write implements [net.Conn].
func (c *conn) Write(b []byte) (int, error) { return c.end().Write(b) }

// Close implements [net.Conn]. Over a detour the server learns of it when the bytes
// before have arrived.
func (c *conn) Close() error {
	end := c.end()
	if end == c.far {
		c.link.forget(c)
	}
	return end.Close()
}

// end is what the process reads and writes.
func (c *conn) end() net.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.near != nil {
		return c.near
	}
	return c.far
}

// takeDetour leads the bytes through the queues from now on.
func (c *conn) takeDetour() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.near != nil {
		return
	}
	c.near, c.inner = net.Pipe()
	c.near.SetReadDeadline(c.readBy)
	c.near.SetWriteDeadline(c.writeBy)
	c.far.SetWriteDeadline(time.Time{})
	c.far.SetReadDeadline(time.Unix(0, 0)) // ends a direct read
	up, down := newQueue(c.link), newQueue(c.link)
	go c.receive(down)
	go c.collect(up)
	go c.deliver(down, c.inner)
	go func() {
		c.deliver(up, c.far)
		c.link.forget(c)
	}()
}

// receive queues what the server sends, first of all what was read directly and
// not yet handed over.
func (c *conn) receive(down *queue) {
	c.reading.Lock()
	c.reading.Unlock() //lint:ignore SA2001 it waits for the direct read to end; there is no other after it
	c.far.SetReadDeadline(time.Time{})
	down.push(c.ready)
	for {
		err := c.fetch()
		down.push(c.ready)
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			down.finish()
			return
		}
	}
}

// collect queues what the process sends.
func (c *conn) collect(up *queue) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := c.inner.Read(buffer)
		up.push(buffer[:n])
		if err != nil {
			up.finish()
			return
		}
	}
}

// deliver writes what a queue holds when it is due, and closes the receiver where
// the sender closed. A receiver that is gone already hears no more; its own queue
// tells the sender.
func (c *conn) deliver(q *queue, receiver io.WriteCloser) {
	for {
		data, ok := q.next(c.gone)
		if !ok {
			receiver.Close()
			return
		}
		receiver.Write(data)
	}
}

// sever ends the connection with an error on both sides.
func (c *conn) sever() {
	c.once.Do(func() { close(c.gone) })
	c.mu.Lock()
	inner := c.inner
	c.mu.Unlock()
	c.far.Close()
	if inner != nil {
		inner.Close()
	}
	c.link.forget(c)
}

// SetDeadline implements [net.Conn].
func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline implements [net.Conn].
func (c *conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.readBy = t
	if c.near != nil {
		return c.near.SetReadDeadline(t)
	}
	return c.far.SetReadDeadline(t)
}

// SetWriteDeadline implements [net.Conn].
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writeBy = t
	if c.near != nil {
		return c.near.SetWriteDeadline(t)
	}
	return c.far.SetWriteDeadline(t)
}

// LocalAddr implements [net.Conn].
func (c *conn) LocalAddr() net.Addr { return c.far.LocalAddr() }

// RemoteAddr implements [net.Conn].
func (c *conn) RemoteAddr() net.Addr { return c.far.RemoteAddr() }

package lab

import (
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall/internal/natsd"
)

// Server is a nats-server with JetStream for clients of the same process. It can
// be stopped and started; links follow it.
type Server struct {
	t     testing.TB
	dir   string
	clock clock

	mu    sync.Mutex
	inner *natsd.Server // nil while stopped
}

// NewServer starts a server on a directory of its own and ends it with the test.
func NewServer(t testing.TB) *Server {
	t.Helper()
	s := &Server{t: t, dir: t.TempDir()}
	s.Start()
	t.Cleanup(s.Stop)
	return s
}

// Start runs the server again after [Server.Stop], on the same directory.
func (s *Server) Start() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inner != nil {
		return
	}
	inner, err := natsd.Start(natsd.Config{StoreDir: s.dir})
	if err != nil {
		s.t.Fatalf("lab: %v", err)
	}
	s.inner = inner
}

// Stop ends the server, which closes every connection, and returns when all is
// written. Until [Server.Start], dialing is refused.
func (s *Server) Stop() {
	s.mu.Lock()
	inner := s.inner
	s.inner = nil
	s.mu.Unlock()
	if inner != nil {
		inner.Shutdown()
	}
}

// Running says whether the server runs.
func (s *Server) Running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inner != nil
}

// Skew shows every process a store whose clock jumps by d now, as after a change
// to a leader whose clock differs. See [Link.Skew], which adds to it.
func (s *Server) Skew(d time.Duration) { s.clock.jump(d) }

var errStopped = errors.New("lab: connection refused: the server is stopped")

func (s *Server) dial() (net.Conn, error) {
	s.mu.Lock()
	inner := s.inner
	s.mu.Unlock()
	if inner == nil {
		return nil, errStopped
	}
	return inner.InProcessConn()
}

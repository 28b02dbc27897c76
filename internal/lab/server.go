package lab

import (
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall/internal/natsd"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/identity"
)

// Server is a nats-server with JetStream for clients of the same process. It can
// be stopped and started; links follow it.
type Server struct {
	t         testing.TB
	dir       string
	clock     clock
	authority *identity.Authority // nil without identities
	operator  *natsd.Operator
	room      int64 // 0 without limit

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

// NewServerWithIdentities starts a server that lets in only whom its [Server.Authority]
// has minted a credential for, with the rights of its role in a fabric of these names.
func NewServerWithIdentities(t testing.TB, names subjects.Names) *Server {
	t.Helper()
	authority, err := identity.Generate()
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{t: t, dir: t.TempDir(), authority: authority}
	if s.operator, err = natsd.OperatorOf(authority, names); err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(s.Stop)
	return s
}

// Authority mints for a server with identities; nil for others.
func (s *Server) Authority() *identity.Authority { return s.authority }

// As are the options by which a process shows a credential, for [Connect]. It lasts
// for a week.
func (s *Server) As(role identity.Role, ids ...string) []nats.Option {
	s.t.Helper()
	credential, err := s.authority.Issuer().Mint(role, 7*24*time.Hour, ids...)
	if err != nil {
		s.t.Fatalf("lab: %v", err)
	}
	return credential.Options()
}

// Start runs the server again after [Server.Stop], on the same directory.
func (s *Server) Start() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inner != nil {
		return
	}
	inner, err := natsd.Start(natsd.Config{StoreDir: s.dir, Operator: s.operator, MaxStore: s.room})
	if err != nil {
		s.t.Fatalf("lab: %v", err)
	}
	s.inner = inner
}

// Limit has the server store so many bytes at most, from the next [Server.Start] on.
func (s *Server) Limit(bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.room = bytes
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

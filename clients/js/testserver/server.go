package main

import (
	"net"
	"net/url"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall/internal/natsd"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/identity"
)

// A server is a NATS server that comes back where it was and lets in whoever has a
// credential of its issuer. Connections made with connect survive a restart.
type server struct {
	issuer *identity.Issuer
	cfg    natsd.Config

	mu      sync.Mutex
	running *natsd.Server // nil while it is stopped
}

func startServer(cfg natsd.Config, names subjects.Names) (*server, error) {
	authority, err := identity.Generate()
	if err != nil {
		return nil, err
	}
	if cfg.Operator, err = natsd.OperatorOf(authority, names); err != nil {
		return nil, err
	}
	s := &server{issuer: authority.Issuer(), cfg: cfg}
	if err := s.start(); err != nil {
		return nil, err
	}
	for address, at := range map[*string]string{&s.cfg.Listen: s.running.ClientURL(), &s.cfg.WebSocket: s.running.WebSocketURL()} {
		u, err := url.Parse(at)
		if err != nil {
			return nil, err
		}
		*address = u.Host // the same port after a restart
	}
	return s, nil
}

func (s *server) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running != nil {
		return nil
	}
	running, err := natsd.Start(s.cfg)
	if err == nil {
		s.running = running
	}
	return err
}

func (s *server) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running != nil {
		s.running.Shutdown()
		s.running = nil
	}
}

// connect is how every part of the fabric reaches the server, with the rights of its
// role.
func (s *server) connect(role identity.Role, id string) (*nats.Conn, error) {
	options, err := identity.Renewing(func() (identity.Credential, error) {
		return s.issuer.Mint(role, identity.MaxTTL, id)
	})
	if err != nil {
		return nil, err
	}
	return nats.Connect("", append(options,
		nats.InProcessServer(s), nats.Name(string(role)), nats.MaxReconnects(-1), nats.ReconnectBufSize(-1),
		nats.ReconnectWait(100*time.Millisecond), nats.ReconnectJitter(100*time.Millisecond, 0))...)
}

// InProcessConn implements [nats.InProcessConnProvider] for whichever server runs now.
func (s *server) InProcessConn() (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil {
		return nil, nats.ErrNoServers
	}
	return s.running.InProcessConn()
}

package main

import (
	"net"
	"net/url"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall/internal/natsd"
)

// A server is a NATS server that comes back where it was. Connections made with
// connect survive that.
type server struct {
	cfg natsd.Config

	mu      sync.Mutex
	running *natsd.Server // nil while it is stopped
}

func startServer(cfg natsd.Config) (*server, error) {
	s := &server{cfg: cfg}
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

// connect is how every part of the fabric reaches the server.
func (s *server) connect(name string) (*nats.Conn, error) {
	s.mu.Lock()
	running := s.running
	s.mu.Unlock()
	return running.Connect(
		nats.InProcessServer(s), nats.Name(name), nats.MaxReconnects(-1), nats.ReconnectBufSize(-1),
		nats.ReconnectWait(100*time.Millisecond), nats.ReconnectJitter(100*time.Millisecond, 0))
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

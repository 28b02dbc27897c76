package bench

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall/internal/natsd"
)

// A scene is the server that everything is measured on.
type scene struct {
	log     *slog.Logger
	dir     string
	server  *natsd.Server
	version string // of the server

	mu      sync.Mutex
	trouble error // the first that a connection had
}

func openScene(log *slog.Logger) (*scene, error) {
	dir, err := os.MkdirTemp("", "rollcall-bench-")
	if err != nil {
		return nil, err
	}
	server, err := natsd.Start(natsd.Config{StoreDir: dir, Listen: "127.0.0.1:0"})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s := &scene{log: log, dir: dir, server: server}
	nc, err := s.connect("version")
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	defer nc.Close()
	s.version = nc.ConnectedServerVersion()
	return s, nil
}

func (s *scene) close() error {
	s.server.Shutdown()
	return os.RemoveAll(s.dir)
}

// connect makes a connection that is never made again: a lost one spoils the
// measure, and so does a message that a client had no room for.
func (s *scene) connect(name string) (*nats.Conn, error) {
	nc, err := nats.Connect(s.server.ClientURL(), nats.Name("rollcall bench "+name), nats.NoReconnect(),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { s.note(name, err) }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { s.note(name, err) }))
	if err != nil {
		return nil, fmt.Errorf("connecting %s: %w", name, err)
	}
	return nc, nil
}

func (s *scene) note(name string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && s.trouble == nil {
		s.trouble = fmt.Errorf("connection %s: %w", name, err)
	}
}

// sound fails if any connection was in trouble so far.
func (s *scene) sound() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.trouble
}

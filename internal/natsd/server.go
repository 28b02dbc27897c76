package natsd

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall/internal/filelock"
)

// Server is a running nats-server.
type Server struct {
	inner *server.Server
	cfg   Config
	lock  *filelock.Lock
	once  sync.Once
}

var _ nats.InProcessConnProvider = (*Server)(nil)

// Start runs a server; end it with [Server.Shutdown].
func Start(cfg Config) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	options, err := cfg.options()
	if err != nil {
		return nil, err
	}
	lock, err := lockDir(cfg.StoreDir)
	if err != nil {
		return nil, err
	}
	s, err := prepare(cfg, options)
	if err != nil {
		if options.AccountResolver != nil {
			options.AccountResolver.Close()
		}
		return nil, errors.Join(err, lock.Release())
	}
	s.lock = lock
	return s, nil
}

// prepare does what needs the lock before the server may start.
func prepare(cfg Config, options *server.Options) (*Server, error) {
	if cfg.Operator != nil {
		if err := cfg.Operator.prepare(cfg.StoreDir, options); err != nil {
			return nil, err
		}
	} else if err := checkNoAccounts(cfg.StoreDir); err != nil {
		return nil, err
	}
	return start(cfg, options)
}

func start(cfg Config, options *server.Options) (*Server, error) {
	// Before the store is touched, and with a clearer message than the server's.
	if err := probe(options); err != nil {
		return nil, err
	}
	inner, err := server.NewServer(options)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	log := &logger{log: cfg.Logger, pageRefused: cfg.PageRefused}
	inner.SetLoggerV2(log, false, false, false)
	inner.Start() // returns when it accepts clients, or after a fatal message
	if err := log.fatal(); err != nil {
		stop(inner)
		return nil, fmt.Errorf("natsd: starting on %s: %w", cfg.StoreDir, err)
	}
	if !inner.ReadyForConnections(30 * time.Second) {
		stop(inner)
		return nil, fmt.Errorf("natsd: server on %s is not ready after 30 s", cfg.StoreDir)
	}
	return &Server{inner: inner, cfg: cfg}, nil
}

// probe finds out whether the addresses are free.
func probe(o *server.Options) error {
	for _, a := range []struct {
		host string
		port int
	}{{o.Host, o.Port}, {o.Websocket.Host, o.Websocket.Port}} {
		if a.port <= 0 {
			continue
		}
		l, err := net.Listen("tcp", net.JoinHostPort(a.host, strconv.Itoa(a.port)))
		if err != nil {
			return fmt.Errorf("%w on %s:%d (is another server running?): %w", ErrListen, a.host, a.port, err)
		}
		if err := l.Close(); err != nil {
			return fmt.Errorf("%w on %s:%d: %w", ErrListen, a.host, a.port, err)
		}
	}
	return nil
}

// Connect makes a connection within the process.
func (s *Server) Connect(options ...nats.Option) (*nats.Conn, error) {
	return nats.Connect("", append([]nats.Option{nats.InProcessServer(s)}, options...)...)
}

// InProcessConn implements [nats.InProcessConnProvider].
func (s *Server) InProcessConn() (net.Conn, error) { return s.inner.InProcessConn() }

// ClientURL is where clients connect over TCP; empty without [Config.Listen].
func (s *Server) ClientURL() string {
	if s.cfg.Listen == "" {
		return ""
	}
	return s.inner.ClientURL()
}

// WebSocketURL is where browsers connect; empty without [Config.WebSocket].
func (s *Server) WebSocketURL() string {
	if s.cfg.WebSocket == "" {
		return ""
	}
	return s.inner.WebsocketURL()
}

// Shutdown ends the server and returns when all of it has ended. Further calls do
// nothing.
func (s *Server) Shutdown() {
	s.once.Do(func() {
		stop(s.inner)
		if err := s.lock.Release(); err != nil {
			s.cfg.Logger.Warn("releasing the store directory", "err", err)
		}
	})
}

func stop(inner *server.Server) {
	inner.Shutdown()
	inner.WaitForShutdown()
}

package natsd

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// DefaultMaxPayload is the largest message unless configured: as large as
// nats-server recommends at most, so that an answer for many targets fits.
const DefaultMaxPayload = 8 << 20

// Config says how to run the server.
type Config struct {
	// StoreDir holds streams and buckets; it is made if missing. Required.
	StoreDir string
	// Listen is the "host:port" for clients over TCP; port 0 takes any free one.
	// Empty means clients of this process only. Only a server with an Operator and TLS
	// may be reached from other machines.
	Listen string
	// WebSocket is the "host:port" for browsers, under the same rule; empty means
	// none.
	WebSocket string
	// Origins of pages that may open the WebSocket, such as
	// "http://127.0.0.1:8080". Clients that are no browsers need none.
	Origins []string
	// Operator has every client prove who it is; nil lets in whoever reaches the
	// server.
	Operator *Operator
	// TLS is for every listener; nil means none.
	TLS *TLS
	// MaxPayload is the largest message in bytes, [DefaultMaxPayload] if zero. A
	// larger one costs memory per client.
	MaxPayload int32
	// SyncInterval is how often files are synced; a crash of the machine takes at
	// most this much. Zero is nats-server's default of two minutes; shorter costs
	// throughput.
	SyncInterval time.Duration
	// MaxStore is how many bytes streams and buckets may take; what would go beyond is refused.
	// Zero is nats-server's default, three quarters of what is free on the disk at the start.
	MaxStore int64
	// Logger takes the server's own messages; nil discards them.
	Logger *slog.Logger
	// PageRefused hears of every page that is not let in because of its origin, with the
	// server's reason; nil for nobody. It must not block.
	PageRefused func(reason string)
}

// Errors of Start.
var (
	ErrConfig = errors.New("natsd: invalid configuration")
	ErrLocked = errors.New("natsd: store directory is in use by another server")
	ErrListen = errors.New("natsd: cannot listen")
)

func (c Config) withDefaults() (Config, error) {
	if c.StoreDir == "" {
		return c, fmt.Errorf("%w: no store directory", ErrConfig)
	}
	if c.MaxPayload < 0 || c.SyncInterval < 0 || c.MaxStore < 0 {
		return c, fmt.Errorf("%w: negative limit", ErrConfig)
	}
	if c.MaxPayload == 0 {
		c.MaxPayload = DefaultMaxPayload
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// Check finds what [Start] would refuse before anything is made on disk: addresses that
// others must not reach or that are taken, files of TLS, origins. Of the Operator it
// only matters whether there is one.
func (c Config) Check() error {
	c, err := c.withDefaults()
	if err != nil {
		return err
	}
	o, err := c.listeners()
	if err != nil {
		return err
	}
	return probe(o)
}

// A client that does not answer is cut off within pingInterval times two more than maxPings at the
// latest. Before that, a gate that hangs is still handed its share of what devices ask.
const (
	pingInterval = 10 * time.Second
	maxPings     = 2
)

// options translates the configuration for nats-server.
func (c Config) options() (*server.Options, error) {
	o, err := c.listeners()
	if err == nil && c.Operator != nil {
		err = c.Operator.apply(o, c.StoreDir)
	}
	return o, err
}

// listeners are the options of a server that believes anybody.
func (c Config) listeners() (*server.Options, error) {
	o := &server.Options{
		JetStream: true, StoreDir: c.StoreDir, SyncInterval: c.SyncInterval, JetStreamMaxStore: c.MaxStore,
		MaxPayload: c.MaxPayload, NoSigs: true, DontListen: c.Listen == "",
		PingInterval: pingInterval, MaxPingsOut: maxPings,
	}
	var err error
	if c.Listen != "" {
		if o.Host, o.Port, err = c.address(c.Listen); err != nil {
			return nil, err
		}
	}
	if c.WebSocket != "" {
		w := &o.Websocket
		if w.Host, w.Port, err = c.address(c.WebSocket); err != nil {
			return nil, err
		}
		if err := checkOrigins(c.Origins); err != nil {
			return nil, err
		}
		w.NoTLS, w.AllowedOrigins, w.SameOrigin = c.TLS == nil, c.Origins, len(c.Origins) == 0
	}
	if c.TLS != nil {
		if err := c.TLS.apply(o); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// checkOrigins refuses what no browser sends as the origin of a page.
func checkOrigins(origins []string) error {
	for _, origin := range origins {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Path != "" && u.Path != "/" {
			return fmt.Errorf("%w: origin %q is not like https://example.org or http://127.0.0.1:8080", ErrConfig, origin)
		}
	}
	return nil
}

// address splits an address for nats-server, which takes port −1 for any free one.
func (c Config) address(address string) (host string, port int, err error) {
	split := Loopback
	if c.Operator != nil && c.TLS != nil {
		split = splitAddress
	}
	if host, port, err = split(address); port == 0 {
		port = server.RANDOM_PORT
	}
	return host, port, err
}

// Loopback splits an address and refuses those that other machines can reach.
func Loopback(address string) (host string, port int, err error) {
	if host, port, err = splitAddress(address); err != nil {
		return "", 0, err
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return "", 0, fmt.Errorf("%w: address %q is not a loopback address; without TLS and identities nobody on another machine may be let in", ErrConfig, address)
	}
	return host, port, nil
}

func splitAddress(address string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, fmt.Errorf("%w: address %q: %w", ErrConfig, address, err)
	}
	if port, err = strconv.Atoi(text); err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("%w: address %q: port must be 0 to 65535", ErrConfig, address)
	}
	switch host {
	case "localhost":
		host = "127.0.0.1" // whatever a resolver would say
	case "":
		host = "0.0.0.0"
	}
	return host, port, nil
}

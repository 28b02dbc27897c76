package main

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"github.com/rollcall-io/rollcall/edge"
	"github.com/rollcall-io/rollcall/edge/door"
	"github.com/rollcall-io/rollcall/edge/gateway"
	"github.com/rollcall-io/rollcall/edge/gateway/bearer"
	"github.com/rollcall-io/rollcall/fanout/viewer"
	"github.com/rollcall-io/rollcall/internal/natsd/keydir"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/identity"
)

// doorway is what a gateway must be told.
type doorway struct {
	JWTSecret     []string       `name:"jwt-secret" type:"existingfile" placeholder:"FILE" help:"Secret that signs bearer tokens of devices (HS256), at least 32 bytes. Repeatable."`
	JWTKey        []string       `name:"jwt-key" type:"existingfile" placeholder:"FILE" help:"Ed25519 public key, in PEM, that verifies them (EdDSA). Repeatable."`
	JWKS          string         `name:"jwks" placeholder:"URL" help:"JSON Web Key Set that verifies them: https://… or a file."`
	JWTAudience   string         `name:"jwt-audience" placeholder:"NAME" help:"Audience that a token must have (default: any)."`
	JWTIssuer     string         `name:"jwt-issuer" placeholder:"NAME" help:"Issuer that a token must have (default: any)."`
	TrustedProxy  []netip.Prefix `placeholder:"CIDR" help:"Proxies whose header X-Forwarded-For is believed, such as 10.0.0.0/8. Repeatable."`
	MaxSockets    int            `default:"100000" placeholder:"N" help:"WebSockets at a time (default ${default})."`
	MaxSessions   int            `default:"100000" placeholder:"N" help:"Sessions at a time, over HTTP and WebSocket (default ${default})."`
	AddressRate   int            `default:"200" placeholder:"N" help:"Requests, and new WebSockets, of one address in a second (default ${default}), ten times as many at once."`
	IdleThreshold time.Duration  `default:"5m" help:"How long without input until a device should say that it is not active (default ${default})."`
}

// verifier reads the keys; own is the fabric's, nil if it does not count.
func (c doorway) verifier(ctx context.Context, own ed25519.PublicKey, log *slog.Logger) (*bearer.Verifier, error) {
	cfg := bearer.Config{JWKS: c.JWKS, Audience: c.JWTAudience, Issuer: c.JWTIssuer, Logger: log}
	if own != nil {
		cfg.Keys = append(cfg.Keys, own)
	}
	for _, path := range c.JWTSecret {
		secret, err := readKey(path, bearer.ParseSecret)
		if err != nil {
			return nil, fmt.Errorf("%w: --jwt-secret %s: %w", errUsage, path, err)
		}
		cfg.Secrets = append(cfg.Secrets, secret)
	}
	for _, path := range c.JWTKey {
		key, err := readKey(path, bearer.ParsePublicKey)
		if err != nil {
			return nil, fmt.Errorf("%w: --jwt-key %s: %w", errUsage, path, err)
		}
		cfg.Keys = append(cfg.Keys, key)
	}
	v, err := bearer.New(ctx, cfg)
	if errors.Is(err, bearer.ErrConfig) {
		return nil, fmt.Errorf("%w: %w", errUsage, err)
	}
	return v, err
}

func readKey[K any](path string, parse func([]byte) (K, error)) (key K, err error) {
	file, err := os.ReadFile(path)
	if err != nil {
		return key, err
	}
	return parse(file)
}

// frontDoor is a gateway with its door.
type frontDoor struct {
	*door.Door
	gateway *gateway.Gateway
}

// open makes the gateway of an edge on a connection of its role.
func (c doorway) open(nc *nats.Conn, id, prefix string, origins []string, v *bearer.Verifier, r prometheus.Registerer, tracer trace.TracerProvider, log *slog.Logger) (*frontDoor, error) {
	d, err := door.New(nc, door.Config{
		Edge:          edge.Config{ID: id, Prefix: prefix, Registerer: r, Tracer: tracer, Logger: log},
		IdleThreshold: c.IdleThreshold, MaxSessions: c.MaxSessions,
	})
	if err != nil {
		return nil, err
	}
	g, err := gateway.New(gateway.Config{
		Door: d, Verify: v.Verify, See: seer(nc, prefix), Origins: origins, Proxies: c.TrustedProxy,
		MaxSockets: c.MaxSockets, AddressRate: c.AddressRate, AddressBurst: 10 * c.AddressRate, Logger: log, Registerer: r,
	})
	if errors.Is(err, gateway.ErrConfig) {
		err = fmt.Errorf("%w: %w", errUsage, err)
	}
	return &frontDoor{d, g}, err
}

// seer asks the fanout what a viewer may know of a target.
func seer(nc *nats.Conn, prefix string) func(ctx context.Context, who, target string) (gateway.Sight, error) {
	return func(ctx context.Context, who, target string) (gateway.Sight, error) {
		client, err := viewer.New(nc, viewer.Config{Viewer: who, Prefix: prefix})
		if err != nil {
			return gateway.Sight{}, err
		}
		states, err := client.Get(ctx, target)
		switch {
		case errors.Is(err, &subjects.Error{Code: subjects.CodeRateLimited}):
			return gateway.Sight{}, subjects.DeviceErrorf(subjects.DeviceRateLimited, "too many requests of this user")
		case err != nil:
			return gateway.Sight{}, &subjects.DeviceError{Code: subjects.DeviceUnavailable, Message: "the fabric does not answer", RetryAfter: time.Second}
		}
		state, ok := states[target]
		if !ok {
			return gateway.Sight{}, nil
		}
		return gateway.Sight{View: &state.View, Reason: state.Reason}, nil
	}
}

// bearerKey is what verifies the tokens that are signed with the fabric's keys.
func bearerKey(dir string) (ed25519.PublicKey, error) {
	key, err := keydir.Bearer(dir)
	if err != nil {
		return nil, err
	}
	return key.Public().(ed25519.PublicKey), nil
}

type gatewayCmd struct {
	ID     string        `name:"id" placeholder:"NAME" help:"The edge id: every gateway has its own, the same after a restart (default: the name in --creds, else the name of this machine)."`
	Listen string        `default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Where devices connect, by HTTP and WebSocket; loopback only without TLS (default ${default})."`
	Origin []string      `placeholder:"URL" help:"Origin of pages that may come, such as https://your.site, besides those of the gateway's own host. Repeatable."`
	Drain  time.Duration `default:"10s" help:"Over how long devices are sent elsewhere when it is stopped (default ${default})."`
	servedTLS
	doorway
	traced
	observed
	remote
}

func (c *gatewayCmd) Help() string {
	return `Takes heartbeats of devices by HTTP and WebSocket, on any NATS system that 'rollcall init' has prepared. Who a device belongs to
says its bearer token, a JWT with the user as subject: --jwt-secret, --jwt-key or --jwks verify it, or else the fabric's own key, with
which 'rollcall token gateway' mints.

Run as many as you like behind a balancer, each with an --id of its own that stays. One that is stopped (SIGTERM) sends its devices
elsewhere one by one (--drain), and they are not shown offline meanwhile. Without --serve-cert it listens on loopback
only: put a proxy in front that speaks TLS.`
}

func (c *gatewayCmd) Run(ctx context.Context, std console) error {
	log := c.logger(std, slog.LevelInfo)
	c.remote.log = log
	tracer, stop, err := c.provider(ctx, "gateway", log)
	if err != nil {
		return err
	}
	defer stop()
	secure := c.tls()
	verifier, err := c.believed(ctx, log)
	if err != nil {
		return err
	}
	listener, err := listenSite("listen", c.Listen, secure)
	if err != nil {
		return err
	}
	defer listener.Close()
	host, _ := os.Hostname()
	id := cmp.Or(c.ID, nameIn(c.Creds, identity.Door), host, "gateway")
	nc, err := c.connectAs(std, "gateway "+id, party{role: identity.Door, ids: []string{id}, does: "be the gateway " + id})
	if err != nil {
		return err
	}
	defer nc.Close()
	watch, err := c.watch(nil)
	if err != nil {
		return err
	}
	defer watch.close()
	front, err := c.open(nc, id, c.Prefix, c.Origin, verifier, watch.registry, tracer, log)
	if err != nil {
		return err
	}
	watch.parts.Add("gateway", front)
	watch.connection("gateway", nc)
	return c.serve(ctx, std, nc, front, id, listener, watch, log)
}

// believed is whose tokens count: the fabric's own if no other key is named.
func (c *gatewayCmd) believed(ctx context.Context, log *slog.Logger) (*bearer.Verifier, error) {
	if len(c.JWTSecret)+len(c.JWTKey) > 0 || c.JWKS != "" {
		return c.verifier(ctx, nil, log)
	}
	if _, err := c.mustHaveKeys(); err != nil {
		return nil, fmt.Errorf("%w: nobody's tokens are believed: name --jwt-secret, --jwt-key or --jwks; %w", errUsage, err)
	}
	own, err := bearerKey(cmp.Or(c.Keys, defaultKeys()))
	if err != nil {
		return nil, err
	}
	return c.verifier(ctx, own, log)
}

// serve runs the gateway until it is interrupted, and then sends its devices elsewhere.
func (c *gatewayCmd) serve(ctx context.Context, std console, nc *nats.Conn, front *frontDoor, id string, listener net.Listener, watch *watch, log *slog.Logger) error {
	working, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	group, working := errgroup.WithContext(working)
	group.Go(func() error {
		defer end()
		return part("gateway", severed(nc, front.Run(working)))
	})
	group.Go(func() error { return serveSite(working, listener, newSite(front.gateway, &watch.parts), log) })
	watch.serve(working, group)
	group.Go(func() error {
		summarise(working, log, c.Summary, watch.registry, digests["gateway"])
		return nil
	})
	group.Go(func() error {
		select {
		case <-working.Done():
			return nil
		case <-ctx.Done():
		}
		defer end()
		return front.drain(working, std, c.Drain)
	})
	group.Go(func() error {
		select {
		case <-working.Done():
		case <-front.Ready():
			fmt.Fprintf(std.out, "gateway %s takes devices at %s%s and runs on %s; Ctrl-C sends them elsewhere\n",
				id, siteURL(listener, c.tls()), gateway.Root, nc.ConnectedUrlRedacted())
		}
		return nil
	})
	return group.Wait()
}

// farewell is how long sockets may take to hear why they end.
const farewell = 3 * time.Second

// Run runs the door, and returns when the sockets have heard of its end too.
func (f *frontDoor) Run(ctx context.Context) error {
	err := f.Door.Run(ctx)
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	f.gateway.Wait(within) // what is left then is cut off
	return err
}

// drain ends sessions over a while.
func (f *frontDoor) drain(ctx context.Context, std console, over time.Duration) error {
	fmt.Fprintf(std.err, "rollcall: sending %d devices elsewhere; a second Ctrl-C ends it at once\n", f.Sessions())
	ctx, cancel := context.WithTimeout(ctx, over+patience)
	defer cancel()
	return f.Drain(ctx, over)
}

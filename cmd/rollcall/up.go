package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/fanout"
	"github.com/rollcall-io/rollcall/internal/board"
	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/internal/natsd"
	"github.com/rollcall-io/rollcall/internal/natsd/keydir"
	"github.com/rollcall-io/rollcall/keeper"
	"github.com/rollcall-io/rollcall/ledger/archive"
	"github.com/rollcall-io/rollcall/ledger/live"
	"github.com/rollcall-io/rollcall/ledger/store"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/identity"
)

type upCmd struct {
	Data      string `default:"rollcall-data" type:"path" help:"Directory of streams and buckets; made if missing."`
	Keys      string `env:"ROLLCALL_KEYS" type:"path" placeholder:"DIR" help:"Keys of the fabric; made on the first start (default: keys in the data directory)."`
	Listen    string `default:"127.0.0.1:4222" placeholder:"HOST:PORT" help:"Where NATS clients connect; loopback only without TLS (default ${default})."`
	WebSocket string `name:"websocket" default:"127.0.0.1:4280" placeholder:"HOST:PORT" help:"Where browsers connect; loopback only without TLS (default ${default}); 'off' for none."`
	HTTP      string `name:"http" default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Where the board is, and where devices connect, by HTTP and WebSocket; loopback only without TLS (default ${default}); 'off' for nowhere."`
	boarding
	doorway
	listenerTLS
	sight
	Origin []string `placeholder:"URL" help:"Origin of pages that may open the WebSocket of NATS, and come to the gateway, such as https://your.site; without it no page of another site may. Repeatable."`
	Shards int      `placeholder:"N" help:"Shards of a new fabric, fixed for its life (default 4)."`
	Prefix string   `default:"presence" help:"Prefix of the fabric's subjects."`
	timing
	Natsgate bool     `default:"true" negatable:"" help:"Take devices that speak NATS (default); --no-natsgate for not."`
	Ledger   bool     `default:"true" negatable:"" help:"Count online time (default); --no-ledger for not."`
	Zone     []string `default:"UTC" placeholder:"NAME" help:"Time zone whose days the ledger counts, such as Europe/Berlin (default ${default}). Repeatable."`
	Store    string   `env:"ROLLCALL_LEDGER" placeholder:"URL" help:"Where the ledger is: postgres://… or the path of a SQLite file (default: ledger.db in the data directory)."`
	Archive  *bool    `negatable:"" help:"Write raw events to Parquet files in the data directory, and keep log and heartbeats until they are there (default: what the fabric has, or not)."`
	traced
	observed
}

func (c *upCmd) Help() string {
	return `Starts a NATS server with JetStream on the data directory, a keeper, a fanout and a ledger, and runs until interrupted. What was
there before is there again: nobody goes offline because the fabric was restarted. Without --preset and --set, so is the
timing. Edges that run keep theirs until they are started again.

Every client must show a credential: 'rollcall token' mints one with the keys, which are made on the first start. On this
machine the other commands find the keys of the default data directory by themselves. Pages need --origin with their
origin, as the browser sends it; other clients of the WebSocket, such as Node, need none. With --tls-cert and --tls-key the
listeners may be reached from other machines.`
}

func (c *upCmd) Run(ctx context.Context, std console) error {
	params, warnings, err := c.params()
	if err != nil {
		return err
	}
	if !c.chosen() {
		params = rollcall.Params{} // what the fabric has, or the default
	}
	log, parts := c.loggers(std)
	for _, w := range warnings {
		log.Warn(w)
	}
	config, names, err := c.serverConfig(log, parts)
	if err != nil {
		return err
	}
	// Whatever is refused is refused before keys are made.
	if err := listenable(config.Check()); err != nil {
		return err
	}
	watch, err := c.watch(config.TLS)
	if err != nil {
		return err
	}
	defer watch.close()
	var site net.Listener
	if c.HTTP != "off" {
		if site, err = listenSite("http", c.HTTP, config.TLS); err != nil {
			return err
		}
		defer site.Close()
		config.Origins = append(config.Origins, siteOrigins(site, config.TLS)...)
	}
	authority, err := c.authority()
	if err != nil {
		return err
	}
	if config.Operator, err = natsd.OperatorOf(authority, names); err != nil {
		return fmt.Errorf("keys in %s: %w", c.Keys, err)
	}
	server, err := natsd.Start(config)
	if err != nil {
		return listenable(err)
	}
	defer server.Shutdown()
	return c.serve(ctx, std, server, authority, watch, site, params, log, parts)
}

// listenable says what helps if an address is taken.
func listenable(err error) error {
	if errors.Is(err, natsd.ErrListen) {
		return fmt.Errorf("%w; --listen and --websocket name other addresses", err)
	}
	return err
}

// authority finds the keys, and makes them on the first start.
func (c *upCmd) authority() (*identity.Authority, error) {
	if c.Keys == "" {
		c.Keys = filepath.Join(c.Data, keysInData)
	}
	authority, _, err := keydir.Open(c.Keys)
	return authority, err
}

// serve makes the fabric on the server and runs its parts, each on a connection of
// its own with the rights of its role.
func (c *upCmd) serve(ctx context.Context, std console, server *natsd.Server, authority *identity.Authority, watch *watch, site net.Listener, params rollcall.Params, log, parts *slog.Logger) error {
	found, err := c.make(ctx, server, authority, params)
	if err != nil {
		return err
	}
	roles := []identity.Role{identity.Keeper, identity.Fanout, identity.Ledger, identity.Door, identity.Natsgate, identity.Operator}
	gate := "up-" + thisStart(identity.Natsgate)
	conns := make(map[identity.Role]*nats.Conn, len(roles))
	for _, role := range roles {
		name := "up"
		if role == identity.Natsgate {
			name = gate
		}
		options, err := as(authority.Issuer(), identity.MaxTTL, role, name)
		if err != nil {
			return err
		}
		nc, err := server.Connect(append(append(patient(string(role)), complaints(parts)), options...)...)
		if err != nil {
			return err
		}
		defer nc.Close()
		watch.connection(string(role), nc)
		conns[role] = nc
	}
	registry := watch.registry
	tracer, stop, err := c.provider(ctx, "up", log)
	if err != nil {
		return err
	}
	defer stop()
	watch.tracer = tracer
	k, err := keeper.New(conns[identity.Keeper], keeper.Config{Prefix: c.Prefix, Registerer: registry, Tracer: tracer, Logger: parts.With("part", "keeper")})
	if err != nil {
		return err
	}
	f, err := fanout.New(conns[identity.Fanout], fanout.Config{Prefix: c.Prefix, Relations: c.relations(), AskSights: c.AskSights, Registerer: registry, Tracer: tracer, Logger: parts.With("part", "fanout")})
	if err != nil {
		return err
	}
	watch.parts.Add("keeper", k)
	watch.parts.Add("fanout", f)
	summarised := []digest{digests["keeper"], digests["fanout"]}
	group, ctx := errgroup.WithContext(ctx)
	if c.Ledger {
		watch.parts.Expect("ledger")
		summarised = append(summarised, digests["ledger"])
		group.Go(func() error {
			return part("ledger", c.ledger(ctx, conns[identity.Ledger], watch, parts.With("part", "ledger")))
		})
	}
	if found.Archive > 0 {
		summarised = append(summarised, digests["archive"])
		group.Go(func() error { return part("archive", c.archive(ctx, conns[identity.Ledger], found, registry, parts)) })
	}
	group.Go(func() error { return part("keeper", k.Run(ctx)) })
	group.Go(func() error { return part("fanout", f.Run(ctx)) })
	if site != nil {
		page, err := c.page(server, site, authority, conns[identity.Operator], parts.With("part", "board"))
		if err != nil {
			return err
		}
		watch.parts.Expect("gateway")
		summarised = append(summarised, digests["gateway"])
		group.Go(func() error {
			return part("gateway", c.gateway(ctx, conns[identity.Door], site, watch, page, parts.With("part", "gateway")))
		})
	}
	if c.Natsgate {
		watch.parts.Expect("natsgate")
		summarised = append(summarised, digests["natsgate"])
		group.Go(func() error {
			return part("natsgate", c.natsgate(ctx, conns[identity.Natsgate], gate, watch, parts.With("part", "natsgate")))
		})
	}
	watch.serve(ctx, group)
	group.Go(func() error { return c.welcome(ctx, std, server, watch, site, f, found) })
	group.Go(func() error { summarise(ctx, log, c.Summary, registry, summarised...); return nil })
	return group.Wait()
}

// page makes the board; nil where it would show operators' figures to everybody.
func (c *upCmd) page(server *natsd.Server, site net.Listener, authority *identity.Authority, nc *nats.Conn, log *slog.Logger) (http.Handler, error) {
	loopback := isLoopback(site)
	if !loopback && c.OperatorToken == "" {
		return nil, nil
	}
	cfg := board.Config{Conn: nc, Prefix: c.Prefix, WebSocket: server.WebSocketURL(), Gateway: board.OwnGateway, Loopback: loopback, Logger: log}
	if c.Ledger {
		cfg.Ledger = c.boarding.ledger(c.shelf().place(), c.Zone[0])
	}
	return c.board(cfg, authority, c.Keys)
}

// gateway serves devices beside the board on the HTTP listener. It does not drain:
// when it stops, so does the fabric, and devices come back to the next one.
func (c *upCmd) gateway(ctx context.Context, nc *nats.Conn, site net.Listener, watch *watch, page http.Handler, log *slog.Logger) error {
	own, err := bearerKey(c.Keys)
	if err != nil {
		return err
	}
	verifier, err := c.verifier(ctx, own, log)
	if err != nil {
		return err
	}
	front, err := c.open(nc, "up", c.Prefix, c.Origin, verifier, watch.registry, watch.tracer, log)
	if err != nil {
		return err
	}
	watch.parts.Add("gateway", front)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return front.Run(ctx) })
	handler := newSite(front.gateway, &watch.parts)
	if page != nil {
		handler.Handle("/", until(ctx, page))
	}
	group.Go(func() error { return serveSite(ctx, site, handler, log) })
	return group.Wait()
}

// shelf is where an archive is: in the data directory, as for the commands on its files.
func (c *upCmd) shelf() shelf { return shelf{books: books{Dir: c.Data, Store: c.Store}} }

func (c *upCmd) ledger(ctx context.Context, nc *nats.Conn, watch *watch, log *slog.Logger) error {
	place := c.shelf().place()
	s, err := persist(ctx, log, place, func() (*store.SQL, error) { s, err := store.Open(ctx, place); return s, wrongly(err) })
	if err != nil {
		return err
	}
	defer s.Close()
	l, err := newLedger(nc, s, c.Data, live.Config{Prefix: c.Prefix, Zones: c.Zone, Registerer: watch.registry, Logger: log})
	if err != nil {
		return err
	}
	watch.parts.Add("ledger", l)
	return l.Run(ctx)
}

func (c *upCmd) archive(ctx context.Context, nc *nats.Conn, found fabric.Fabric, r prometheus.Registerer, parts *slog.Logger) error {
	ledger, err := store.Open(ctx, c.shelf().place())
	if err != nil {
		return err
	}
	defer ledger.Close()
	a, err := c.shelf().archiver(nc, found, ledger, archive.Options{Registerer: r, Logger: parts.With("part", "archive")})
	if err != nil {
		return err
	}
	return a.Run(ctx)
}

// make makes or finds the fabric, and then has the server give every role its rights
// there: how many shards the fabric has is known only now.
func (c *upCmd) make(ctx context.Context, server *natsd.Server, authority *identity.Authority, params rollcall.Params) (fabric.Fabric, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	options, err := as(authority.Issuer(), answerTimeout, identity.Operator, "up")
	if err != nil {
		return fabric.Fabric{}, err
	}
	nc, err := server.Connect(options...)
	if err != nil {
		return fabric.Fabric{}, err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return fabric.Fabric{}, err
	}
	found, err := fabric.Ensure(ctx, js, fabric.Config{Prefix: c.Prefix, Shards: c.Shards, Params: params, Archive: c.Archive})
	if err != nil {
		return fabric.Fabric{}, err
	}
	system, err := authority.SystemUser(answerTimeout)
	if err != nil {
		return fabric.Fabric{}, err
	}
	manage, err := server.Connect(system.Options()...)
	if err != nil {
		return fabric.Fabric{}, err
	}
	defer manage.Close()
	_, err = settleClaims(ctx, manage, authority, found.Names, false)
	return found, err
}

// loggers are the command's own and the one of its parts, which are heard only when
// something is wrong or everything is wanted.
func (c *upCmd) loggers(std console) (own, parts *slog.Logger) {
	return c.logger(std, slog.LevelInfo), c.logger(std, slog.LevelWarn)
}

// part names the part of the fabric that failed.
func part(name string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("the %s has ended: %w", name, err)
}

// serverConfig is how to run the server, but for whom it believes, and the names of the
// fabric as far as they are known.
func (c *upCmd) serverConfig(log, parts *slog.Logger) (natsd.Config, subjects.Names, error) {
	names, err := subjects.New(c.Prefix, cmp.Or(c.Shards, subjects.DefaultShards))
	if err != nil {
		return natsd.Config{}, names, fmt.Errorf("%w: %w", errUsage, err)
	}
	rarely := rate.Sometimes{Interval: 10 * time.Second} // a page may try again and again
	cfg := natsd.Config{
		StoreDir: c.Data, Listen: c.Listen, WebSocket: c.WebSocket, Origins: c.Origin, Operator: &natsd.Operator{}, TLS: c.tls(),
		PageRefused: func(reason string) {
			rarely.Do(func() { log.Warn("a page is refused; --origin URL lets its pages in", "reason", reason) })
		},
	}
	if c.WebSocket == "off" {
		cfg.WebSocket = ""
	}
	if c.level(slog.LevelWarn) < slog.LevelWarn {
		cfg.Logger = parts.With("part", "nats")
	}
	return cfg, names, nil
}

// welcome says, once the fabric answers, what can be done with it.
func (c *upCmd) welcome(ctx context.Context, std console, server *natsd.Server, watch *watch, site net.Listener, f *fanout.Fanout, found fabric.Fabric) error {
	select {
	case <-ctx.Done():
		return nil
	case <-f.Ready():
	}
	b := found.Params.Bounds()
	fmt.Fprintf(std.out, `Rollcall is up: %d shards, data in %s
  keys       %s
  NATS       %s
  WebSocket  %s
  HTTP       %s
  metrics    %s
  ledger     %s
  archive    %s
  offline is shown after a close within %s, silence %s, an edge crash %s

%s
Ctrl-C stops it; the data stays.
`, found.Shards(), c.Data, c.Keys, server.ClientURL(), c.pages(server.WebSocketURL()), c.site(site), cmp.Or(watch.url(), "off (--metrics HOST:PORT)"), c.ledgerPlace(), c.archiveDir(found),
		short(b.Close.Latest), short(b.HalfOpen.Latest), short(b.EdgeCrash.Latest), c.hint(server.ClientURL(), b.EdgeCrash.Latest))
	return nil
}

// sample is the history of a real chat network that comes with the source.
const sample = "e2e/testdata/irc-netsplit-1d.csv"

// hint is what to try next: the sample where it is there.
func (c *upCmd) hint(url string, settle time.Duration) string {
	try, flags := invocation(os.Args[0]), c.reach(url)
	if _, err := os.Stat(sample); err != nil {
		return fmt.Sprintf(`Try, in other terminals, to look at users, and to replay a history of yours:
  %s watch%s --viewer me alice bob
  %s replay%s TRACE.csv`, try, flags, try, flags)
	}
	return fmt.Sprintf(`Try, in other terminals, to look at three people, and a day of a real chat network: two minutes and a half of events, then
%s until whoever has left must be shown offline (--settle 30s waits shorter):
  %s watch%s --viewer me u0009 u0024 u0132
  %s replay%s %s --speed 600`, short(settle), try, flags, try, flags, sample)
}

// reach is what other commands must be told to find this fabric.
func (c *upCmd) reach(url string) string {
	at := ""
	if url != defaultServer {
		at = " -s " + url
	}
	if c.Prefix != subjects.DefaultPrefix {
		at += " --prefix " + c.Prefix
	}
	if c.Keys != defaultKeys() {
		at += " --keys " + c.Keys
	}
	if c.TLSCert != "" {
		at += " --tls-ca CA.pem"
	}
	if c.TLSClientCA != "" {
		at += " --tls-cert CLIENT.pem --tls-key CLIENT-KEY.pem"
	}
	return at
}

// pages is where browsers connect, and the pages of which sites may.
func (c *upCmd) pages(url string) string {
	switch {
	case url == "":
		return "off"
	case len(c.Origin) == 0 && c.HTTP == "off":
		return url + " (pages: none; --origin URL lets those of a site in)"
	case len(c.Origin) == 0:
		return url + " (pages: the board; --origin URL lets those of a site in)"
	}
	return url + " (pages of " + strings.Join(c.Origin, ", ") + ")"
}

// invocation is how this command was called, as far as a reader can repeat it.
func invocation(executable string) string {
	if strings.Contains(executable, "go-build") {
		return "go run ./cmd/rollcall"
	}
	return "rollcall"
}

// site is where the board is, and where devices connect.
func (c *upCmd) site(site net.Listener) string {
	switch {
	case site == nil:
		return "off"
	case !isLoopback(site) && c.OperatorToken == "":
		return siteURL(site, c.tls()) + " (without the board, which needs --operator-token there)"
	}
	return siteURL(site, c.tls()) + " (open it and sign in: the board; devices connect here too)"
}

func (c *upCmd) ledgerPlace() string {
	if !c.Ledger {
		return "off"
	}
	return redacted(c.shelf().place()) + " (days of " + strings.Join(c.Zone, ", ") + ")"
}

// redacted is a place without a password.
func redacted(place string) string {
	if u, err := url.Parse(place); err == nil && u.User != nil {
		return u.Redacted()
	}
	return place
}

func (c *upCmd) archiveDir(found fabric.Fabric) string {
	if found.Archive == 0 {
		return "off (--archive)"
	}
	return c.shelf().archive()
}

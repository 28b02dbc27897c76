package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rollcall-io/rollcall/internal/board"
	"github.com/rollcall-io/rollcall/internal/natsd"
	"github.com/rollcall-io/rollcall/ledger/store"
	"github.com/rollcall-io/rollcall/subjects/identity"
)

type boardCmd struct {
	HTTP          string `name:"http" default:"127.0.0.1:8081" placeholder:"HOST:PORT" help:"Where the page is; loopback only without TLS and --operator-token (default ${default})."`
	WebSocket     string `name:"websocket" default:"ws://127.0.0.1:4280" placeholder:"URL" help:"Where pages reach the NATS server (default ${default})."`
	Gateway       string `placeholder:"URL" help:"Gateway at which pages are devices of their user (default: they only look)."`
	SignInURL     string `name:"sign-in-url" placeholder:"URL" help:"Where your application answers who its user is, with a credential; see docs/board.md (default: users paste one)."`
	NoSignIn      bool   `name:"no-sign-in" help:"No development sign-in as anybody, which a board on loopback that finds the keys offers."`
	OperatorToken string `name:"operator-token" env:"ROLLCALL_OPERATOR_TOKEN" type:"existingfile" placeholder:"FILE" help:"File with the token that operators show for figures, names and online time."`
	HTTPCert      string `name:"http-cert" type:"existingfile" placeholder:"FILE" help:"Certificate of the page, with its chain, in PEM."`
	HTTPKey       string `name:"http-key" type:"existingfile" placeholder:"FILE" help:"Its key."`
	past
	remote
}

// past is where a board finds online time.
type past struct {
	Data    string `default:"rollcall-data" type:"path" help:"Data directory of the ledger (default ${default})."`
	Store   string `env:"ROLLCALL_LEDGER" placeholder:"URL" help:"postgres://… or the path of a SQLite file (default: ledger.db in the data directory, if it is there)."`
	Account string `placeholder:"NAME" help:"Whom the ledger's rules of access are about (default: the account that runs this)."`
	Zone    string `placeholder:"ZONE" help:"Time zone of days, such as Europe/Berlin (default: that of the rules of access, else UTC)."`
}

func (c *boardCmd) Help() string {
	return `Serves a page beside a running fabric: who is online, a person's days, and for operators how late offline is shown, edges and their leases,
shards and their owners, worker groups. 'rollcall up' serves it too. The NATS server must let pages of this address in: 'rollcall up
--origin http://127.0.0.1:8081'.

Users see of others what they may know. What is for operators needs the token of --operator-token, or a listener on loopback.`
}

func (c *boardCmd) Run(ctx context.Context, std console) error {
	listener, err := c.listen()
	if err != nil {
		return err
	}
	defer listener.Close()
	nc, err := c.connectAs(std, "board", party{role: identity.Operator, ids: []string{"board"}, anyName: true, does: "read how the fabric is"})
	if err != nil {
		return err
	}
	defer nc.Close()
	log := std.logger(slog.LevelWarn)
	cfg := board.Config{
		Conn: nc, Prefix: c.Prefix, WebSocket: c.WebSocket, Gateway: c.Gateway, SignInURL: c.SignInURL,
		Loopback: isLoopback(listener), Ledger: c.ledger(), Logger: log,
	}
	if cfg.OperatorToken, err = c.operatorToken(); err != nil {
		return err
	}
	if cfg.SignIn, err = c.signIn(cfg.Loopback); err != nil {
		return err
	}
	page, err := board.New(cfg)
	if err != nil {
		return err
	}
	scheme := "http"
	if c.HTTPCert != "" {
		scheme = "https"
	}
	fmt.Fprintf(std.out, "The board is at %s://%s/\n", scheme, listener.Addr())
	return serveBoard(ctx, listener, page)
}

// listen opens the address of the page. Who reaches it from other machines must be sure
// whom it reaches.
func (c *boardCmd) listen() (net.Listener, error) {
	if (c.HTTPCert == "") != (c.HTTPKey == "") {
		return nil, fmt.Errorf("%w: --http-cert and --http-key belong together", errUsage)
	}
	if c.HTTPCert == "" {
		if _, _, err := natsd.Loopback(c.HTTP); err != nil {
			return nil, fmt.Errorf("%w; --http-cert and --http-key give it TLS", err)
		}
	}
	listener, err := net.Listen("tcp", c.HTTP)
	if err != nil {
		return nil, fmt.Errorf("board: %w; --http names another address", err)
	}
	if c.HTTPCert == "" {
		return listener, nil
	}
	secure := natsd.TLS{Cert: c.HTTPCert, Key: c.HTTPKey}
	config, err := secure.Config()
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return tls.NewListener(listener, config), nil
}

func isLoopback(l net.Listener) bool {
	a, ok := l.Addr().(*net.TCPAddr)
	return ok && a.IP.IsLoopback()
}

func (c *boardCmd) operatorToken() (string, error) {
	if c.OperatorToken == "" {
		return "", nil
	}
	b, err := os.ReadFile(c.OperatorToken)
	if err != nil {
		return "", err
	}
	const shortest = 16
	token := strings.TrimSpace(string(b))
	if len(token) < shortest {
		return "", fmt.Errorf("%w: the token in %s is shorter than %d characters", errUsage, c.OperatorToken, shortest)
	}
	return token, nil
}

// signIn is the development sign-in: nil where it is not wanted or there are no keys.
func (c *boardCmd) signIn(loopback bool) (func(context.Context, string) (board.Grant, error), error) {
	if c.NoSignIn || !loopback || c.SignInURL != "" {
		return nil, nil
	}
	authority, err := c.authority()
	if authority == nil || err != nil {
		return nil, err
	}
	return grants(authority.Issuer(), nil), nil
}

// visit is how long a page may be a user before it asks again.
const visit = 15 * time.Minute

// grants lets a page be a user: with a viewer's credential, and a token for the gateway if
// one mints it.
func grants(issuer *identity.Issuer, device func(user string, ttl time.Duration) (string, error)) func(context.Context, string) (board.Grant, error) {
	return func(_ context.Context, user string) (grant board.Grant, err error) {
		credential, err := issuer.Viewer(user, visit)
		if err != nil {
			return grant, err
		}
		grant = board.Grant{User: user, Viewer: credential, Expires: credential.Expires.UTC()}
		if device != nil {
			grant.Gateway, err = device(user, visit)
		}
		return grant, err
	}
}

// ledger is nil where there is none.
func (p past) ledger() *board.Ledger {
	place := p.Store
	if place == "" {
		place = filepath.Join(p.Data, "ledger.db")
		if _, err := os.Stat(place); err != nil {
			return nil
		}
	}
	who := p.Account
	if who == "" {
		who = account()
	}
	return &board.Ledger{Account: who, Zone: p.Zone, Open: func(ctx context.Context) (store.Store, error) { return store.Open(ctx, place) }}
}

// serveBoard serves until ctx ends, streams included.
func serveBoard(ctx context.Context, listener net.Listener, page http.Handler) error {
	server := &http.Server{Handler: page, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("board: %w", err)
	}
	return nil
}

package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rollcall-io/rollcall/edge/gateway/bearer"
	"github.com/rollcall-io/rollcall/internal/board"
	"github.com/rollcall-io/rollcall/internal/natsd/keydir"
	"github.com/rollcall-io/rollcall/ledger/store"
	"github.com/rollcall-io/rollcall/subjects/identity"
)

// boarding is who may come to a board.
type boarding struct {
	NoSignIn      bool   `name:"no-sign-in" help:"No development sign-in as anybody, which a board on loopback that finds the keys offers."`
	SignInURL     string `name:"sign-in-url" placeholder:"URL" help:"Where your application answers a page of the board who its user is, with a credential; docs/board.md says how (default: the development sign-in, or a credential that is pasted)."`
	OperatorToken string `name:"operator-token" env:"ROLLCALL_OPERATOR_TOKEN" type:"existingfile" placeholder:"FILE" help:"File with the token that operators show the board for figures, names and online time; without one it is on loopback only."`
	BoardAccount  string `name:"board-account" placeholder:"NAME" help:"Whom the ledger's rules of access are about when the board asks (default: the account that runs this)."`
}

type boardCmd struct {
	Listen    string `default:"127.0.0.1:8081" placeholder:"HOST:PORT" help:"Where the page is; loopback only without TLS and --operator-token (default ${default})."`
	WebSocket string `name:"websocket" default:"ws://127.0.0.1:4280" placeholder:"URL" help:"Where pages reach the NATS server (default ${default})."`
	Gateway   string `placeholder:"URL" help:"Gateway at which pages are devices of their user, such as http://127.0.0.1:8080 (default: they only look)."`
	servedTLS
	Data  string `default:"rollcall-data" type:"path" help:"Data directory of the ledger (default ${default})."`
	Store string `env:"ROLLCALL_LEDGER" placeholder:"URL" help:"Where the ledger is: postgres://… or the path of a SQLite file (default: ledger.db in the data directory, if it is there)."`
	Zone  string `placeholder:"ZONE" help:"Time zone of days, such as Europe/Berlin (default: that of the rules of access, else UTC)."`
	boarding
	remote
}

func (c *boardCmd) Help() string {
	return `Serves a page beside a running fabric: who is online, a person's days, and for operators how late offline is shown, edges and their leases,
shards and their owners, worker groups. 'rollcall up' serves it too. The NATS server, and the gateway if one is named, must let pages of
this address in: 'rollcall up --origin http://127.0.0.1:8081'.

Users see of others what they may know. What is for operators needs the token of --operator-token, or a listener on loopback.`
}

func (c *boardCmd) Run(ctx context.Context, std console) error {
	secure := c.tls()
	listener, err := listenSite("listen", c.Listen, secure)
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
	cfg := board.Config{Conn: nc, Prefix: c.Prefix, WebSocket: c.WebSocket, Gateway: c.Gateway, Loopback: isLoopback(listener), Logger: log}
	place := cmp.Or(c.Store, filepath.Join(c.Data, "ledger.db"))
	if _, err := os.Stat(place); err == nil || c.Store != "" {
		cfg.Ledger = c.ledger(place, c.Zone)
	}
	authority, err := c.authority()
	if err != nil {
		return err
	}
	page, err := c.board(cfg, authority, cmp.Or(c.Keys, defaultKeys()))
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out, "The board is at %s/\nCtrl-C stops it.\n", siteURL(listener, secure))
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return serveSite(ctx, listener, until(ctx, page), log) })
	return group.Wait()
}

// board makes a board to which come who may. Keys are nil where there are none.
func (b boarding) board(cfg board.Config, keys *identity.Authority, keyDir string) (*board.Board, error) {
	var err error
	if cfg.OperatorToken, err = b.operatorToken(); err != nil {
		return nil, err
	}
	cfg.SignInURL = b.SignInURL
	if keys != nil && cfg.Loopback && !b.NoSignIn && b.SignInURL == "" {
		cfg.SignIn = grants(keys.Issuer(), keyDir, cfg.Gateway != "")
	}
	page, err := board.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUsage, err)
	}
	return page, nil
}

func (b boarding) operatorToken() (string, error) {
	if b.OperatorToken == "" {
		return "", nil
	}
	file, err := os.ReadFile(b.OperatorToken)
	if err != nil {
		return "", err
	}
	const shortest = 16
	token := strings.TrimSpace(string(file))
	if len(token) < shortest {
		return "", fmt.Errorf("%w: --operator-token %s: less than %d characters", errUsage, b.OperatorToken, shortest)
	}
	return token, nil
}

// ledger is where online time is, and who asks for it.
func (b boarding) ledger(place, zone string) *board.Ledger {
	return &board.Ledger{
		Account: cmp.Or(b.BoardAccount, account()), Zone: zone,
		Open: func(ctx context.Context) (store.Store, error) { return store.Open(ctx, place) },
	}
}

// visit is how long a page may be a user before it asks again.
const visit = 15 * time.Minute

// grants lets a page be any user: with a viewer's credential, and if there is a gateway that
// believes the fabric's own key, with a token for it.
func grants(issuer *identity.Issuer, keyDir string, device bool) func(context.Context, string) (board.Grant, error) {
	return func(_ context.Context, user string) (grant board.Grant, err error) {
		credential, err := issuer.Viewer(user, visit)
		if err != nil {
			return grant, err
		}
		grant = board.Grant{User: user, Viewer: credential, Expires: credential.Expires.UTC()}
		if !device {
			return grant, nil
		}
		key, err := keydir.Bearer(keyDir)
		if err == nil {
			grant.Gateway, err = bearer.Mint(key, user, "", visit)
		}
		return grant, err
	}
}

func isLoopback(l net.Listener) bool {
	a, ok := l.Addr().(*net.TCPAddr)
	return ok && a.IP.IsLoopback()
}

package board

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall/subjects"
)

//go:embed assets
var assets embed.FS

// Errors of this package, wrapped with the reason.
var (
	// ErrConfig is a configuration that would show too much, or nothing.
	ErrConfig = errors.New("board: invalid configuration")
)

// OwnGateway is a gateway on the board's own listener.
const OwnGateway = "/"

// Config of a board.
type Config struct {
	// Conn is an operator's connection.
	Conn   *nats.Conn
	Prefix string // of the fabric; default [subjects.DefaultPrefix]
	// WebSocket is where pages reach the NATS server as viewers.
	WebSocket string
	// Gateway is the URL of the gateway at which the page is a device of its user,
	// [OwnGateway] for one beside the board, or empty for none.
	Gateway string
	// SignIn lets whoever asks be any user: for development, and on loopback only. Nil
	// for not.
	SignIn func(ctx context.Context, user string) (Grant, error)
	// SignInURL is the application's, where a page that its user is signed in to gets a
	// [Grant]. Empty for none; the page then takes a token that is pasted.
	SignInURL string
	// OperatorToken is asked of whoever wants to see what is for operators. Empty lets
	// everybody who reaches the listener see it, and is for loopback only.
	OperatorToken string
	// Loopback says that the listener is on loopback, where every request must name a
	// loopback host.
	Loopback bool
	// Ledger answers for online time; nil if there is none.
	Ledger *Ledger
	// Logger hears of what went wrong; default: nobody.
	Logger *slog.Logger
}

// Board is a handler of the page and of what it asks for. Use [New].
type Board struct {
	cfg     Config
	js      jetstream.JetStream
	mux     *http.ServeMux
	policy  string // which content a page may have
	figures figures
	history history
}

// New checks the configuration.
func New(cfg Config) (*Board, error) {
	cfg.Prefix = cmp.Or(cfg.Prefix, subjects.DefaultPrefix)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	js, err := jetstream.New(cfg.Conn, jetstream.WithDefaultTimeout(answerTimeout))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	page, err := fs.Sub(assets, "assets")
	if err != nil {
		return nil, err
	}
	b := &Board{cfg: cfg, js: js, mux: http.NewServeMux(), policy: contentPolicy(cfg)}
	b.figures.board = b
	b.mux.Handle("GET /", http.FileServerFS(page))
	b.mux.HandleFunc("GET /board/config", b.serveConfig)
	b.mux.HandleFunc("POST /board/sign-in", b.signIn)
	b.mux.HandleFunc("GET /board/figures", b.operator(b.serveFigures))
	b.mux.HandleFunc("GET /board/people", b.operator(b.servePeople))
	if cfg.Ledger != nil {
		b.history.Ledger = *cfg.Ledger
		b.mux.HandleFunc("GET /board/days", b.operator(b.serveDays))
		b.mux.HandleFunc("GET /board/timeline", b.operator(b.serveTimeline))
	}
	return b, nil
}

func (c Config) check() error {
	switch {
	case c.Conn == nil:
		return fmt.Errorf("%w: no connection", ErrConfig)
	case !c.Loopback && c.SignIn != nil:
		return fmt.Errorf("%w: whoever reaches the board could sign in as anybody; that is for loopback only", ErrConfig)
	case !c.Loopback && c.OperatorToken == "":
		return fmt.Errorf("%w: an operator's token is needed where other machines can reach the board", ErrConfig)
	}
	for _, u := range []string{c.WebSocket, c.Gateway, c.SignInURL} {
		if strings.ContainsAny(u, " ;,'\"") { // which would say more than a URL in a policy
			return fmt.Errorf("%w: %q is not a URL", ErrConfig, u)
		}
	}
	_, err := subjects.New(c.Prefix, 1)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return nil
}

// contentPolicy lets the page connect where it must and load nothing from elsewhere.
func contentPolicy(c Config) string {
	connect := []string{"'self'"}
	for _, address := range []string{c.WebSocket, c.Gateway, c.SignInURL} {
		if u, err := url.Parse(address); err == nil && u.Host != "" {
			host := u.Host
			if ip := net.ParseIP(u.Hostname()); ip != nil && ip.IsUnspecified() {
				host = "*:" + u.Port() // the page takes the host that it is from
			}
			connect = append(connect, u.Scheme+"://"+host)
			if ws, is := strings.CutPrefix(u.Scheme, "http"); is { // a gateway's WebSocket
				connect = append(connect, "ws"+ws+"://"+host)
			}
		}
	}
	return "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src " + strings.Join(connect, " ") +
		"; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

// ServeHTTP implements http.Handler.
func (b *Board) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", b.policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache")
	if err := b.admit(r); err != nil {
		refuse(w, http.StatusForbidden, "forbidden", err.Error())
		return
	}
	b.mux.ServeHTTP(w, r)
}

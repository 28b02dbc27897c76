package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/synadia-io/orbit.go/natscontext"

	"github.com/rollcall-io/rollcall/internal/natsd"
	"github.com/rollcall-io/rollcall/internal/natsd/keydir"
	"github.com/rollcall-io/rollcall/subjects/identity"
)

// target is which server to talk to.
type target struct {
	Server  string `short:"s" env:"NATS_URL" placeholder:"URL" help:"NATS server, or those of a cluster, separated by commas (default: nats://127.0.0.1:4222)."`
	Creds   string `env:"NATS_CREDS" type:"existingfile" placeholder:"FILE" help:"Credentials file (default: one that is minted with the keys)."`
	Context string `env:"NATS_CONTEXT" placeholder:"NAME" help:"NATS context, as made by 'nats context'."`
	clientTLS

	log *slog.Logger // hears what the connection complains of; nil for the terminal
}

// clientTLS is whom to believe to be the server, and how to prove to it where the command
// runs.
type clientTLS struct {
	TLSCA   string `name:"tls-ca" env:"NATS_CA" type:"existingfile" placeholder:"FILE" help:"Certificate of the authority that the server's must come from (default: the system's)."`
	TLSCert string `name:"tls-cert" env:"NATS_CERT" type:"existingfile" placeholder:"FILE" help:"Certificate to show to a server that asks for one (up --tls-client-ca)."`
	TLSKey  string `name:"tls-key" env:"NATS_KEY" type:"existingfile" placeholder:"FILE" help:"Its key."`
}

// options reads the files, so that what is wrong with one is not blamed on the server.
func (c clientTLS) options() ([]nats.Option, error) {
	var options []nats.Option
	if c.TLSCA != "" {
		options = append(options, nats.RootCAs(c.TLSCA))
	}
	if c.TLSCert == "" && c.TLSKey == "" {
		return options, nil
	}
	if c.TLSCert == "" || c.TLSKey == "" {
		return nil, fmt.Errorf("%w: --tls-cert and --tls-key belong together", errUsage)
	}
	if _, err := tls.LoadX509KeyPair(c.TLSCert, c.TLSKey); err != nil {
		return nil, fmt.Errorf("%w: --tls-cert and --tls-key: %w", errUsage, err)
	}
	return append(options, nats.ClientCert(c.TLSCert, c.TLSKey)), nil
}

// keyring is where the keys are.
type keyring struct {
	Keys string `env:"ROLLCALL_KEYS" type:"path" placeholder:"DIR" help:"Keys of the fabric (default: rollcall-data/keys, if it is there)."`
}

// remote is what every command needs that takes part in a running fabric.
type remote struct {
	target
	keyring
	Prefix string `default:"presence" help:"Prefix of the fabric's subjects."`
}

const (
	defaultServer = "nats://127.0.0.1:4222"
	defaultData   = "rollcall-data"
	keysInData    = "keys"
)

// defaultKeys is where `rollcall up` keeps its keys unless told otherwise.
func defaultKeys() string {
	path, err := filepath.Abs(filepath.Join(defaultData, keysInData))
	if err != nil {
		return filepath.Join(defaultData, keysInData)
	}
	return path
}

// authority reads the keys; nil if none are asked for and the default ones are not
// there.
func (k keyring) authority() (*identity.Authority, error) {
	if k.Keys != "" {
		return keydir.Read(k.Keys)
	}
	authority, err := keydir.Read(defaultKeys())
	if errors.Is(err, keydir.ErrMissing) {
		return nil, nil
	}
	return authority, err
}

// connectAs opens a connection, as this party if no credential is given, that survives
// whatever happens to the server later. A credential that may not do what the party must
// is refused at once: the server would only keep silent.
func (r remote) connectAs(std console, part string, p party) (*nats.Conn, error) {
	options := append(patient(part), nats.Timeout(5*time.Second))
	if r.Creds != "" {
		if err := p.check(r.Creds); err != nil {
			return nil, err
		}
	}
	if r.Creds != "" || r.Context != "" {
		return r.dial(std, options)
	}
	authority, err := r.authority()
	if err != nil {
		return nil, err
	}
	if authority == nil {
		nc, err := r.dial(std, options)
		if refused(err) && !strings.Contains(r.url(), "@") {
			return nil, fmt.Errorf("the server at %s asks for a credential, and there are %w", r.url(), errNoKeys())
		}
		return nc, err
	}
	minted, err := as(authority.Issuer(), shift, p.role, p.ids...)
	if err != nil {
		return nil, err
	}
	return r.dial(std, append(options, minted...))
}

// dial connects with what the flags say.
func (t target) dial(std console, options []nats.Option) (*nats.Conn, error) {
	log := t.log
	if log == nil {
		log = std.logger(slog.LevelWarn)
	}
	options = append([]nats.Option{complaints(log)}, options...)
	if t.Creds != "" {
		given, err := credsFile(t.Creds)
		if err != nil {
			return nil, err
		}
		options = append(options, given...)
	}
	secure, err := t.clientTLS.options()
	if err != nil {
		return nil, err
	}
	options = append(options, secure...)
	if t.Context != "" {
		nc, _, err := natscontext.Connect(t.Context, options...)
		if err != nil {
			return nil, fmt.Errorf("connecting with context %q: %w", t.Context, err)
		}
		return nc, nil
	}
	nc, err := nats.Connect(t.url(), options...)
	if err != nil {
		return nil, unreachable(t.url(), err)
	}
	return nc, nil
}

// refused says whether a server did not take a credential.
func refused(err error) bool {
	return errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) || errors.Is(err, nats.ErrAuthRevoked)
}

// unreachable says why there is no connection, and what helps.
func unreachable(server string, err error) error {
	var untrusted *tls.CertificateVerificationError
	var alert tls.AlertError
	var hint string
	switch {
	case refused(err):
		return fmt.Errorf("the server at %s refuses the credential (%w); --creds FILE shows another, --keys DIR mints one", server, err)
	case errors.As(err, &untrusted):
		return fmt.Errorf("the certificate of the server at %s is not trusted (%w); --tls-ca FILE names the authority that it is from", server, err)
	case errors.As(err, &alert), strings.Contains(err.Error(), "remote error: tls:"), strings.Contains(err.Error(), "after TLS handshake"):
		return fmt.Errorf("the server at %s refuses the handshake (%w); if it asks for a certificate, --tls-cert and --tls-key show one", server, err)
	case errors.Is(err, nats.ErrSecureConnWanted):
		return fmt.Errorf("the server at %s has no TLS (%w)", server, err)
	case server == defaultServer:
		hint = "`rollcall up` starts one, "
	}
	return fmt.Errorf("no server at %s (%w); %s--server names another", server, err, hint)
}

// severed replaces the reason for which a connection has ended for good, if its
// credential is the cause.
func severed(nc *nats.Conn, err error) error {
	if err != nil && nc.IsClosed() && refused(nc.LastError()) {
		return fmt.Errorf("the credential was revoked or has expired (%w)", nc.LastError())
	}
	return err
}

func (t target) url() string {
	if t.Server == "" {
		return defaultServer
	}
	return t.Server
}

// credsFile are the options for a credentials file, which need not be one of ours.
func credsFile(path string) ([]nats.Option, error) {
	options, err := identity.FromFile(path)
	if errors.Is(err, identity.ErrCredential) {
		return []nats.Option{nats.UserCredentials(path)}, nil
	}
	return options, err
}

// shift is how long a credential lasts that a command mints for itself. When it is
// over, the server ends the connection, and the next one has a new credential.
const shift = 24 * time.Hour

// as are the options by which a command shows a credential that it mints itself, again
// at every connect.
func as(issuer *identity.Issuer, ttl time.Duration, role identity.Role, ids ...string) ([]nats.Option, error) {
	return identity.Renewing(func() (identity.Credential, error) { return issuer.Mint(role, ttl, ids...) })
}

// patient are the options of a connection that is never given up: a dead path is
// noticed within 9 s, sooner than views turn unknown, and clients do not come back in step.
func patient(name string) []nats.Option {
	return []nats.Option{
		nats.Name("rollcall " + name), nats.MaxReconnects(-1),
		nats.ReconnectWait(500 * time.Millisecond), nats.ReconnectJitter(500*time.Millisecond, time.Second),
		nats.PingInterval(3 * time.Second), nats.MaxPingsOutstanding(2), nats.ReconnectBufSize(-1),
	}
}

// complaints has the errors of a connection logged, which nats.go writes to stderr
// otherwise.
func complaints(log *slog.Logger) nats.Option {
	return nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
		attrs := []any{"err", plain(err)}
		if sub != nil {
			attrs = append(attrs, "subject", sub.Subject)
		}
		log.Warn("NATS connection", attrs...)
	})
}

// listenerTLS is how the listeners prove who they are.
type listenerTLS struct {
	TLSCert     string `name:"tls-cert" type:"existingfile" placeholder:"FILE" help:"Certificate of every listener, with its chain, in PEM."`
	TLSKey      string `name:"tls-key" type:"existingfile" placeholder:"FILE" help:"Its key."`
	TLSClientCA string `name:"tls-client-ca" type:"existingfile" placeholder:"FILE" help:"Authority that must have signed the certificates of NATS clients (default: they need none)."`
}

func (l listenerTLS) tls() *natsd.TLS {
	if l == (listenerTLS{}) {
		return nil
	}
	return &natsd.TLS{Cert: l.TLSCert, Key: l.TLSKey, ClientCA: l.TLSClientCA}
}

package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/synadia-io/orbit.go/natscontext"

	"github.com/rollcall-io/rollcall/internal/natsd"
	"github.com/rollcall-io/rollcall/internal/natsd/keydir"
	"github.com/rollcall-io/rollcall/subjects/identity"
)

// target is which server to talk to.
type target struct {
	Server  string `short:"s" env:"NATS_URL" placeholder:"URL" help:"NATS server (default: nats://127.0.0.1:4222)."`
	Creds   string `env:"NATS_CREDS" type:"existingfile" placeholder:"FILE" help:"Credentials file (default: one that is minted with the keys)."`
	Context string `env:"NATS_CONTEXT" placeholder:"NAME" help:"NATS context, as made by 'nats context'."`
	TLSCA   string `name:"tls-ca" type:"existingfile" placeholder:"FILE" help:"Certificate of the authority that the server's must come from (default: the system's)."`
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

// connectAs opens a connection, as the party with this role and name if no credential
// is given, that survives whatever happens to the server later.
func (r remote) connectAs(part string, role identity.Role, ids ...string) (*nats.Conn, error) {
	options := append(patient(part), nats.Timeout(5*time.Second))
	if r.Creds == "" && r.Context == "" {
		authority, err := r.authority()
		if err != nil {
			return nil, err
		}
		if authority != nil {
			minted, err := as(authority.Issuer(), shift, role, ids...)
			if err != nil {
				return nil, err
			}
			options = append(options, minted...)
		}
	}
	return r.dial(options)
}

// dial connects with what the flags say.
func (t target) dial(options []nats.Option) (*nats.Conn, error) {
	if t.Creds != "" {
		given, err := credsFile(t.Creds)
		if err != nil {
			return nil, err
		}
		options = append(options, given...)
	}
	if t.TLSCA != "" {
		options = append(options, nats.RootCAs(t.TLSCA))
	}
	if t.Context != "" {
		nc, _, err := natscontext.Connect(t.Context, options...)
		if err != nil {
			return nil, fmt.Errorf("connecting with context %q: %w", t.Context, err)
		}
		return nc, nil
	}
	server := t.url()
	nc, err := nats.Connect(server, options...)
	switch {
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked):
		return nil, fmt.Errorf("the server at %s refuses the credential (%w); --creds FILE shows another, --keys DIR mints one", server, err)
	case err != nil:
		return nil, fmt.Errorf("no server at %s (%w); `rollcall up` starts one, --server names another", server, err)
	}
	return nc, nil
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
// noticed within 15 s, and clients do not come back in step.
func patient(name string) []nats.Option {
	return []nats.Option{
		nats.Name("rollcall " + name), nats.MaxReconnects(-1),
		nats.ReconnectWait(500 * time.Millisecond), nats.ReconnectJitter(500*time.Millisecond, time.Second),
		nats.PingInterval(5 * time.Second), nats.MaxPingsOutstanding(2), nats.ReconnectBufSize(-1),
	}
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

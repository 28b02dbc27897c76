package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall/edge/gateway/bearer"
	"github.com/rollcall-io/rollcall/internal/natsd"
	"github.com/rollcall-io/rollcall/internal/natsd/keydir"
	"github.com/rollcall-io/rollcall/subjects/identity"
)

type tokenCmd struct {
	Viewer   tokenViewerCmd  `cmd:"" help:"For a user who looks at others."`
	Device   tokenDeviceCmd  `cmd:"" help:"For a device that speaks NATS."`
	Edge     tokenProcessCmd `cmd:"" help:"For a gateway process, under its edge id."`
	Door     tokenProcessCmd `cmd:"" help:"For a front door (rollcall gateway), under its edge id."`
	Gateway  tokenGatewayCmd `cmd:"" help:"For a user, or device, of a gateway: a bearer token."`
	Natsgate tokenProcessCmd `cmd:"" help:"For a front door of devices that speak NATS (rollcall natsgate), under its edge id."`
	Backend  tokenProcessCmd `cmd:"" help:"For a process of the application: policies, and any viewer's requests."`
	Keeper   tokenProcessCmd `cmd:"" help:"For a keeper process."`
	Fanout   tokenProcessCmd `cmd:"" help:"For a fanout process."`
	Ledger   tokenProcessCmd `cmd:"" help:"For a process that reads what edges observed."`
	Worker   tokenProcessCmd `cmd:"" help:"For a member of a worker group."`
	Operator tokenProcessCmd `cmd:"" help:"For somebody who runs the fabric: everything in its account."`
	Revoke   tokenRevokeCmd  `cmd:"" help:"Cut a party off, and make void every token that it has."`
	Rotate   tokenRotateCmd  `cmd:"" help:"Make a new signing key for a role, and void every token of the role."`
}

func (tokenCmd) Help() string {
	return `Mints a credential with the keys; no server is asked. It is printed as a credentials file, which every NATS client reads.
Clients must use the inbox _INBOX.<role>.<name> (nats.CustomInboxPrefix); --json tells it. In Go, identity.FromFile does both.

An application mints in its backend, with keys/roles/viewer.json and package subjects/identity.`
}

// minting is what every command needs that mints.
type minting struct {
	Out  string `type:"path" placeholder:"FILE" help:"Write the credential to this file, which only you can read (default: print it)."`
	JSON bool   `help:"JSON with token, seed and inbox, for clients that read no credentials files."`
	keyring
}

func (m minting) mint(std console, ttl time.Duration, role identity.Role, ids ...string) error {
	authority, err := m.mustHaveKeys()
	if err != nil {
		return err
	}
	credential, err := authority.Issuer().Mint(role, ttl, ids...)
	switch {
	case errors.Is(err, identity.ErrName), errors.Is(err, identity.ErrTTL):
		return fmt.Errorf("%w: %w", errUsage, err)
	case err != nil:
		return err
	}
	text, err := credential.File()
	if m.JSON {
		if text, err = json.Marshal(credential); err == nil {
			text = append(text, '\n')
		}
	}
	if err != nil {
		return err
	}
	if m.Out == "" {
		_, err = std.out.Write(text)
		return err
	}
	if err := writeSecret(m.Out, text); err != nil {
		return err
	}
	fmt.Fprintf(std.err, "%s of %s %s, until %s\n", m.Out, role, strings.Join(ids, " "), credential.Expires.Local().Format(timeLayout))
	return nil
}

// mustHaveKeys reads the keys, which a command cannot do without.
func (k keyring) mustHaveKeys() (*identity.Authority, error) {
	if authority, err := k.authority(); authority != nil || err != nil {
		return authority, err
	}
	return nil, errNoKeys()
}

// errNoKeys says where keys were looked for.
func errNoKeys() error {
	return fmt.Errorf("%w in %s; `rollcall up` or `rollcall init` makes them, --keys names another directory", keydir.ErrMissing, defaultKeys())
}

// writeSecret writes a file that only its owner can read, whole or not at all: a
// process may read it at any moment.
func writeSecret(path string, text []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".creds-") // with mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, err = file.Write(text)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

type tokenViewerCmd struct {
	User string        `required:"" placeholder:"ID" help:"The user."`
	TTL  time.Duration `name:"ttl" default:"24h" help:"How long it lasts (default ${default})."`
	minting
}

func (c *tokenViewerCmd) Run(std console) error {
	return c.mint(std, c.TTL, identity.Viewer, c.User)
}

type tokenDeviceCmd struct {
	User   string        `required:"" placeholder:"ID" help:"The user."`
	Device string        `required:"" placeholder:"ID" help:"The device."`
	TTL    time.Duration `name:"ttl" default:"24h" help:"How long it lasts (default ${default})."`
	minting
}

func (c *tokenDeviceCmd) Run(std console) error {
	return c.mint(std, c.TTL, identity.Device, c.User, c.Device)
}

type tokenGatewayCmd struct {
	User   string        `required:"" placeholder:"ID" help:"The user."`
	Device string        `placeholder:"ID" help:"The only device that the token is for (default: any of the user)."`
	TTL    time.Duration `name:"ttl" default:"1h" help:"How long it lasts (default ${default}); nothing takes it back before."`
	keyring
}

func (c *tokenGatewayCmd) Help() string {
	return `Prints a JWT, signed with bearer.pem of the keys, as 'rollcall gateway' and 'rollcall up' take it from a device:

  curl -H "Authorization: Bearer $(rollcall token gateway --user ann)" http://127.0.0.1:8080/api/v1/users/bob/presence

An application mints in its backend, with that key or with one of its own (--jwt-secret, --jwt-key, --jwks).`
}

func (c *tokenGatewayCmd) Run(std console) error {
	if _, err := c.mustHaveKeys(); err != nil {
		return err
	}
	if c.TTL <= 0 {
		return fmt.Errorf("%w: --ttl %s", errUsage, c.TTL)
	}
	key, err := keydir.Bearer(cmp.Or(c.Keys, defaultKeys()))
	if err != nil {
		return err
	}
	token, err := bearer.Mint(key, c.User, c.Device, c.TTL)
	if err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	_, err = fmt.Fprintln(std.out, token)
	return err
}

type tokenProcessCmd struct {
	ID  string        `name:"id" required:"" help:"Names the process; for an edge its edge id."`
	TTL time.Duration `name:"ttl" default:"8760h" help:"How long it lasts (default ${default}, a year)."`
	minting
}

// Run mints for the role that the command is named after.
func (c *tokenProcessCmd) Run(std console, role identity.Role) error {
	return c.mint(std, c.TTL, role, c.ID)
}

type tokenRevokeCmd struct {
	Role   string `placeholder:"ROLE" help:"Role of the party (default: viewer, or device with --device)."`
	User   string `placeholder:"ID" help:"The user."`
	Device string `placeholder:"ID" help:"The device of the user."`
	ID     string `name:"id" help:"The process; needs --role."`
	managing
}

func (c *tokenRevokeCmd) Help() string {
	return `Whoever is connected with a token of this party is cut off at once, and no token lets it in that was minted up to this second.
One that is minted later does, so have the backend mint none. Commands that mint for themselves with the keys come back.`
}

// party is whom the flags name.
func (c *tokenRevokeCmd) party() (identity.Role, []string, error) {
	role := identity.Role(c.Role)
	switch {
	case c.Role != "":
	case c.Device != "":
		role = identity.Device
	default:
		role = identity.Viewer
	}
	if _, err := identity.ParseRole(string(role)); err != nil {
		return "", nil, fmt.Errorf("%w: --role: %w", errUsage, err)
	}
	var ids []string
	for _, given := range []struct {
		id    string
		takes bool
	}{
		{c.User, role == identity.Viewer || role == identity.Device}, {c.Device, role == identity.Device},
		{c.ID, role != identity.Viewer && role != identity.Device},
	} {
		if given.takes != (given.id != "") {
			return "", nil, fmt.Errorf("%w: a viewer is named by --user, a device by --user and --device, everybody else by --role and --id", errUsage)
		}
		if given.takes {
			ids = append(ids, given.id)
		}
	}
	return role, ids, nil
}

func (c *tokenRevokeCmd) Run(ctx context.Context, std console) error {
	role, ids, err := c.party()
	if err != nil {
		return err
	}
	err = c.amend(ctx, std, func(authority *identity.Authority, claims *jwt.AccountClaims) error {
		if err := authority.Revoke(claims, time.Now(), role, ids...); err != nil {
			return fmt.Errorf("%w: %w", errUsage, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(std.err, "revoked: every token of %s %s up to now\n", role, strings.Join(ids, " "))
	return nil
}

type tokenRotateCmd struct {
	Role string `arg:"" help:"The role."`
	managing
}

func (c *tokenRotateCmd) Help() string {
	return `For a signing key that leaked, or is old. Everybody of the role is cut off at once and needs a new token; whoever mints for the role
needs the new file, roles/ROLE.json in the keys. What runs with the keys themselves, such as 'rollcall up', must be started again
if its own role is rotated (keeper, fanout).`
}

func (c *tokenRotateCmd) Run(ctx context.Context, std console) error {
	role, err := identity.ParseRole(c.Role)
	if err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	dir := cmp.Or(c.Keys, defaultKeys())
	err = c.amend(ctx, std, func(authority *identity.Authority, claims *jwt.AccountClaims) error {
		rotated, err := authority.Rotate(role)
		if err != nil {
			return err
		}
		// The file first: if the server is not told any more, init tells it.
		if err := keydir.Replace(dir, rotated, role); err != nil {
			return err
		}
		return rotated.Adopt(claims, role)
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(std.err, "rotated: no token of the role %s is valid that was minted with the former key\n", role)
	return nil
}

// amend changes the claims of the account on the server.
func (m managing) amend(ctx context.Context, std console, change func(*identity.Authority, *jwt.AccountClaims) error) error {
	authority, err := m.mustHaveKeys()
	if err != nil {
		return err
	}
	if authority, err = m.operatorOf(authority); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	nc, err := m.manage(std, authority)
	if err != nil {
		return err
	}
	defer nc.Close()
	claims, err := natsd.LookupClaims(ctx, nc, authority.Account())
	switch {
	case err != nil:
		return err
	case claims == nil:
		return fmt.Errorf("the server does not know the account %s of these keys; `rollcall init` makes it", authority.Account())
	}
	if err := change(authority, claims); err != nil {
		return err
	}
	token, err := authority.Sign(claims)
	if err != nil {
		return err
	}
	return natsd.PushClaims(ctx, nc, token)
}

// managing is what every command needs that changes accounts.
type managing struct {
	Server      string `short:"s" env:"NATS_URL" placeholder:"URL" help:"NATS server, or those of a cluster, separated by commas (default: nats://127.0.0.1:4222)."`
	SystemCreds string `type:"existingfile" placeholder:"FILE" help:"Credentials of the system account (default: minted with the keys)."`
	OperatorKey string `type:"existingfile" placeholder:"FILE" help:"Seed of the NATS operator, or of a signing key of it (default: that of the keys)."`
	clientTLS
	keyring
}

func (m managing) target() target {
	return target{Server: m.Server, Creds: m.SystemCreds, clientTLS: m.clientTLS}
}

// operatorOf puts the account under the operator whose key is given. Without one, the
// system account must be that of the keys: a server stores an account's claims whoever
// signed them, and only then finds that it does not trust them.
func (m managing) operatorOf(authority *identity.Authority) (*identity.Authority, error) {
	if m.OperatorKey == "" && (m.SystemCreds == "" || ofSystem(m.SystemCreds, authority)) {
		return authority, nil
	}
	if m.OperatorKey == "" {
		return nil, fmt.Errorf("%w: the system account of %s belongs to another operator; --operator-key FILE signs for it", errUsage, m.SystemCreds)
	}
	seed, err := os.ReadFile(m.OperatorKey)
	if err != nil {
		return nil, err
	}
	authority, err = authority.UnderOperator(strings.TrimSpace(string(seed)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.OperatorKey, err)
	}
	return authority, nil
}

// ofSystem says whether a credentials file is of the system account of the keys.
func ofSystem(path string, authority *identity.Authority) bool {
	text, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	token, err := jwt.ParseDecoratedJWT(text)
	if err != nil {
		return false
	}
	claims, err := jwt.DecodeUserClaims(token)
	return err == nil && cmp.Or(claims.IssuerAccount, claims.Issuer) == authority.System()
}

// manage connects to the system account.
func (m managing) manage(std console, authority *identity.Authority) (*nats.Conn, error) {
	options := []nats.Option{nats.Name("rollcall manage"), nats.Timeout(5 * time.Second), nats.NoReconnect()}
	if m.SystemCreds == "" {
		credential, err := authority.SystemUser(shift)
		if err != nil {
			return nil, fmt.Errorf("%w: --system-creds FILE: %w", errUsage, err)
		}
		options = append(options, credential.Options()...)
	}
	nc, err := m.target().dial(std, options)
	if errors.Is(err, nats.ErrAuthorization) {
		return nil, fmt.Errorf("%w; if it has another operator, --system-creds and --operator-key speak for that", err)
	}
	return nc, err
}

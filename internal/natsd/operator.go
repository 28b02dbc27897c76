package natsd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/identity"
)

// Operator says whom a server believes.
type Operator struct {
	// JWT is the operator's, which names the system account.
	JWT string
	// Accounts are the tokens of accounts that the server must know from its first
	// start on. It keeps what it knows already, so that a revocation outlives a
	// restart.
	Accounts []string
	// Home is the public key of the account that takes over what was stored before
	// there were accounts.
	Home string
}

// OperatorOf has a server believe an authority, whose account holds a fabric of these
// names.
func OperatorOf(a *identity.Authority, names subjects.Names) (*Operator, error) {
	token, err := a.OperatorJWT()
	if err != nil {
		return nil, err
	}
	system, err := a.SystemJWT()
	if err != nil {
		return nil, err
	}
	claims, _ := a.Claims(names, nil)
	home, err := a.Sign(claims)
	if err != nil {
		return nil, err
	}
	return &Operator{JWT: token, Accounts: []string{system, home}, Home: a.Account()}, nil
}

// ErrAccount says that a directory belongs to an account that the server would not
// know.
var ErrAccount = errors.New("natsd: streams of another account")

const (
	accountsDir = "accounts"  // the resolver's, in the store directory
	globalDir   = "$G"        // nats-server's account for clients without one
	streamsDir  = "jetstream" // nats-server's, in the store directory
)

func (c *Operator) apply(o *server.Options, dir string) error {
	claims, err := jwt.DecodeOperatorClaims(c.JWT)
	if err != nil {
		return fmt.Errorf("%w: operator: %w", ErrConfig, err)
	}
	if !nkeys.IsValidPublicAccountKey(c.Home) {
		return fmt.Errorf("%w: %q is not the public key of an account", ErrConfig, c.Home)
	}
	o.TrustedOperators, o.SystemAccount = []*jwt.OperatorClaims{claims}, claims.SystemAccount
	return nil
}

// prepare opens the resolver and gives the home account what it must have.
func (c *Operator) prepare(dir string, o *server.Options) error {
	if err := c.moveIn(filepath.Join(dir, streamsDir)); err != nil {
		return err
	}
	path := filepath.Join(dir, accountsDir)
	if err := os.MkdirAll(path, 0o700); err != nil {
		return fmt.Errorf("natsd: accounts: %w", err)
	}
	const noLimit, noSync = 0, 0 // one server: there is nobody to compare with
	resolver, err := server.NewDirAccResolver(path, noLimit, noSync, server.NoDelete)
	if err != nil {
		return fmt.Errorf("natsd: accounts: %w", err)
	}
	for _, token := range c.Accounts {
		if err := learn(resolver, token, o.TrustedOperators[0]); err != nil {
			resolver.Close()
			return err
		}
	}
	o.AccountResolver = resolver
	return nil
}

// learn stores an account's token unless one by the same operator is there.
func learn(resolver *server.DirAccResolver, token string, operator *jwt.OperatorClaims) error {
	claims, err := jwt.DecodeAccountClaims(token)
	if err != nil {
		return fmt.Errorf("%w: account: %w", ErrConfig, err)
	}
	if old, err := resolver.LoadAcc(claims.Subject); err == nil {
		if known, err := jwt.DecodeAccountClaims(old); err == nil && operator.DidSign(known) {
			return nil
		}
	}
	if err := resolver.SaveAcc(claims.Subject, token); err != nil {
		return fmt.Errorf("natsd: account %s: %w", claims.Subject, err)
	}
	return nil
}

// moveIn has the home account take over what is stored, and refuses what belongs to
// another: with other keys than it was made with, a fabric would look as if it were empty.
func (c *Operator) moveIn(dir string) error {
	old, home := filepath.Join(dir, globalDir), filepath.Join(dir, c.Home)
	others, err := accountsIn(dir)
	if err != nil {
		return err
	}
	for _, other := range others {
		if other != c.Home {
			return fmt.Errorf("%w: %s holds streams of account %s, and the keys are those of %s; put the keys back with which they were made", ErrAccount, dir, other, c.Home)
		}
	}
	switch held, err := holdsStreams(old); {
	case err != nil:
		return err
	case !held:
		return nil
	}
	switch held, err := holdsStreams(home); {
	case err != nil:
		return err
	case held:
		return fmt.Errorf("%w: both %s and %s hold streams; move away the one that is not to be kept", ErrAccount, old, home)
	}
	if err := os.RemoveAll(home); err != nil {
		return fmt.Errorf("natsd: moving streams: %w", err)
	}
	if err := os.Rename(old, home); err != nil {
		return fmt.Errorf("natsd: moving streams: %w", err)
	}
	return nil
}

// checkNoAccounts keeps a server without accounts from a directory of one with: it
// would look as if it were empty.
func checkNoAccounts(dir string) error {
	others, err := accountsIn(filepath.Join(dir, streamsDir))
	if err != nil || len(others) == 0 {
		return err
	}
	return fmt.Errorf("%w: %s holds streams of account %s; start the server with its keys", ErrAccount, dir, others[0])
}

// accountsIn lists the accounts that hold streams.
func accountsIn(dir string) ([]string, error) {
	entries, err := readDir(dir)
	if err != nil {
		return nil, err
	}
	var accounts []string
	for _, e := range entries {
		if !nkeys.IsValidPublicAccountKey(e.Name()) {
			continue
		}
		held, err := holdsStreams(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		if held {
			accounts = append(accounts, e.Name())
		}
	}
	return accounts, nil
}

func holdsStreams(account string) (bool, error) {
	entries, err := readDir(filepath.Join(account, "streams"))
	return len(entries) > 0, err
}

// readDir lists a directory; one that is not there is empty.
func readDir(dir string) ([]fs.DirEntry, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("natsd: %w", err)
	}
	return entries, nil
}

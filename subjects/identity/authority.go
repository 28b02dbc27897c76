package identity

import (
	"fmt"
	"maps"
	"reflect"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/rollcall-io/rollcall/subjects"
)

// Seeds are all keys of a fabric; every one is a secret. Operator and System are
// empty where the NATS system has an operator of its own.
type Seeds struct {
	Operator string // signs accounts
	System   string // of the account through which the server is managed
	Account  string // of the fabric
	Roles    map[Role]string
}

// An Authority decides whom the server believes. Use [Generate] or [NewAuthority].
type Authority struct {
	seeds     Seeds
	operator  nkeys.KeyPair // nil if it is not known
	system    nkeys.KeyPair // nil if it is not known
	systemID  string
	account   nkeys.KeyPair
	accountID string
	roles     map[Role]string // public keys
	issuer    *Issuer
}

// Generate makes new keys for an operator with a system account and the account of a
// fabric.
func Generate() (*Authority, error) {
	s := Seeds{Roles: make(map[Role]string, len(Roles))}
	for _, k := range []struct {
		seed   *string
		prefix nkeys.PrefixByte
	}{{&s.Operator, nkeys.PrefixByteOperator}, {&s.System, nkeys.PrefixByteAccount}, {&s.Account, nkeys.PrefixByteAccount}} {
		seed, err := newSeed(k.prefix)
		if err != nil {
			return nil, err
		}
		*k.seed = seed
	}
	for _, role := range Roles {
		seed, err := newSeed(nkeys.PrefixByteAccount)
		if err != nil {
			return nil, err
		}
		s.Roles[role] = seed
	}
	return NewAuthority(s)
}

func newSeed(prefix nkeys.PrefixByte) (string, error) {
	pair, err := nkeys.CreatePair(prefix)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrKey, err)
	}
	defer pair.Wipe()
	seed, err := pair.Seed()
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrKey, err)
	}
	return string(seed), nil
}

// NewAuthority checks the keys.
func NewAuthority(s Seeds) (*Authority, error) {
	a := &Authority{seeds: s, roles: make(map[Role]string, len(Roles))}
	var err error
	if a.account, a.accountID, err = accountOf("account", s.Account); err != nil {
		return nil, err
	}
	if s.System != "" {
		if a.system, a.systemID, err = accountOf("system", s.System); err != nil {
			return nil, err
		}
	}
	if s.Operator != "" {
		if a.operator, err = pairOf(s.Operator, nkeys.PrefixByteOperator); err != nil {
			return nil, fmt.Errorf("operator: %w", err)
		}
	}
	var keys []SigningKey
	for _, role := range Roles {
		_, public, err := accountOf(string(role), s.Roles[role])
		if err != nil {
			return nil, err
		}
		a.roles[role] = public
		keys = append(keys, SigningKey{Role: role, Account: a.accountID, Seed: s.Roles[role]})
	}
	a.issuer, err = NewIssuer(keys...)
	return a, err
}

func accountOf(what, seed string) (nkeys.KeyPair, string, error) {
	pair, err := pairOf(seed, nkeys.PrefixByteAccount)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", what, err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w: %w", what, ErrKey, err)
	}
	return pair, public, nil
}

// Seeds returns the keys, to be kept.
func (a *Authority) Seeds() Seeds { return a.seeds }

// Account is the public key, which is the name for servers, of the fabric's account.
func (a *Authority) Account() string { return a.accountID }

// System is that of the system account; empty if the operator is another.
func (a *Authority) System() string { return a.systemID }

// Issuer mints for every role.
func (a *Authority) Issuer() *Issuer { return a.issuer }

// SigningKey is what mints for a role, to be given to whoever shall mint for it.
func (a *Authority) SigningKey(role Role) SigningKey { return a.issuer.keys[role] }

// UnderOperator is the same account under another operator, whose key, or one of
// whose signing keys, has this seed.
func (a *Authority) UnderOperator(seed string) (*Authority, error) {
	s := a.seeds
	s.Operator, s.System = seed, ""
	return NewAuthority(s)
}

// OperatorJWT is what a server must trust.
func (a *Authority) OperatorJWT() (string, error) {
	if a.operator == nil || a.system == nil {
		return "", fmt.Errorf("%w: the operator is another", ErrKey)
	}
	public, err := a.operator.PublicKey()
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrKey, err)
	}
	claims := jwt.NewOperatorClaims(public)
	claims.Name, claims.SystemAccount = "rollcall", a.systemID
	return encoded(claims, a.operator)
}

// SystemJWT are the claims of the system account.
func (a *Authority) SystemJWT() (string, error) {
	if a.operator == nil || a.system == nil {
		return "", fmt.Errorf("%w: the operator is another", ErrKey)
	}
	claims := jwt.NewAccountClaims(a.systemID)
	claims.Name = "system"
	return encoded(claims, a.operator)
}

// Bare are the tokens that a server needs before it can be told of anything.
type Bare struct{ Operator, System, Account string }

// Bare are those of this authority; the account has no signing keys in it yet.
func (a *Authority) Bare() (Bare, error) {
	var b Bare
	var err error
	if b.Operator, err = a.OperatorJWT(); err != nil {
		return b, err
	}
	if b.System, err = a.SystemJWT(); err != nil {
		return b, err
	}
	b.Account, err = a.Sign(a.bareClaims())
	return b, err
}

// bareClaims are those of a new account: JetStream without limits.
func (a *Authority) bareClaims() *jwt.AccountClaims {
	claims := jwt.NewAccountClaims(a.accountID)
	claims.Name = "rollcall"
	claims.Limits.JetStreamLimits = jwt.JetStreamLimits{
		MemoryStorage: jwt.NoLimit, DiskStorage: jwt.NoLimit, Streams: jwt.NoLimit, Consumer: jwt.NoLimit,
	}
	// Whoever overhears a token must not be able to use it.
	claims.Limits.DisallowBearer = true
	return claims
}

// SystemUser mints for a process that manages the server: it may do everything in the
// system account, and nothing in the fabric's. Its inbox is like everybody's.
func (a *Authority) SystemUser(ttl time.Duration) (Credential, error) {
	if a.system == nil {
		return Credential{}, fmt.Errorf("%w: the system account is another", ErrKey)
	}
	if ttl < time.Second || ttl > MaxTTL {
		return Credential{}, fmt.Errorf("%w: %s is not between 1s and %s", ErrTTL, ttl, MaxTTL)
	}
	pair, err := nkeys.CreateUser()
	if err != nil {
		return Credential{}, fmt.Errorf("%w: %w", ErrKey, err)
	}
	defer pair.Wipe()
	public, err := pair.PublicKey()
	if err != nil {
		return Credential{}, fmt.Errorf("%w: %w", ErrKey, err)
	}
	seed, err := pair.Seed()
	if err != nil {
		return Credential{}, fmt.Errorf("%w: %w", ErrKey, err)
	}
	claims := jwt.NewUserClaims(public)
	claims.Name = "system"
	claims.Tags = jwt.TagList{tagRole + string(Operator)}
	expires := time.Now().Add(ttl).Truncate(time.Second)
	claims.Expires = expires.Unix()
	token, err := encoded(claims, a.system)
	return Credential{Role: Operator, Name: claims.Name, JWT: token, Seed: string(seed), Expires: expires}, err
}

// A Change is one thing in an account's claims.
type Change struct {
	What string
	Done Done
}

// Done is what was, or would be, done to a thing.
type Done string

// What can be done.
const (
	Made    Done = "made"
	Changed Done = "changed"
	Removed Done = "removed"
	Kept    Done = "kept"
)

// Claims are those of the fabric's account: the signing keys of all roles in place of any
// other keys of these roles, JetStream without limits for a new account, and whatever the
// previous claims hold besides; nil if there are none. They say what was changed.
func (a *Authority) Claims(names subjects.Names, previous *jwt.AccountClaims) (*jwt.AccountClaims, []Change) {
	claims := a.bareClaims()
	changes := []Change{{"account " + a.accountID, Made}}
	if previous != nil {
		*claims = *previous
		claims.SigningKeys = make(jwt.SigningKeys, len(previous.SigningKeys))
		for key, scope := range previous.SigningKeys {
			if role, replaced := a.replaced(key, scope); replaced {
				changes = append(changes, Change{"former signing key of role " + role, Removed})
				continue
			}
			claims.SigningKeys[key] = scope
		}
		changes[0].Done = Kept
	}
	for _, role := range Roles {
		key := a.roles[role]
		scope := PermissionsOf(names, role).scope(role, key)
		done := Made
		if old, found := claims.SigningKeys[key]; found {
			if done = Changed; sameScope(old, scope) {
				done = Kept
			}
		}
		claims.SigningKeys[key] = scope
		changes = append(changes, Change{"signing key of role " + string(role), done})
	}
	return claims, changes
}

// replaced says whether a signing key is one that a role had before.
func (a *Authority) replaced(key string, scope jwt.Scope) (role string, replaced bool) {
	user, ok := scope.(*jwt.UserScope)
	if !ok || user == nil {
		return "", false
	}
	now, known := a.roles[Role(user.Role)]
	return user.Role, known && now != key
}

// Rotate is the authority with a new signing key for a role. Once its claims are with the
// server, no token is valid that the old key has signed.
func (a *Authority) Rotate(role Role) (*Authority, error) {
	if _, err := ParseRole(string(role)); err != nil {
		return nil, err
	}
	seed, err := newSeed(nkeys.PrefixByteAccount)
	if err != nil {
		return nil, err
	}
	s := a.seeds
	s.Roles = maps.Clone(s.Roles)
	s.Roles[role] = seed
	return NewAuthority(s)
}

// Adopt puts the signing key of a role in the place of those that the role had before,
// with the same rights.
func (a *Authority) Adopt(claims *jwt.AccountClaims, role Role) error {
	var former *jwt.UserScope
	for key, scope := range claims.SigningKeys {
		if user, ok := scope.(*jwt.UserScope); ok && user != nil && user.Role == string(role) {
			delete(claims.SigningKeys, key)
			former = user
		}
	}
	if former == nil {
		return fmt.Errorf("%w: the account has none for the role %s", ErrKey, role)
	}
	former.Key = a.roles[role]
	claims.SigningKeys[former.Key] = former
	return nil
}

// Admits says whether an account with these claims lets a role in at all.
func (a *Authority) Admits(claims *jwt.AccountClaims, role Role) bool {
	return claims.SigningKeys.Contains(a.roles[role])
}

func sameScope(old jwt.Scope, scope *jwt.UserScope) bool {
	was, ok := old.(*jwt.UserScope)
	return ok && was != nil && was.Role == scope.Role && reflect.DeepEqual(was.Template, scope.Template)
}

// Revoke makes every token of a party void that was minted up to now, and forgets
// revocations of what has expired anyway.
func (a *Authority) Revoke(claims *jwt.AccountClaims, now time.Time, role Role, ids ...string) error {
	subject, err := a.issuer.Subject(role, ids...)
	if err != nil {
		return err
	}
	if claims.Revocations == nil {
		claims.Revocations = make(jwt.RevocationList)
	}
	claims.Revocations.Revoke(subject, now)
	for key, at := range claims.Revocations {
		if time.Unix(at, 0).Add(MaxTTL).Before(now) {
			delete(claims.Revocations, key)
		}
	}
	return nil
}

// Sign makes claims a token that servers take from the operator.
func (a *Authority) Sign(claims *jwt.AccountClaims) (string, error) {
	if a.operator == nil {
		return "", fmt.Errorf("%w: the operator's key is not here", ErrKey)
	}
	results := jwt.CreateValidationResults()
	claims.Validate(results)
	if results.IsBlocking(true) {
		var reasons []string
		for _, err := range results.Errors() {
			reasons = append(reasons, err.Error())
		}
		return "", fmt.Errorf("%w: claims of the account: %s", ErrKey, strings.Join(reasons, "; "))
	}
	return encoded(claims, a.operator)
}

func encoded(claims jwt.Claims, signer nkeys.KeyPair) (string, error) {
	token, err := claims.Encode(signer)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrKey, err)
	}
	return token, nil
}

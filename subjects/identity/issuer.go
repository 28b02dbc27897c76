package identity

import (
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
)

// MaxTTL is the longest time to live of a token. There must be one, so that a
// revocation can be forgotten when all that it concerns has expired.
const MaxTTL = 366 * 24 * time.Hour

// A SigningKey mints the tokens of one role in one account. Its seed is a secret that
// is as powerful as everybody of that role together.
type SigningKey struct {
	Role    Role   `json:"role"`
	Account string `json:"account"`
	Seed    string `json:"seed"`
}

// ParseSigningKey reads a file as the keys directory holds one for each role.
func ParseSigningKey(file []byte) (SigningKey, error) {
	var k SigningKey
	if err := json.Unmarshal(file, &k); err != nil {
		return SigningKey{}, fmt.Errorf("%w: %w", ErrKey, err)
	}
	return k, k.check()
}

func (k SigningKey) check() error {
	if _, err := ParseRole(string(k.Role)); err != nil {
		return fmt.Errorf("%w: %w", ErrKey, err)
	}
	if !nkeys.IsValidPublicAccountKey(k.Account) {
		return fmt.Errorf("%w: %q is not the public key of an account", ErrKey, k.Account)
	}
	_, err := pairOf(k.Seed, nkeys.PrefixByteAccount)
	return err
}

// pairOf reads a seed and checks what it is for.
func pairOf(seed string, want nkeys.PrefixByte) (nkeys.KeyPair, error) {
	prefix, _, err := nkeys.DecodeSeed([]byte(seed))
	if err != nil {
		return nil, fmt.Errorf("%w: not a seed", ErrKey) // the reason could quote it
	}
	if prefix != want {
		return nil, fmt.Errorf("%w: the seed is that of %s, not of %s", ErrKey, prefix, want)
	}
	pair, err := nkeys.FromSeed([]byte(seed))
	if err != nil {
		return nil, fmt.Errorf("%w: not a seed", ErrKey)
	}
	return pair, nil
}

// An Issuer mints credentials, for those roles whose signing keys it holds. It is safe
// for concurrent use.
type Issuer struct{ keys map[Role]SigningKey }

// NewIssuer returns an issuer with these keys, one for each role at most.
func NewIssuer(keys ...SigningKey) (*Issuer, error) {
	i := &Issuer{make(map[Role]SigningKey, len(keys))}
	for _, k := range keys {
		if err := k.check(); err != nil {
			return nil, err
		}
		if _, twice := i.keys[k.Role]; twice {
			return nil, fmt.Errorf("%w: two for the role %s", ErrKey, k.Role)
		}
		i.keys[k.Role] = k
	}
	return i, nil
}

// Roles are those that the issuer can mint for.
func (i *Issuer) Roles() []Role {
	var roles []Role
	for role := range maps.Keys(i.keys) {
		roles = append(roles, role)
	}
	return roles
}

// Viewer mints for a user who looks at others.
func (i *Issuer) Viewer(user string, ttl time.Duration) (Credential, error) {
	return i.Mint(Viewer, ttl, user)
}

// Device mints for a device of a user.
func (i *Issuer) Device(user, device string, ttl time.Duration) (Credential, error) {
	return i.Mint(Device, ttl, user, device)
}

// Edge mints for the gateway process with this edge id.
func (i *Issuer) Edge(id string, ttl time.Duration) (Credential, error) {
	return i.Mint(Edge, ttl, id)
}

// Door mints for the front door with this edge id.
func (i *Issuer) Door(id string, ttl time.Duration) (Credential, error) {
	return i.Mint(Door, ttl, id)
}

// Natsgate mints for the front door of devices that speak NATS with this edge id.
func (i *Issuer) Natsgate(id string, ttl time.Duration) (Credential, error) {
	return i.Mint(Natsgate, ttl, id)
}

// Backend mints for a process of the application.
func (i *Issuer) Backend(name string, ttl time.Duration) (Credential, error) {
	return i.Mint(Backend, ttl, name)
}

// Ledger mints for a ledger process.
func (i *Issuer) Ledger(name string, ttl time.Duration) (Credential, error) {
	return i.Mint(Ledger, ttl, name)
}

// Keeper mints for a keeper process.
func (i *Issuer) Keeper(name string, ttl time.Duration) (Credential, error) {
	return i.Mint(Keeper, ttl, name)
}

// Fanout mints for a fanout process.
func (i *Issuer) Fanout(name string, ttl time.Duration) (Credential, error) {
	return i.Mint(Fanout, ttl, name)
}

// Worker mints for a member of a worker group.
func (i *Issuer) Worker(name string, ttl time.Duration) (Credential, error) {
	return i.Mint(Worker, ttl, name)
}

// Operator mints for somebody who runs the fabric.
func (i *Issuer) Operator(name string, ttl time.Duration) (Credential, error) {
	return i.Mint(Operator, ttl, name)
}

// Mint mints for any role; ids are those that name its owner. A time to live is cut to
// seconds and is at least one second and at most [MaxTTL].
func (i *Issuer) Mint(role Role, ttl time.Duration, ids ...string) (Credential, error) {
	pair, name, err := i.user(role, ids)
	if err != nil {
		return Credential{}, err
	}
	if ttl < time.Second || ttl > MaxTTL {
		return Credential{}, fmt.Errorf("%w: %s is not between 1s and %s", ErrTTL, ttl, MaxTTL)
	}
	k := i.keys[role]
	signer, err := pairOf(k.Seed, nkeys.PrefixByteAccount)
	if err != nil {
		return Credential{}, err
	}
	defer signer.Wipe()
	subject, err := pair.PublicKey()
	if err != nil {
		return Credential{}, fmt.Errorf("%w: %w", ErrKey, err)
	}
	seed, err := pair.Seed()
	if err != nil {
		return Credential{}, fmt.Errorf("%w: %w", ErrKey, err)
	}
	claims := jwt.NewUserClaims(subject)
	claims.SetScoped(true)
	claims.Name, claims.IssuerAccount = name, k.Account
	claims.Tags = jwt.TagList{tagRole + string(role)}
	expires := time.Now().Add(ttl).Truncate(time.Second)
	claims.Expires = expires.Unix()
	token, err := claims.Encode(signer)
	if err != nil {
		return Credential{}, fmt.Errorf("%w: %w", ErrKey, err)
	}
	return Credential{Role: role, Name: name, JWT: token, Seed: string(seed), Expires: expires}, nil
}

// Subject is the public key in every token of a party, by which it is revoked.
func (i *Issuer) Subject(role Role, ids ...string) (string, error) {
	pair, _, err := i.user(role, ids)
	if err != nil {
		return "", err
	}
	defer pair.Wipe()
	return pair.PublicKey()
}

// user derives the key pair of a party: HKDF-SHA-256 (RFC 5869) of the signing key's
// raw seed, with the role and the name as info. Whoever could compute it could mint
// for that party anyway.
func (i *Issuer) user(role Role, ids []string) (nkeys.KeyPair, string, error) {
	k, held := i.keys[role]
	if !held {
		return nil, "", fmt.Errorf("%w: none for the role %s", ErrKey, role)
	}
	name, err := nameOf(role, ids...)
	if err != nil {
		return nil, "", err
	}
	_, secret, err := nkeys.DecodeSeed([]byte(k.Seed))
	if err != nil {
		return nil, "", fmt.Errorf("%w: not a seed", ErrKey)
	}
	const length = 32 // of an Ed25519 seed
	raw, err := hkdf.Key(sha256.New, secret, nil, "rollcall user key v1 "+string(role)+" "+name, length)
	if err != nil {
		return nil, "", fmt.Errorf("%w: %w", ErrKey, err)
	}
	pair, err := nkeys.FromRawSeed(nkeys.PrefixByteUser, raw)
	if err != nil {
		return nil, "", fmt.Errorf("%w: %w", ErrKey, err)
	}
	return pair, name, nil
}

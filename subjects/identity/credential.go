package identity

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/rollcall-io/rollcall/subjects"
)

// A Credential proves to a server who its owner is. Its seed is a secret.
type Credential struct {
	Role Role
	// Name is what {{name()}} stands for: the encoded ids.
	Name string
	// JWT is the token, Seed the owner's key, with which the server's nonce is signed.
	JWT, Seed string
	// Expires is when the server cuts its owner off.
	Expires time.Time
}

// InboxPrefix is where the owner's inboxes are; no others are permitted.
func (c Credential) InboxPrefix() string { return Inbox(c.Role, c.Name) }

// IDs are the ids that the credential was minted for: one, or user and device of a
// device.
func (c Credential) IDs() ([]string, error) {
	var ids []string
	for token := range strings.SplitSeq(c.Name, ".") {
		id, err := subjects.ParseToken(token)
		if err != nil {
			return nil, fmt.Errorf("%w: name %q: %w", ErrCredential, c.Name, err)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// File is the text of a credentials file, as every NATS client reads it.
func (c Credential) File() ([]byte, error) {
	b, err := jwt.FormatUserConfig(c.JWT, []byte(c.Seed))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCredential, err)
	}
	return b, nil
}

// MarshalJSON is what clients need that read no credentials files, such as browsers.
func (c Credential) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Role        Role      `json:"role"`
		Name        string    `json:"name"`
		JWT         string    `json:"jwt"`
		Seed        string    `json:"seed"`
		InboxPrefix string    `json:"inbox_prefix"`
		Expires     time.Time `json:"expires"`
	}{c.Role, c.Name, c.JWT, c.Seed, c.InboxPrefix(), c.Expires.UTC()})
}

// tagRole marks a token for its owner, who must know the role to find its inbox. The
// server does not look at it: what counts there is the key that signed.
const tagRole = "rollcall-role:"

// Parse reads a credentials file. It checks no signature: whoever holds the file can
// only spoil its own connection.
func Parse(file []byte) (Credential, error) {
	token, err := jwt.ParseDecoratedJWT(file)
	if err != nil {
		return Credential{}, fmt.Errorf("%w: %w", ErrCredential, err)
	}
	claims, err := jwt.DecodeUserClaims(token)
	if err != nil {
		return Credential{}, fmt.Errorf("%w: %w", ErrCredential, err)
	}
	key, err := jwt.ParseDecoratedUserNKey(file)
	if err != nil {
		return Credential{}, fmt.Errorf("%w: %w", ErrCredential, err)
	}
	defer key.Wipe()
	seed, err := key.Seed()
	if err != nil {
		return Credential{}, fmt.Errorf("%w: %w", ErrCredential, err)
	}
	c := Credential{Name: claims.Name, JWT: token, Seed: string(seed)}
	if claims.Expires > 0 {
		c.Expires = time.Unix(claims.Expires, 0)
	}
	for _, tag := range claims.Tags {
		if role, found := strings.CutPrefix(tag, tagRole); found {
			if c.Role, err = ParseRole(role); err != nil {
				return Credential{}, fmt.Errorf("%w: %w", ErrCredential, err)
			}
			return c, nil
		}
	}
	return Credential{}, fmt.Errorf("%w: the token names no role; it was not minted for a fabric", ErrCredential)
}

// Options connect with the credential. When it has expired, the connection ends;
// see [Renewing].
func (c Credential) Options() []nats.Option {
	return []nats.Option{nats.CustomInboxPrefix(c.InboxPrefix()), nats.UserJWTAndSeed(c.JWT, c.Seed)}
}

// Renewing connects with what fetch returns, which is asked at every connect and
// reconnect: so a connection outlives the tokens that it is made with. Role and name must
// stay the same. It asks once at first.
func Renewing(fetch func() (Credential, error)) ([]nats.Option, error) {
	first, err := fetch()
	if err != nil {
		return nil, err
	}
	prefix := first.InboxPrefix()
	again := func() (Credential, error) {
		c, err := fetch()
		if err == nil && c.InboxPrefix() != prefix {
			err = fmt.Errorf("%w: the connection belongs to %s %s, not %s %s", ErrCredential, first.Role, first.Name, c.Role, c.Name)
		}
		return c, err
	}
	token := func() (string, error) {
		c, err := again()
		return c.JWT, err
	}
	sign := func(nonce []byte) ([]byte, error) {
		c, err := again()
		if err != nil {
			return nil, err
		}
		key, err := nkeys.FromSeed([]byte(c.Seed))
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrCredential, err)
		}
		defer key.Wipe()
		return key.Sign(nonce)
	}
	return []nats.Option{nats.CustomInboxPrefix(prefix), nats.UserJWT(token, sign)}, nil
}

// FromFile connects with a credentials file, which is read again at every reconnect.
func FromFile(path string) ([]nats.Option, error) {
	return Renewing(func() (Credential, error) {
		b, err := os.ReadFile(path)
		if err != nil {
			return Credential{}, err
		}
		c, err := Parse(b)
		if err != nil {
			return Credential{}, fmt.Errorf("%s: %w", path, err)
		}
		return c, nil
	})
}

package bearer

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/MicahParks/keyfunc/v3"
	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/time/rate"

	"github.com/rollcall-io/rollcall"
)

// Errors of this package, wrapped with the reason.
var (
	// ErrConfig is returned for keys that cannot be used.
	ErrConfig = errors.New("bearer: invalid configuration")
	// ErrToken is returned for a token that is not believed.
	ErrToken = errors.New("bearer: token refused")
)

// minSecret is the shortest secret for HS256 (RFC 7518, section 3.2), in bytes.
const minSecret = 32

// Config names whom to believe. At least one key is required.
type Config struct {
	// Secrets verify HS256.
	Secrets [][]byte
	// Keys verify EdDSA.
	Keys []ed25519.PublicKey
	// JWKS is a JSON Web Key Set, as the URL where it is fetched every hour, and when a
	// token names a key that it did not have, or as the path of a file that is read once.
	JWKS string
	// Audience and Issuer, if set, must be those of the token.
	Audience, Issuer string
	// Leeway for clocks that differ; default 30 s, and negative means none.
	Leeway time.Duration
	// Logger hears of key sets that cannot be fetched; default: nobody.
	Logger *slog.Logger
}

// Identity is who holds a token.
type Identity struct {
	User string
	// Device, if not empty, is the only one that the holder may speak for.
	Device string
	// Expires is when the token is not believed any more.
	Expires time.Time
}

// claims of a token.
type claims struct {
	jwt.RegisteredClaims
	Device string `json:"device,omitempty"`
}

// A Verifier is safe for concurrent use.
type Verifier struct {
	cfg    Config
	jwks   keyfunc.Keyfunc // nil if there is none
	parser *jwt.Parser
}

// asymmetric are the algorithms of keys in a set.
var asymmetric = []string{"EdDSA", "ES256", "ES384", "ES512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}

const hmac, eddsa = "HS256", "EdDSA"

// New checks the keys and fetches the key set for the first time; ctx ends its being
// fetched.
func New(ctx context.Context, cfg Config) (*Verifier, error) {
	if cfg.Leeway == 0 {
		cfg.Leeway = 30 * time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	v := &Verifier{cfg: cfg}
	var methods []string
	for _, s := range cfg.Secrets {
		if len(s) < minSecret {
			return nil, fmt.Errorf("%w: a secret of %d bytes, it takes %d", ErrConfig, len(s), minSecret)
		}
		methods = []string{hmac}
	}
	if len(cfg.Keys) > 0 {
		methods = append(methods, eddsa)
	}
	if cfg.JWKS != "" {
		var err error
		if v.jwks, err = keySet(ctx, cfg); err != nil {
			return nil, fmt.Errorf("%w: key set %s: %w", ErrConfig, cfg.JWKS, err)
		}
		methods = append(methods, asymmetric...)
	}
	if len(methods) == 0 {
		return nil, fmt.Errorf("%w: no key", ErrConfig)
	}
	options := []jwt.ParserOption{jwt.WithValidMethods(methods), jwt.WithExpirationRequired(), jwt.WithLeeway(max(cfg.Leeway, 0))}
	if cfg.Audience != "" {
		options = append(options, jwt.WithAudience(cfg.Audience))
	}
	if cfg.Issuer != "" {
		options = append(options, jwt.WithIssuer(cfg.Issuer))
	}
	v.parser = jwt.NewParser(options...)
	return v, nil
}

// keySet reads or fetches a key set. A server that does not answer yet is asked again.
func keySet(ctx context.Context, cfg Config) (keyfunc.Keyfunc, error) {
	u, err := url.Parse(cfg.JWKS)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" {
		text, err := os.ReadFile(cfg.JWKS)
		if err != nil {
			return nil, err
		}
		return keyfunc.NewJWKSetJSON(text)
	}
	return keyfunc.NewDefaultOverrideCtx(ctx, []string{cfg.JWKS}, keyfunc.Override{
		HTTPTimeout: 10 * time.Second,
		// Whoever sends names of keys that there are not is not waited for. The second is
		// the time for the fetching as well.
		RefreshUnknownKID: rate.NewLimiter(rate.Every(time.Minute), 1), RateLimitWaitMax: 5 * time.Second,
		RefreshErrorHandlerFunc: func(u string) func(context.Context, error) {
			return func(_ context.Context, err error) { cfg.Logger.Warn("key set not fetched", "url", u, "err", err) }
		},
	})
}

// key finds what verifies a token: never a key of another algorithm.
func (v *Verifier) key(t *jwt.Token) (any, error) {
	var set jwt.VerificationKeySet
	switch alg := t.Method.Alg(); {
	case alg == hmac:
		for _, s := range v.cfg.Secrets {
			set.Keys = append(set.Keys, s)
		}
		return set, nil
	case alg == eddsa:
		for _, k := range v.cfg.Keys {
			set.Keys = append(set.Keys, k)
		}
	case !slices.Contains(asymmetric, alg):
		return nil, ErrToken
	}
	if v.jwks == nil {
		return set, nil
	}
	found, err := v.jwks.Keyfunc(t)
	switch more := found.(type) {
	case jwt.VerificationKeySet:
		set.Keys = append(set.Keys, more.Keys...)
	default:
		if err == nil {
			set.Keys = append(set.Keys, more)
		}
	}
	if len(set.Keys) == 0 {
		return nil, err
	}
	return set, nil
}

// Verify says who holds a token. The error is [ErrToken], with a reason that may be told.
func (v *Verifier) Verify(token string) (Identity, error) {
	var c claims
	if _, err := v.parser.ParseWithClaims(token, &c, v.key); err != nil {
		return Identity{}, fmt.Errorf("%w: %s", ErrToken, reason(err))
	}
	if err := rollcall.CheckID(c.Subject); err != nil {
		return Identity{}, fmt.Errorf("%w: its subject is no user: %w", ErrToken, err)
	}
	if c.Device != "" {
		if err := rollcall.CheckID(c.Device); err != nil {
			return Identity{}, fmt.Errorf("%w: device: %w", ErrToken, err)
		}
	}
	return Identity{User: c.Subject, Device: c.Device, Expires: c.ExpiresAt.Add(max(v.cfg.Leeway, 0))}, nil
}

// reason is what of an error helps whoever sent the token.
func reason(err error) string {
	for _, known := range []struct {
		err  error
		text string
	}{
		{jwt.ErrTokenMalformed, "it is not a JWT"},
		{jwt.ErrTokenExpired, "it has expired"},
		{jwt.ErrTokenNotValidYet, "it is not valid yet"},
		{jwt.ErrTokenInvalidAudience, "it is for another audience"},
		{jwt.ErrTokenInvalidIssuer, "it is of another issuer"},
		{jwt.ErrTokenRequiredClaimMissing, "a claim is missing that must be there, such as exp"},
		{jwt.ErrTokenSignatureInvalid, "its signature, or its algorithm, is not one that is believed here"},
		{jwt.ErrTokenUnverifiable, "no key here verifies it"},
	} {
		if errors.Is(err, known.err) {
			return known.text
		}
	}
	return strings.TrimPrefix(err.Error(), "token ")
}

// Mint makes a token of a user, or of one device of a user if device is not empty. The
// key is that of one of Config.Keys.
func Mint(key ed25519.PrivateKey, user, device string, ttl time.Duration) (string, error) {
	if err := rollcall.CheckID(user); err != nil {
		return "", fmt.Errorf("user: %w", err)
	}
	if device != "" {
		if err := rollcall.CheckID(device); err != nil {
			return "", fmt.Errorf("device: %w", err)
		}
	}
	now := time.Now()
	c := claims{Device: device, RegisteredClaims: jwt.RegisteredClaims{
		Subject: user, IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(ttl)),
	}}
	return jwt.NewWithClaims(jwt.SigningMethodEdDSA, c).SignedString(key)
}

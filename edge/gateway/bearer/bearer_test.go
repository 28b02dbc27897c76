package bearer_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/rollcall-io/rollcall/edge/gateway/bearer"
)

func newKey(t *testing.T) (ed25519.PublicKey, ed25519.PrivateKey) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return public, private
}

func newVerifier(t *testing.T, cfg bearer.Config) *bearer.Verifier {
	t.Helper()
	v, err := bearer.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// sign makes a token of anything.
func sign(t *testing.T, method jwt.SigningMethod, key any, claims jwt.MapClaims, kid ...string) string {
	t.Helper()
	token := jwt.NewWithClaims(method, claims)
	if len(kid) > 0 {
		token.Header["kid"] = kid[0]
	}
	text, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func soon() int64 { return time.Now().Add(time.Hour).Unix() }

func TestMinted(t *testing.T) {
	public, private := newKey(t)
	v := newVerifier(t, bearer.Config{Keys: []ed25519.PublicKey{public}})
	token, err := bearer.Mint(private, "ann", "phone", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	who, err := v.Verify(token)
	if err != nil || who.User != "ann" || who.Device != "phone" || time.Until(who.Expires) > 61*time.Minute {
		t.Errorf("%+v, %v", who, err)
	}
	if _, err := bearer.Mint(private, "", "", time.Hour); err == nil {
		t.Error("minted for nobody")
	}
	if _, err := bearer.Mint(private, "ann", "\xff", time.Hour); err == nil {
		t.Error("minted for no device")
	}
}

// Every token here must not be believed.
func TestRefused(t *testing.T) {
	public, private := newKey(t)
	_, foreign := newKey(t)
	secret := []byte(strings.Repeat("s", 32))
	v := newVerifier(t, bearer.Config{
		Keys: []ed25519.PublicKey{public}, Secrets: [][]byte{secret}, Audience: "presence", Issuer: "me",
	})
	good := func() jwt.MapClaims {
		return jwt.MapClaims{"sub": "ann", "exp": soon(), "aud": "presence", "iss": "me"}
	}
	with := func(name string, value any) jwt.MapClaims {
		c := good()
		if c[name] = value; value == nil {
			delete(c, name)
		}
		return c
	}
	for name, method := range map[string]struct {
		jwt.SigningMethod
		key any
	}{"EdDSA": {jwt.SigningMethodEdDSA, private}, "HS256": {jwt.SigningMethodHS256, secret}} {
		if who, err := v.Verify(sign(t, method.SigningMethod, method.key, good())); err != nil || who.User != "ann" || who.Device != "" {
			t.Fatalf("%s: %+v, %v", name, who, err)
		}
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	document := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	none := sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, good())
	parts := strings.Split(sign(t, jwt.SigningMethodEdDSA, private, good()), ".")
	for name, c := range map[string]struct{ token, says string }{
		"nothing":                  {"", "not a JWT"},
		"garbage":                  {"a.b.c", "not a JWT"},
		"no algorithm":             {none, "algorithm"},
		"no signature":             {strings.Join(parts[:2], ".") + ".", "signature"},
		"a signature of nonsense":  {parts[0] + "." + parts[1] + ".AAAA", "signature"},
		"another's":                {sign(t, jwt.SigningMethodEdDSA, foreign, good()), "signature"},
		"changed":                  {parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"bob","exp":9999999999,"aud":"presence","iss":"me"}`)) + "." + parts[2], "signature"},
		"the public key as secret": {sign(t, jwt.SigningMethodHS256, []byte(public), good()), "signature"},
		"its document as secret":   {sign(t, jwt.SigningMethodHS256, document, good()), "signature"},
		"the secret's other use":   {sign(t, jwt.SigningMethodHS512, secret, good()), "algorithm"},
		"expired":                  {sign(t, jwt.SigningMethodEdDSA, private, with("exp", time.Now().Add(-time.Minute).Unix())), "expired"},
		"for ever":                 {sign(t, jwt.SigningMethodEdDSA, private, with("exp", nil)), "exp"},
		"not yet":                  {sign(t, jwt.SigningMethodEdDSA, private, with("nbf", soon())), "not valid yet"},
		"another audience":         {sign(t, jwt.SigningMethodEdDSA, private, with("aud", "shop")), "audience"},
		"no audience":              {sign(t, jwt.SigningMethodEdDSA, private, with("aud", nil)), "refused"},
		"another issuer":           {sign(t, jwt.SigningMethodEdDSA, private, with("iss", "you")), "issuer"},
		"nobody":                   {sign(t, jwt.SigningMethodEdDSA, private, with("sub", nil)), "no user"},
		"a user that is no text":   {sign(t, jwt.SigningMethodEdDSA, private, with("sub", 7)), "not a JWT"},
		"a user without an end":    {sign(t, jwt.SigningMethodEdDSA, private, with("sub", strings.Repeat("a", 129))), "no user"},
		"a device without an end":  {sign(t, jwt.SigningMethodEdDSA, private, with("device", strings.Repeat("a", 129))), "device"},
		"a device that is no text": {sign(t, jwt.SigningMethodEdDSA, private, with("device", 7)), "not a JWT"},
	} {
		who, err := v.Verify(c.token)
		if !errors.Is(err, bearer.ErrToken) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %+v, %v; want it to say %q", name, who, err, c.says)
		}
	}
}

func TestLeeway(t *testing.T) {
	public, private := newKey(t)
	late := sign(t, jwt.SigningMethodEdDSA, private, jwt.MapClaims{"sub": "ann", "exp": time.Now().Add(-10 * time.Second).Unix()})
	if _, err := newVerifier(t, bearer.Config{Keys: []ed25519.PublicKey{public}}).Verify(late); err != nil {
		t.Error(err)
	}
	if _, err := newVerifier(t, bearer.Config{Keys: []ed25519.PublicKey{public}, Leeway: -1}).Verify(late); err == nil {
		t.Error("believed without leeway")
	}
}

// Two keys at a time let one take the place of the other.
func TestSeveralKeys(t *testing.T) {
	old, oldPrivate := newKey(t)
	young, youngPrivate := newKey(t)
	v := newVerifier(t, bearer.Config{Keys: []ed25519.PublicKey{old, young}})
	for _, key := range []ed25519.PrivateKey{oldPrivate, youngPrivate} {
		if _, err := v.Verify(sign(t, jwt.SigningMethodEdDSA, key, jwt.MapClaims{"sub": "ann", "exp": soon()})); err != nil {
			t.Error(err)
		}
	}
}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func TestKeySets(t *testing.T) {
	public, private := newKey(t)
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	point, err := curve.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	modulus, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	secret := []byte(strings.Repeat("s", 32))
	set := func(keys ...map[string]string) []byte {
		b, err := json.Marshal(map[string]any{"keys": keys})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	ed := map[string]string{"kty": "OKP", "crv": "Ed25519", "kid": "ed", "x": b64(public)}
	ec := map[string]string{"kty": "EC", "crv": "P-256", "kid": "ec", "x": b64(point[1:33]), "y": b64(point[33:])}
	rs := map[string]string{"kty": "RSA", "kid": "rs", "alg": "RS256", "n": b64(modulus.N.Bytes()), "e": "AQAB"}
	oct := map[string]string{"kty": "oct", "kid": "oct", "alg": "HS256", "k": b64(secret)}
	claims := jwt.MapClaims{"sub": "ann", "exp": soon()}

	path := filepath.Join(t.TempDir(), "jwks.json")
	if err := os.WriteFile(path, set(ed, ec, rs, oct), 0o600); err != nil {
		t.Fatal(err)
	}
	v := newVerifier(t, bearer.Config{JWKS: path})
	for name, token := range map[string]string{
		"EdDSA": sign(t, jwt.SigningMethodEdDSA, private, claims, "ed"), "EdDSA without a name": sign(t, jwt.SigningMethodEdDSA, private, claims),
		"ES256": sign(t, jwt.SigningMethodES256, curve, claims, "ec"), "RS256": sign(t, jwt.SigningMethodRS256, modulus, claims, "rs"),
	} {
		if _, err := v.Verify(token); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, token := range map[string]string{
		"a secret in a set":          sign(t, jwt.SigningMethodHS256, secret, claims, "oct"),
		"another algorithm":          sign(t, jwt.SigningMethodRS512, modulus, claims, "rs"),
		"the key of another":         sign(t, jwt.SigningMethodEdDSA, private, claims, "ec"),
		"a name that there is not":   sign(t, jwt.SigningMethodEdDSA, private, claims, "other"),
		"a public key as its secret": sign(t, jwt.SigningMethodHS256, []byte(public), claims, "ed"),
	} {
		if _, err := v.Verify(token); !errors.Is(err, bearer.ErrToken) {
			t.Errorf("%s: %v", name, err)
		}
	}

	// A key that is added is fetched when the first token names it.
	var keys atomic.Value
	var fetched atomic.Int32
	keys.Store(set(ec))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fetched.Add(1)
		w.Write(keys.Load().([]byte))
	}))
	defer server.Close()
	v = newVerifier(t, bearer.Config{JWKS: server.URL})
	if _, err := v.Verify(sign(t, jwt.SigningMethodES256, curve, claims, "ec")); err != nil {
		t.Error(err)
	}
	keys.Store(set(ec, ed))
	if _, err := v.Verify(sign(t, jwt.SigningMethodEdDSA, private, claims, "ed")); err != nil {
		t.Error(err)
	}
	// Who names keys that there are not has nothing fetched again and again.
	before := fetched.Load()
	for i := range 100 {
		if _, err := v.Verify(sign(t, jwt.SigningMethodEdDSA, private, claims, fmt.Sprint(i))); err == nil {
			t.Error("believed")
		}
	}
	if n := fetched.Load() - before; n > 1 {
		t.Errorf("a hundred unknown keys were fetched %d times", n)
	}
}

func TestUnusableKeys(t *testing.T) {
	public, _ := newKey(t)
	der, _ := x509.MarshalPKIXPublicKey(public)
	document := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	if got, err := bearer.ParsePublicKey(document); err != nil || !got.Equal(public) {
		t.Errorf("%v, %v", got, err)
	}
	curve, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	der, _ = x509.MarshalPKIXPublicKey(&curve.PublicKey)
	for _, file := range [][]byte{nil, []byte("x"), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY"})} {
		if _, err := bearer.ParsePublicKey(file); !errors.Is(err, bearer.ErrConfig) {
			t.Errorf("%q: %v", file, err)
		}
	}
	if secret, err := bearer.ParseSecret([]byte(strings.Repeat("s", 32) + "\r\n")); err != nil || len(secret) != 32 {
		t.Errorf("%q, %v", secret, err)
	}
	for _, file := range [][]byte{nil, []byte(strings.Repeat("s", 31) + "\n"), document} {
		if _, err := bearer.ParseSecret(file); !errors.Is(err, bearer.ErrConfig) {
			t.Errorf("%q: %v", file, err)
		}
	}
	for _, cfg := range []bearer.Config{{}, {Secrets: [][]byte{[]byte("short")}}, {JWKS: "no/such/file"}} {
		if _, err := bearer.New(t.Context(), cfg); !errors.Is(err, bearer.ErrConfig) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

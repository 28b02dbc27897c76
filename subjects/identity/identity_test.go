package identity_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/identity"
)

func generate(t *testing.T) *identity.Authority {
	t.Helper()
	a, err := identity.Generate()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func decode(t *testing.T, c identity.Credential) *jwt.UserClaims {
	t.Helper()
	claims, err := jwt.DecodeUserClaims(c.JWT)
	if err != nil {
		t.Fatal(err)
	}
	return claims
}

func TestTokensSayOnlyAName(t *testing.T) {
	a := generate(t)
	begin := time.Now()
	for name, mint := range map[string]func() (identity.Credential, error){
		"alice":           func() (identity.Credential, error) { return a.Issuer().Viewer("alice", time.Hour) },
		"=Kg":             func() (identity.Credential, error) { return a.Issuer().Viewer("*", time.Hour) },
		"alice.phone":     func() (identity.Credential, error) { return a.Issuer().Device("alice", "phone", time.Hour) },
		"=YS5i.=Pg":       func() (identity.Credential, error) { return a.Issuer().Device("a.b", ">", time.Hour) },
		"g-1":             func() (identity.Credential, error) { return a.Issuer().Edge("g-1", time.Hour) },
		"shop":            func() (identity.Credential, error) { return a.Issuer().Backend("shop", time.Hour) },
		"l":               func() (identity.Credential, error) { return a.Issuer().Ledger("l", time.Hour) },
		"k":               func() (identity.Credential, error) { return a.Issuer().Keeper("k", time.Hour) },
		"f":               func() (identity.Credential, error) { return a.Issuer().Fanout("f", time.Hour) },
		"o":               func() (identity.Credential, error) { return a.Issuer().Operator("o", time.Hour) },
		"=e3tuYW1lKCl9fQ": func() (identity.Credential, error) { return a.Issuer().Viewer("{{name()}}", time.Hour) },
	} {
		c, err := mint()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		claims := decode(t, c)
		if c.Name != name || claims.Name != c.Name || claims.IssuerAccount != a.Account() || !claims.HasEmptyPermissions() {
			t.Errorf("%s: %+v", name, claims)
		}
		for _, token := range strings.Split(c.Name, ".") {
			if _, err := subjects.ParseToken(token); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if left := c.Expires.Sub(begin); left < 59*time.Minute || left > 61*time.Minute || claims.Expires != c.Expires.Unix() {
			t.Errorf("%s: lasts %s", name, left)
		}
	}
}

func TestTimesToLive(t *testing.T) {
	issuer := generate(t).Issuer()
	for ttl, want := range map[time.Duration]error{
		0: identity.ErrTTL, -time.Hour: identity.ErrTTL, time.Second - 1: identity.ErrTTL, identity.MaxTTL + 1: identity.ErrTTL,
		time.Second: nil, identity.MaxTTL: nil,
	} {
		if _, err := issuer.Viewer("alice", ttl); !errors.Is(err, want) {
			t.Errorf("%s: %v", ttl, err)
		}
	}
}

// Every token of a party has one subject, by which it is revoked, and nobody else has it.
func TestSubjectsFollowFromNames(t *testing.T) {
	a := generate(t)
	seen := make(map[string]string)
	for what, ids := range map[string]struct {
		role identity.Role
		ids  []string
	}{
		"viewer alice": {identity.Viewer, []string{"alice"}}, "viewer bob": {identity.Viewer, []string{"bob"}}, "edge alice": {identity.Edge, []string{"alice"}},
		"device": {identity.Device, []string{"alice", "phone"}}, "other device": {identity.Device, []string{"alice", "tablet"}},
		"device of a dot": {identity.Device, []string{"alice.phone", "x"}},
	} {
		first, err := a.Issuer().Mint(ids.role, time.Minute, ids.ids...)
		if err != nil {
			t.Fatal(err)
		}
		second, err := a.Issuer().Mint(ids.role, time.Hour, ids.ids...)
		if err != nil {
			t.Fatal(err)
		}
		subject, err := a.Issuer().Subject(ids.role, ids.ids...)
		if err != nil || decode(t, first).Subject != subject || decode(t, second).Subject != subject || first.Seed != second.Seed {
			t.Errorf("%s: %v", what, err)
		}
		if other, found := seen[subject]; found {
			t.Errorf("%s and %s have the same", what, other)
		}
		seen[subject] = what
	}
	again, err := generate(t).Issuer().Subject(identity.Viewer, "alice")
	if err != nil || seen[again] != "" {
		t.Errorf("another authority: %v", err)
	}
}

// A backend holds the key of one role, and mints for no other.
func TestABackendMintsWithOneKey(t *testing.T) {
	a := generate(t)
	file, err := json.Marshal(a.SigningKey(identity.Viewer))
	if err != nil {
		t.Fatal(err)
	}
	key, err := identity.ParseSigningKey(file)
	if err != nil {
		t.Fatal(err)
	}
	issuer, err := identity.NewIssuer(key)
	if err != nil {
		t.Fatal(err)
	}
	c, err := issuer.Viewer("alice", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if want, err := a.Issuer().Viewer("alice", time.Hour); err != nil || c.Seed != want.Seed {
		t.Errorf("another key pair than the authority's: %v", err)
	}
	if _, err := issuer.Edge("g1", time.Hour); !errors.Is(err, identity.ErrKey) {
		t.Errorf("an edge: %v", err)
	}
	if got := issuer.Roles(); !reflect.DeepEqual(got, []identity.Role{identity.Viewer}) {
		t.Errorf("mints for %v", got)
	}
	if _, err := identity.NewIssuer(key, key); !errors.Is(err, identity.ErrKey) {
		t.Errorf("twice the same: %v", err)
	}
}

func TestKeysThatAreNone(t *testing.T) {
	a := generate(t)
	good := a.SigningKey(identity.Viewer)
	for what, key := range map[string]identity.SigningKey{
		"no role":         {Role: "king", Account: good.Account, Seed: good.Seed},
		"no account":      {Role: good.Role, Account: "A", Seed: good.Seed},
		"no seed":         {Role: good.Role, Account: good.Account},
		"operator's seed": {Role: good.Role, Account: good.Account, Seed: a.Seeds().Operator},
	} {
		if _, err := identity.NewIssuer(key); !errors.Is(err, identity.ErrKey) {
			t.Errorf("%s: %v", what, err)
		} else if key.Seed != "" && strings.Contains(err.Error(), key.Seed) {
			t.Errorf("%s: the message holds the seed", what)
		}
	}
	for _, text := range []string{"", "{", `{"role":"viewer"}`, "SAAGOOD"} {
		if _, err := identity.ParseSigningKey([]byte(text)); !errors.Is(err, identity.ErrKey) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestCredentialsFileRoundTrip(t *testing.T) {
	c, err := generate(t).Issuer().Device("a.b", "дом", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	file, err := c.File()
	if err != nil {
		t.Fatal(err)
	}
	again, err := identity.Parse(file)
	if err != nil || !again.Expires.Equal(c.Expires) {
		t.Fatalf("%+v, %v", again, err)
	}
	if again.Expires = c.Expires; again != c {
		t.Errorf("%+v became %+v", c, again)
	}
	if got := again.InboxPrefix(); got != "_INBOX.device.=YS5i.=0LTQvtC8" {
		t.Errorf("inbox %s", got)
	}
	for what, text := range map[string][]byte{"nothing": nil, "half": file[:len(file)/2], "text": []byte("hello")} {
		if _, err := identity.Parse(text); !errors.Is(err, identity.ErrCredential) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	a, err := identity.Generate()
	if err != nil {
		f.Fatal(err)
	}
	c, err := a.Issuer().Viewer("alice", time.Hour)
	if err != nil {
		f.Fatal(err)
	}
	file, err := c.File()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(file)
	f.Add([]byte("-----BEGIN NATS USER JWT-----\n\n------END NATS USER JWT------\n"))
	f.Fuzz(func(t *testing.T, file []byte) {
		if c, err := identity.Parse(file); err == nil && (c.Role == "" || c.JWT == "" || c.Seed == "") {
			t.Errorf("read %+v", c)
		}
	})
}

// FuzzName: whatever the id, the name is tokens without a wildcard, and tells ids apart.
func FuzzName(f *testing.F) {
	a, err := identity.Generate()
	if err != nil {
		f.Fatal(err)
	}
	for _, id := range []string{"alice", "*", ">", "a.b", " ", "{{name()}}", "=Kg", strings.Repeat("x", rollcall.MaxID), "\xff", ""} {
		f.Add(id, id)
	}
	f.Fuzz(func(t *testing.T, user, device string) {
		c, err := a.Issuer().Device(user, device, time.Hour)
		if (rollcall.Endpoint{User: user, Device: device}).Check() != nil {
			if !errors.Is(err, identity.ErrName) {
				t.Fatalf("%q, %q: %v", user, device, err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		tokens := strings.Split(c.Name, ".")
		if len(tokens) != 2 || strings.ContainsAny(c.Name, "*> \t\r\n{}") {
			t.Fatalf("%q, %q: named %q", user, device, c.Name)
		}
		for i, want := range []string{user, device} {
			if got, err := subjects.ParseToken(tokens[i]); err != nil || got != want {
				t.Errorf("%q came back as %q, %v", want, got, err)
			}
		}
	})
}

func TestClaimsChangeOnlyWhatMustChange(t *testing.T) {
	a := generate(t)
	first, changes := a.Claims(names(t, 4), nil)
	for _, c := range changes {
		if c.Done != identity.Made {
			t.Errorf("%+v", c)
		}
	}
	first.Limits.Conn = 7 // an operator's choice
	foreign, _ := generate(t).Claims(names(t, 1), nil)
	for key := range foreign.SigningKeys {
		first.SigningKeys[key] = nil
	}
	if err := a.Revoke(first, time.Now(), identity.Viewer, "alice"); err != nil {
		t.Fatal(err)
	}
	token, err := a.Sign(first)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := jwt.DecodeAccountClaims(token)
	if err != nil {
		t.Fatal(err)
	}
	second, changes := a.Claims(names(t, 4), stored)
	for _, c := range changes {
		if c.Done != identity.Kept {
			t.Errorf("the second time: %+v", c)
		}
	}
	if second.Limits.Conn != 7 || len(second.SigningKeys) != 2*len(identity.Roles) || len(second.Revocations) != 1 {
		t.Errorf("lost: %+v", second)
	}
	_, changes = a.Claims(names(t, 5), stored)
	changed := 0
	for _, c := range changes {
		if c.Done == identity.Changed {
			changed++
		}
	}
	if changed != 6 { // edge, door, natsgate, ledger, keeper, fanout
		t.Errorf("with another shard: %+v", changes)
	}
}

func TestRevocationsAreForgottenWhenAllHasExpired(t *testing.T) {
	a := generate(t)
	claims, _ := a.Claims(names(t, 1), nil)
	begin := time.Now()
	for _, r := range []struct {
		user string
		at   time.Time
	}{{"alice", begin}, {"bob", begin.Add(time.Hour)}, {"carol", begin.Add(identity.MaxTTL + 2*time.Second)}} {
		if err := a.Revoke(claims, r.at, identity.Viewer, r.user); err != nil {
			t.Fatal(err)
		}
	}
	alice, err := a.Issuer().Subject(identity.Viewer, "alice")
	if _, found := claims.Revocations[alice]; err != nil || found || len(claims.Revocations) != 2 {
		t.Errorf("%v, %v", claims.Revocations, err)
	}
}

// The claims of many shards fit into a message of a server that nobody has configured.
func TestClaimsOfManyShardsFit(t *testing.T) {
	a := generate(t)
	claims, _ := a.Claims(names(t, 128), nil)
	token, err := a.Sign(claims)
	if err != nil || len(token) > 1<<20 {
		t.Errorf("%d bytes, %v", len(token), err)
	}
}

func TestUnderAnotherOperator(t *testing.T) {
	a, other := generate(t), generate(t)
	under, err := a.UnderOperator(other.Seeds().Operator)
	if err != nil {
		t.Fatal(err)
	}
	claims, _ := under.Claims(names(t, 1), nil)
	token, err := under.Sign(claims)
	if err != nil {
		t.Fatal(err)
	}
	operator, err := other.OperatorJWT()
	if err != nil {
		t.Fatal(err)
	}
	oc, err := jwt.DecodeOperatorClaims(operator)
	if err != nil {
		t.Fatal(err)
	}
	if ac, err := jwt.DecodeAccountClaims(token); err != nil || !oc.DidSign(ac) || ac.Subject != a.Account() {
		t.Errorf("%v", err)
	}
	if _, err := under.SystemUser(time.Hour); !errors.Is(err, identity.ErrKey) {
		t.Errorf("a system user: %v", err)
	}
	if _, err := a.UnderOperator(a.Seeds().Account); !errors.Is(err, identity.ErrKey) {
		t.Errorf("an account as operator: %v", err)
	}
}

func TestRotationReplacesOneKey(t *testing.T) {
	a := generate(t)
	before, _ := a.Claims(names(t, 1), nil)
	rotated, err := a.Rotate(identity.Viewer)
	if err != nil {
		t.Fatal(err)
	}
	after, changes := rotated.Claims(names(t, 1), before)
	var done []identity.Done
	for _, c := range changes {
		if c.Done != identity.Kept {
			done = append(done, c.Done)
		}
	}
	if !reflect.DeepEqual(done, []identity.Done{identity.Removed, identity.Made}) || len(after.SigningKeys) != len(identity.Roles) {
		t.Errorf("%+v, %d keys", changes, len(after.SigningKeys))
	}
	old, err := a.Issuer().Viewer("alice", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	fresh, err := rotated.Issuer().Viewer("alice", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if after.SigningKeys.Contains(decode(t, old).Issuer) || !after.SigningKeys.Contains(decode(t, fresh).Issuer) {
		t.Error("the old key is still believed")
	}
	if _, err := a.Rotate("king"); !errors.Is(err, identity.ErrRole) {
		t.Errorf("%v", err)
	}
}

func TestCredentialTellsItsIDs(t *testing.T) {
	for _, want := range [][]string{{"alice"}, {"a.b"}, {"*", "phone 1"}} {
		var name []string
		for _, id := range want {
			name = append(name, subjects.Token(id))
		}
		got, err := identity.Credential{Name: strings.Join(name, ".")}.IDs()
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%v: %v, %v", want, got, err)
		}
	}
	if ids, err := (identity.Credential{Name: "=!"}).IDs(); !errors.Is(err, identity.ErrCredential) {
		t.Errorf("a name that is none: %v, %v", ids, err)
	}
}

package natsd_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall/internal/natsd"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/identity"
)

func authority(t *testing.T) (*identity.Authority, *natsd.Operator) {
	t.Helper()
	a, err := identity.Generate()
	if err != nil {
		t.Fatal(err)
	}
	names, err := subjects.New(subjects.DefaultPrefix, 1)
	if err != nil {
		t.Fatal(err)
	}
	operator, err := natsd.OperatorOf(a, names)
	if err != nil {
		t.Fatal(err)
	}
	return a, operator
}

func as(t *testing.T, a *identity.Authority, role identity.Role) []nats.Option {
	t.Helper()
	c, err := a.Issuer().Mint(role, time.Hour, "test")
	if err != nil {
		t.Fatal(err)
	}
	return c.Options()
}

func streamsOf(t *testing.T, s *natsd.Server, options ...nats.Option) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(connect(t, func() (*nats.Conn, error) { return s.Connect(options...) }))
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func TestOperatorModeAsksEverybody(t *testing.T) {
	a, operator := authority(t)
	stranger, _ := authority(t)
	s := start(t, natsd.Config{Operator: operator, Listen: "127.0.0.1:0", WebSocket: "127.0.0.1:0"})
	for _, url := range []string{s.ClientURL(), s.WebSocketURL()} {
		connect(t, func() (*nats.Conn, error) { return nats.Connect(url, as(t, a, identity.Viewer)...) })
		for what, options := range map[string][]nats.Option{"nobody": nil, "a stranger": as(t, stranger, identity.Operator)} {
			if nc, err := nats.Connect(url, options...); err == nil {
				nc.Close()
				t.Errorf("%s is let in at %s", what, url)
			}
		}
	}
}

// What was stored before there were accounts is the fabric's afterwards.
func TestStreamsMoveIntoTheAccount(t *testing.T) {
	dir := t.TempDir()
	before := start(t, natsd.Config{StoreDir: dir})
	js := streamsOf(t, before)
	if _, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "b", Storage: jetstream.FileStorage}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "$KV.b.key", []byte("kept")); err != nil {
		t.Fatal(err)
	}
	before.Shutdown()

	a, operator := authority(t)
	for range 2 { // also the second time
		after := start(t, natsd.Config{StoreDir: dir, Operator: operator})
		kv, err := streamsOf(t, after, as(t, a, identity.Operator)...).KeyValue(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		if e, err := kv.Get(t.Context(), "key"); err != nil || string(e.Value()) != "kept" {
			t.Fatalf("%v, %v", e, err)
		}
		after.Shutdown()
	}

	t.Run("without keys", func(t *testing.T) {
		_, err := natsd.Start(natsd.Config{StoreDir: dir})
		if !errors.Is(err, natsd.ErrAccount) || !strings.Contains(err.Error(), a.Account()) {
			t.Errorf("%v", err)
		}
	})
	t.Run("with other keys", func(t *testing.T) {
		other, wrong := authority(t)
		_, err := natsd.Start(natsd.Config{StoreDir: dir, Operator: wrong})
		if !errors.Is(err, natsd.ErrAccount) || !strings.Contains(err.Error(), a.Account()) || !strings.Contains(err.Error(), other.Account()) {
			t.Errorf("%v", err)
		}
	})
	t.Run("beside streams without an account", func(t *testing.T) {
		if err := os.MkdirAll(filepath.Join(dir, "jetstream", "$G", "streams", "S"), 0o700); err != nil {
			t.Fatal(err)
		}
		if _, err := natsd.Start(natsd.Config{StoreDir: dir, Operator: operator}); !errors.Is(err, natsd.ErrAccount) || !strings.Contains(err.Error(), "$G") {
			t.Errorf("%v", err)
		}
	})
}

// The server's memory of an account outlives it, revocations included.
func TestClaimsSurviveARestart(t *testing.T) {
	dir := t.TempDir()
	a, operator := authority(t)
	s := start(t, natsd.Config{StoreDir: dir, Operator: operator})
	manage := func() *nats.Conn {
		t.Helper()
		c, err := a.SystemUser(time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return connect(t, func() (*nats.Conn, error) { return s.Connect(c.Options()...) })
	}
	claims, err := natsd.LookupClaims(t.Context(), manage(), a.Account())
	if err != nil || claims == nil {
		t.Fatalf("%v, %v", claims, err)
	}
	if err := a.Revoke(claims, time.Now(), identity.Viewer, "mallory"); err != nil {
		t.Fatal(err)
	}
	token, err := a.Sign(claims)
	if err != nil {
		t.Fatal(err)
	}
	if err := natsd.PushClaims(t.Context(), manage(), token); err != nil {
		t.Fatal(err)
	}
	s.Shutdown()
	s = start(t, natsd.Config{StoreDir: dir, Operator: operator})
	claims, err = natsd.LookupClaims(t.Context(), manage(), a.Account())
	if err != nil || len(claims.Revocations) != 1 {
		t.Errorf("%+v, %v", claims, err)
	}
	unknown, _ := authority(t)
	if claims, err := natsd.LookupClaims(t.Context(), manage(), unknown.Account()); err != nil || claims != nil {
		t.Errorf("of nobody: %v, %v", claims, err)
	}
}

func TestClaimsThatAreRefused(t *testing.T) {
	a, operator := authority(t)
	stranger, _ := authority(t)
	s := start(t, natsd.Config{Operator: operator})
	system, err := a.SystemUser(time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	nc := connect(t, func() (*nats.Conn, error) { return s.Connect(system.Options()...) })
	if err := natsd.PushClaims(t.Context(), nc, "nonsense"); !errors.Is(err, natsd.ErrClaims) {
		t.Errorf("nonsense: %v", err)
	}
	inside := connect(t, func() (*nats.Conn, error) { return s.Connect(as(t, a, identity.Operator)...) })
	if _, err := natsd.LookupClaims(t.Context(), inside, a.Account()); !errors.Is(err, natsd.ErrUnmanaged) {
		t.Errorf("from within the fabric's account: %v", err)
	}
	if err := natsd.PushClaims(t.Context(), inside, "x"); !errors.Is(err, natsd.ErrUnmanaged) {
		t.Errorf("from within the fabric's account: %v", err)
	}
	plain := start(t, natsd.Config{})
	nc = connect(t, func() (*nats.Conn, error) { return plain.Connect(system.Options()...) })
	if _, err := natsd.LookupClaims(t.Context(), nc, stranger.Account()); !errors.Is(err, natsd.ErrUnmanaged) {
		t.Errorf("a server without accounts: %v", err)
	}
}

func TestOperatorsThatAreNone(t *testing.T) {
	_, good := authority(t)
	for what, operator := range map[string]natsd.Operator{
		"no token":   {Accounts: good.Accounts, Home: good.Home},
		"no home":    {JWT: good.JWT, Accounts: good.Accounts},
		"no account": {JWT: good.JWT, Accounts: []string{"nonsense"}, Home: good.Home},
	} {
		if _, err := natsd.Start(natsd.Config{StoreDir: t.TempDir(), Operator: &operator}); !errors.Is(err, natsd.ErrConfig) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

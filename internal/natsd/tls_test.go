package natsd_test

import (
	"crypto/tls"
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/internal/natsd"
	"github.com/rollcall-io/rollcall/subjects/identity"
)

func TestTLSOnEveryListener(t *testing.T) {
	c := lab.NewCA(t)
	cert, key := c.Issue("server")
	a, operator := authority(t)
	s := start(t, natsd.Config{Operator: operator, Listen: "127.0.0.1:0", WebSocket: "127.0.0.1:0", TLS: &natsd.TLS{Cert: cert, Key: key}})
	if url := s.ClientURL(); !strings.HasPrefix(url, "tls://") {
		t.Errorf("clients are told %s", url)
	}
	if url := s.WebSocketURL(); !strings.HasPrefix(url, "wss://") {
		t.Errorf("browsers are told %s", url)
	}
	identified := as(t, a, identity.Viewer)
	for _, url := range []string{s.ClientURL(), s.WebSocketURL()} {
		nc := connect(t, func() (*nats.Conn, error) { return nats.Connect(url, append(identified, nats.RootCAs(c.File))...) })
		if err := nc.Flush(); err != nil {
			t.Error(err)
		}
		// Who does not know the authority does not talk to the server, and nobody is
		// let in without a credential.
		for what, options := range map[string][]nats.Option{"an unknown authority": identified, "no credential": {nats.RootCAs(c.File)}} {
			if nc, err := nats.Connect(url, options...); err == nil {
				nc.Close()
				t.Errorf("%s: connected to %s", what, url)
			}
		}
	}
	plain := strings.Replace(s.WebSocketURL(), "wss://", "ws://", 1)
	if nc, err := nats.Connect(plain, identified...); err == nil {
		nc.Close()
		t.Errorf("connected to %s without TLS", plain)
	}
	// A client of the process needs none.
	connect(t, func() (*nats.Conn, error) { return s.Connect(identified...) })
}

func TestClientCertificates(t *testing.T) {
	c := lab.NewCA(t)
	cert, key := c.Issue("server")
	clientCert, clientKey := c.Issue("client")
	strangerCert, strangerKey := lab.NewCA(t).Issue("stranger")
	a, operator := authority(t)
	s := start(t, natsd.Config{
		Operator: operator, Listen: "127.0.0.1:0", WebSocket: "127.0.0.1:0", TLS: &natsd.TLS{Cert: cert, Key: key, ClientCA: c.File},
	})
	identified := append(as(t, a, identity.Edge), nats.RootCAs(c.File))
	for _, tc := range []struct {
		what    string
		url     string
		options []nats.Option
		want    bool
	}{
		{"with a certificate", s.ClientURL(), []nats.Option{nats.ClientCert(clientCert, clientKey)}, true},
		{"without", s.ClientURL(), nil, false},
		{"with another's", s.ClientURL(), []nats.Option{nats.ClientCert(strangerCert, strangerKey)}, false},
		{"a browser", s.WebSocketURL(), nil, true},
	} {
		nc, err := nats.Connect(tc.url, append(identified, tc.options...)...)
		if err == nil {
			nc.Close()
		}
		if (err == nil) != tc.want {
			t.Errorf("%s: %v", tc.what, err)
		}
	}
}

// Other machines are let in only where the server asks who they are, and nobody can
// overhear the answer.
func TestOnlyTLSAndIdentitiesOpenTheWorld(t *testing.T) {
	c := lab.NewCA(t)
	cert, key := c.Issue("server")
	secure := &natsd.TLS{Cert: cert, Key: key}
	_, operator := authority(t)
	for _, tc := range []struct {
		what     string
		operator *natsd.Operator
		tls      *natsd.TLS
		want     bool
	}{{"neither", nil, nil, false}, {"identities", operator, nil, false}, {"TLS", nil, secure, false}, {"both", operator, secure, true}} {
		for _, address := range []string{"0.0.0.0:0", ":0"} {
			s, err := natsd.Start(natsd.Config{StoreDir: t.TempDir(), Listen: address, WebSocket: address, Operator: tc.operator, TLS: tc.tls})
			if err == nil {
				s.Shutdown()
			}
			if (err == nil) != tc.want || err != nil && !errors.Is(err, natsd.ErrConfig) {
				t.Errorf("%s, %s: %v", tc.what, address, err)
			}
		}
	}
}

func TestTLSFilesThatAreNone(t *testing.T) {
	c := lab.NewCA(t)
	cert, key := c.Issue("server")
	_, other := c.Issue("other")
	for what, files := range map[string]natsd.TLS{
		"no key": {Cert: cert}, "no certificate": {Key: key}, "another's key": {Cert: cert, Key: other}, "missing": {Cert: cert, Key: "nowhere.pem"},
		"no authority": {Cert: cert, Key: key, ClientCA: "nowhere.pem"}, "a key as authority": {Cert: cert, Key: key, ClientCA: key},
	} {
		if _, err := natsd.Start(natsd.Config{StoreDir: t.TempDir(), Listen: "127.0.0.1:0", TLS: &files}); !errors.Is(err, natsd.ErrConfig) {
			t.Errorf("%s: %v", what, err)
		}
	}
	config, err := natsd.TLS{Cert: cert, Key: key}.Config()
	if err != nil || config.MinVersion < tls.VersionTLS12 {
		t.Errorf("%+v, %v", config, err)
	}
}

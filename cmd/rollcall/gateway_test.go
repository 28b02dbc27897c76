package main

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rollcall-io/rollcall/edge/gateway"
	"github.com/rollcall-io/rollcall/internal/lab"
)

// A gateway in a process of its own takes a device, and sends it elsewhere when stopped.
func TestGatewayCommand(t *testing.T) {
	url := up(t)
	keys := os.Getenv("ROLLCALL_KEYS")
	creds := filepath.Join(t.TempDir(), "g1.creds")
	if code, _, errs := command(t, "token", "door", "--id", "g1", "--out", creds); code != 0 {
		t.Fatal(errs)
	}
	_, token, _ := command(t, "token", "gateway", "--user", "ann", "--device", "phone")
	for name, args := range map[string][]string{
		"with the fabric's keys":            {"--id", "g2"},
		"with its own credential and a key": {"--creds", creds, "--jwt-key", filepath.Join(keys, "bearer.pub.pem")},
	} {
		g := startChild(t, append([]string{"gateway", "-s", url, "--listen", "127.0.0.1:0", "--drain", "10ms", "--metrics", "127.0.0.1:0"}, args...)...)
		site := g.out.await(t, `takes devices at (http://\S+)/api/v1/`)
		header := http.Header{"Authorization": {"Bearer " + strings.TrimSpace(token)}}
		s, err := lab.DialSocket(t.Context(), strings.Replace(site, "http", "ws", 1)+gateway.Root+"presence/socket", header)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if a, err := s.Ask(`{"op":"open","device":"phone","foreground":true,"active":true}`); err != nil || a["sessionId"] == nil {
			t.Errorf("%s: %v, %v", name, a, err)
		}
		stopped := make(chan struct{})
		go func() { defer close(stopped); g.stop(t) }()
		var closed lab.Closed
		if _, err := s.Hear(); !errors.As(err, &closed) || closed.Code != 1012 {
			t.Errorf("%s: %v", name, err)
		}
		<-stopped
		if !strings.Contains(g.errs.String(), "sending 1 devices elsewhere") {
			t.Errorf("%s: %s", name, g.errs)
		}
	}
}

func TestGatewayIsRefused(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Setenv("ROLLCALL_KEYS", filepath.Join(dir, "none"))
	for want, args := range map[string][]string{
		"nobody's tokens are believed": nil,
		"a secret of 5 bytes":          {"--jwt-secret", write("short", "short")},
		"not a public key in PEM":      {"--jwt-key", write("key", "key")},
		"key set no-such-file":         {"--jwks", "no-such-file"},
		"loopback":                     {"--jwt-secret", write("long", strings.Repeat("x", 32)), "--listen", "0.0.0.0:0"},
	} {
		code, _, errs := command(t, append([]string{"gateway"}, args...)...)
		if code != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("%v: %d, %s; want it to say %q", args, code, errs, want)
		}
	}
	makeKeys(t)
	for want, args := range map[string][]string{
		"--ttl": {"--user", "ann", "--ttl", "0s"}, "user": {"--user", strings.Repeat("x", 200)}, "device": {"--user", "ann", "--device", strings.Repeat("x", 200)},
	} {
		if code, out, errs := command(t, append([]string{"token", "gateway"}, args...)...); code != exitUsage || out != "" || !strings.Contains(errs, want) {
			t.Errorf("%v: %d, %s", args, code, errs)
		}
	}
}

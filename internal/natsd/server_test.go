package natsd_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall/internal/natsd"
)

func start(t *testing.T, cfg natsd.Config) *natsd.Server {
	t.Helper()
	if cfg.StoreDir == "" {
		cfg.StoreDir = t.TempDir()
	}
	s, err := natsd.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	return s
}

func connect(t *testing.T, dial func() (*nats.Conn, error)) *nats.Conn {
	t.Helper()
	nc, err := dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func TestStreamsSurviveARestart(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	s := start(t, natsd.Config{StoreDir: dir})
	js, err := jetstream.New(connect(t, func() (*nats.Conn, error) { return s.Connect() }))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(ctx, "s", []byte("kept")); err != nil {
		t.Fatal(err)
	}
	s.Shutdown()
	s.Shutdown() // once is enough, twice does no harm

	s = start(t, natsd.Config{StoreDir: dir})
	js, err = jetstream.New(connect(t, func() (*nats.Conn, error) { return s.Connect() }))
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(ctx, "S")
	if err != nil {
		t.Fatal(err)
	}
	if m, err := stream.GetMsg(ctx, 1); err != nil || string(m.Data) != "kept" {
		t.Fatalf("after the restart: %v, %v", m, err)
	}
}

func TestClientsConnectOverTCPAndWebSocket(t *testing.T) {
	s := start(t, natsd.Config{Listen: "localhost:0", WebSocket: "127.0.0.1:0"})
	for _, url := range []string{s.ClientURL(), s.WebSocketURL()} {
		nc := connect(t, func() (*nats.Conn, error) { return nats.Connect(url) })
		if got := nc.MaxPayload(); got != natsd.DefaultMaxPayload {
			t.Errorf("%s: largest message %d", url, got)
		}
	}
}

func TestWithoutAddressesNobodyListens(t *testing.T) {
	s := start(t, natsd.Config{})
	if s.ClientURL() != "" || s.WebSocketURL() != "" {
		t.Errorf("listens on %q and %q", s.ClientURL(), s.WebSocketURL())
	}
}

// upgrade asks for a WebSocket as a page of the given origin does.
func upgrade(t *testing.T, url, origin string) int {
	t.Helper()
	r, err := http.NewRequest("GET", strings.Replace(url, "ws://", "http://", 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range map[string]string{
		"Connection": "Upgrade", "Upgrade": "websocket", "Origin": origin,
		"Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
	} {
		r.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

func TestOnlyNamedOriginsReachTheWebSocket(t *testing.T) {
	s := start(t, natsd.Config{WebSocket: "127.0.0.1:0", Origins: []string{"http://127.0.0.1:8080"}})
	if got := upgrade(t, s.WebSocketURL(), "http://127.0.0.1:8080"); got != http.StatusSwitchingProtocols {
		t.Errorf("the named origin: status %d", got)
	}
	closed := start(t, natsd.Config{WebSocket: "127.0.0.1:0"})
	for _, url := range []string{s.WebSocketURL(), closed.WebSocketURL()} {
		if got := upgrade(t, url, "https://evil.example"); got != http.StatusForbidden {
			t.Errorf("%s: a foreign origin: status %d", url, got)
		}
	}
}

func TestRefusedConfigurations(t *testing.T) {
	for name, cfg := range map[string]natsd.Config{
		"no directory":        {},
		"every interface":     {StoreDir: t.TempDir(), Listen: ":4222"},
		"all of IPv4":         {StoreDir: t.TempDir(), Listen: "0.0.0.0:4222"},
		"another machine":     {StoreDir: t.TempDir(), Listen: "192.0.2.1:4222"},
		"a name":              {StoreDir: t.TempDir(), Listen: "example.com:4222"},
		"no port":             {StoreDir: t.TempDir(), Listen: "127.0.0.1"},
		"a large port":        {StoreDir: t.TempDir(), Listen: "127.0.0.1:65536"},
		"WebSocket in public": {StoreDir: t.TempDir(), WebSocket: "[::]:8080"},
		"negative payload":    {StoreDir: t.TempDir(), MaxPayload: -1},
		"origin without host": {StoreDir: t.TempDir(), WebSocket: "127.0.0.1:0", Origins: []string{"nonsense"}},
	} {
		s, err := natsd.Start(cfg)
		if err == nil {
			s.Shutdown()
		}
		if !errors.Is(err, natsd.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBusyPortIsNamed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	busy, dir := l.Addr().String(), t.TempDir()
	for _, cfg := range []natsd.Config{{StoreDir: dir, Listen: busy}, {StoreDir: dir, WebSocket: busy}} {
		if _, err := natsd.Start(cfg); !errors.Is(err, natsd.ErrListen) || !strings.Contains(err.Error(), busy) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	start(t, natsd.Config{StoreDir: dir}) // the failed starts hold no lock
}

func TestDirectoryIsUsedByOneServerAtATime(t *testing.T) {
	dir := t.TempDir()
	first := start(t, natsd.Config{StoreDir: dir})
	if _, err := natsd.Start(natsd.Config{StoreDir: dir}); !errors.Is(err, natsd.ErrLocked) || !strings.Contains(err.Error(), dir) {
		t.Fatalf("the second server: %v", err)
	}
	first.Shutdown()
	start(t, natsd.Config{StoreDir: dir})
}

func TestUnusableDirectoriesAreNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// The lock can be had, the streams cannot be stored: only the server notices.
	blocked := t.TempDir()
	if err := os.WriteFile(filepath.Join(blocked, "jetstream"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "below"), blocked} {
		if _, err := natsd.Start(natsd.Config{StoreDir: dir}); err == nil || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

func TestServerLogsThroughTheLogger(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	start(t, natsd.Config{Logger: log}).Shutdown()
	if !strings.Contains(out.String(), "nats-server") {
		t.Errorf("logged: %q", out.String())
	}
}

// What Start would refuse is found before anything is made.
func TestCheckMakesNothing(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := filepath.Join(t.TempDir(), "data")
	for what, tc := range map[string]struct {
		cfg  natsd.Config
		want error
	}{
		"good":             {natsd.Config{StoreDir: dir, Listen: "127.0.0.1:0", WebSocket: "127.0.0.1:0", Origins: []string{"https://your.site"}}, nil},
		"no directory":     {natsd.Config{}, natsd.ErrConfig},
		"the wide world":   {natsd.Config{StoreDir: dir, Listen: "0.0.0.0:0", Operator: &natsd.Operator{}}, natsd.ErrConfig},
		"no certificate":   {natsd.Config{StoreDir: dir, TLS: &natsd.TLS{}}, natsd.ErrConfig},
		"not an origin":    {natsd.Config{StoreDir: dir, WebSocket: "127.0.0.1:0", Origins: []string{"your.site"}}, natsd.ErrConfig},
		"a page's address": {natsd.Config{StoreDir: dir, WebSocket: "127.0.0.1:0", Origins: []string{"https://your.site/chat"}}, natsd.ErrConfig},
		"taken":            {natsd.Config{StoreDir: dir, Listen: taken.Addr().String()}, natsd.ErrListen},
		"taken for pages":  {natsd.Config{StoreDir: dir, WebSocket: taken.Addr().String()}, natsd.ErrListen},
	} {
		if err := tc.cfg.Check(); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the directory was made")
	}
}

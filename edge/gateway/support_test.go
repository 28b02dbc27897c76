package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/edge"
	"github.com/rollcall-io/rollcall/edge/door"
	"github.com/rollcall-io/rollcall/edge/gateway"
	"github.com/rollcall-io/rollcall/edge/gateway/bearer"
	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/subjects"
)

const (
	host = "gateway.example"
	here = "192.0.2.1" // where clients come from
)

// A scene is a gateway in virtual time, without keeper and fanout.
type scene struct {
	t        *testing.T
	server   *lab.Server
	link     *lab.Link // of the gateway
	door     *door.Door
	gateway  *gateway.Gateway
	listener *lab.Listener
	client   *http.Client
	registry *prometheus.Registry
	secret   []byte
	stop     context.CancelFunc
}

func newScene(t *testing.T, configure ...func(*door.Config, *gateway.Config)) *scene {
	t.Helper()
	s := &scene{
		t: t, server: lab.NewServer(t), listener: lab.NewListener(t), registry: prometheus.NewRegistry(),
		secret: []byte(strings.Repeat("s", 32)),
	}
	js, err := jetstream.New(lab.Connect(t, s.server.NewLink()))
	s.must(err)
	_, err = fabric.Ensure(t.Context(), js, fabric.Config{Shards: 1, Params: rollcall.Tight()})
	s.must(err)
	s.link = s.server.NewLink()
	dc := door.Config{Edge: edge.Config{ID: "g1", Seed: 1}}
	gc := gateway.Config{Registerer: s.registry, See: s.see}
	for _, c := range configure {
		c(&dc, &gc)
	}
	s.door, err = door.New(lab.Connect(t, s.link), dc)
	s.must(err)
	v, err := bearer.New(t.Context(), bearer.Config{Secrets: [][]byte{s.secret}})
	s.must(err)
	gc.Door, gc.Verify = s.door, v.Verify
	s.gateway, err = gateway.New(gc)
	s.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	ended := make(chan struct{})
	go func() { defer close(ended); s.door.Run(ctx) }()
	<-s.door.Ready()
	server := gateway.NewServer(s.gateway)
	go server.Serve(s.listener)
	s.client = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return s.listener.Dial(ctx, here) }}}
	t.Cleanup(func() {
		cancel()
		<-ended
		s.client.CloseIdleConnections()
		server.Close()
		s.gateway.Wait(context.Background())
	})
	return s
}

// see knows bob, nobody else, and that carl cannot be known of now; of broken it fails as
// only a mistake of ours does.
func (s *scene) see(_ context.Context, viewer, target string) (gateway.Sight, error) {
	switch target {
	case "bob":
		return gateway.Sight{View: &subjects.View{Target: target, Status: rollcall.StatusOnline, State: "idle", Text: "seen by " + viewer, Version: 7}}, nil
	case "carl":
		return gateway.Sight{View: &subjects.View{Target: target, Status: rollcall.StatusUnknown}, Reason: "keeper_silent"}, nil
	case "down":
		return gateway.Sight{}, &subjects.DeviceError{Code: subjects.DeviceUnavailable, Message: "away", RetryAfter: time.Second}
	case "broken":
		return gateway.Sight{}, errors.New("no such answer")
	}
	return gateway.Sight{}, nil
}

func (s *scene) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// token is one of a user for an hour, with other claims in pairs of name and value.
func (s *scene) token(user string, claims ...any) string {
	s.t.Helper()
	c := jwt.MapClaims{"sub": user, "exp": time.Now().Add(time.Hour).Unix()}
	for i := 0; i < len(claims); i += 2 {
		c[claims[i].(string)] = claims[i+1]
	}
	text, err := jwt.NewWithClaims(jwt.SigningMethodHS256, c).SignedString(s.secret)
	s.must(err)
	return text
}

// An answer over HTTP.
type answer struct {
	status int
	header http.Header
	text   string
	body   map[string]any
}

func (a answer) code() string {
	refusal, _ := a.body["error"].(map[string]any)
	code, _ := refusal["code"].(string)
	return code
}

func (s *scene) do(method, path, token, body string, header ...string) answer {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, "http://"+host+path, strings.NewReader(body))
	s.must(err)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	got, err := s.client.Do(r)
	s.must(err)
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	s.must(err)
	a := answer{status: got.StatusCode, header: got.Header, text: string(text)}
	if len(bytes.TrimSpace(text)) > 0 && strings.HasPrefix(got.Header.Get("Content-Type"), "application/json") {
		s.must(json.Unmarshal(text, &a.body))
	}
	return a
}

func (s *scene) post(op, token, body string) answer {
	s.t.Helper()
	return s.do(http.MethodPost, gateway.Root+"presence/"+op, token, body)
}

// open opens a session over HTTP and returns what names it, as the beginning of a body.
func (s *scene) open(user, device string) string {
	s.t.Helper()
	a := s.post("session", s.token(user), `{"device":"`+device+`","foreground":true,"active":true}`)
	if a.status != http.StatusOK {
		s.t.Fatalf("%d %s", a.status, a.text)
	}
	return named(a.body)
}

// named is the name of a session in an answer, as the beginning of a body.
func named(opened map[string]any) string {
	b, err := json.Marshal(map[string]any{"sessionId": opened["sessionId"], "sessionEpoch": int64(opened["sessionEpoch"].(float64))})
	if err != nil {
		panic(err)
	}
	return strings.TrimSuffix(string(b), "}")
}

// dial opens a socket; token may be empty.
func (s *scene) dial(token string, header ...string) (*lab.Socket, error) {
	s.t.Helper()
	h := http.Header{}
	if token != "" {
		h.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	conn, err := s.listener.Dial(s.t.Context(), here)
	s.must(err)
	socket, err := lab.Handshake(conn, "ws://"+host+gateway.Root+"presence/socket", h)
	if err == nil {
		s.t.Cleanup(func() { socket.Close() })
	}
	return socket, err
}

// socket opens a socket with a session.
func (s *scene) socket(user, device string) *lab.Socket {
	s.t.Helper()
	socket, err := s.dial(s.token(user))
	s.must(err)
	a, err := socket.Ask(`{"op":"open","device":"` + device + `","foreground":true,"active":true}`)
	s.must(err)
	if a["error"] != nil {
		s.t.Fatalf("%v", a)
	}
	return socket
}

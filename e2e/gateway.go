package e2e

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/rollcall-io/rollcall/edge"
	"github.com/rollcall-io/rollcall/edge/door"
	"github.com/rollcall-io/rollcall/edge/gateway"
	"github.com/rollcall-io/rollcall/edge/gateway/bearer"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/subjects"
)

// bearerSeed makes the key of all gateways of a test.
var bearerSeed = bytes.Repeat([]byte{7}, ed25519.SeedSize)

// Gateway is a process of a front door, reached in virtual time.
type Gateway struct {
	*Process
	*door.Door
	listener *lab.Listener
	client   *http.Client
}

// StartGateway starts a gateway and waits until sessions can be opened.
func (f *Fabric) StartGateway(id string) *Gateway {
	f.T.Helper()
	g := &Gateway{Process: f.connect(), listener: lab.NewListener(f.T)}
	f.seed++
	var err error
	g.Door, err = door.New(g.nc, door.Config{Edge: edge.Config{
		ID: id, Seed: f.seed, ClockResolution: time.Second, Logger: f.options.Logger, Registerer: f.options.Registerer,
	}})
	if err != nil {
		f.T.Fatal(err)
	}
	key := ed25519.NewKeyFromSeed(bearerSeed)
	verifier, err := bearer.New(f.ctx, bearer.Config{Keys: []ed25519.PublicKey{key.Public().(ed25519.PublicKey)}})
	if err != nil {
		f.T.Fatal(err)
	}
	handler, err := gateway.New(gateway.Config{Door: g.Door, Verify: verifier.Verify, Registerer: f.options.Registerer})
	if err != nil {
		f.T.Fatal(err)
	}
	server := gateway.NewServer(handler)
	g.client = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return g.listener.Dial(ctx, "192.0.2.1") },
	}}
	f.process(func(ctx context.Context) error {
		go server.Serve(g.listener)
		defer g.client.CloseIdleConnections()
		defer server.Close()
		return g.Run(ctx)
	}, g.Process)
	g.await(g.Ready())
	return g
}

// A Browser is a device that speaks the protocol of devices over HTTP, through a
// balancer that sends each request to the next gateway.
type Browser struct {
	f            *Fabric
	user, device string
	token        string
	silence      context.CancelFunc

	mu       sync.Mutex
	gateways []*Gateway
	turn     int
	opened   int
}

// StartBrowser opens a session and keeps it going as the answers say, until it is silenced.
// One that is not registered any more, or finds its gateway gone, opens another.
func (f *Fabric) StartBrowser(user, device string, gateways ...*Gateway) *Browser {
	f.T.Helper()
	token, err := bearer.Mint(ed25519.NewKeyFromSeed(bearerSeed), user, "", 24*time.Hour)
	if err != nil {
		f.T.Fatal(err)
	}
	ctx, cancel := context.WithCancel(f.ctx)
	b := &Browser{f: f, user: user, device: device, token: token, gateways: gateways, silence: cancel}
	f.devices.Go(func() { b.live(ctx) })
	return b
}

// Silence ends the heartbeats; nobody is told.
func (b *Browser) Silence() { b.silence() }

// Balance has requests go to these gateways from now on.
func (b *Browser) Balance(gateways ...*Gateway) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gateways = gateways
}

// Opened is how many sessions it has opened.
func (b *Browser) Opened() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.opened
}

// again is how long a device waits before it tries again. Real ones draw lots.
const again = time.Second

func (b *Browser) live(ctx context.Context) {
	for ctx.Err() == nil {
		yes := true
		var opened subjects.DeviceOpenAnswer
		if err := b.ask(ctx, "session", subjects.DeviceOpenRequest{Device: b.device, Foreground: &yes, Active: &yes}, &opened); err != nil {
			pause(ctx, again)
			continue
		}
		b.mu.Lock()
		b.opened++
		b.mu.Unlock()
		beat := subjects.DeviceHeartbeatRequest{DeviceSession: subjects.DeviceSession{SessionID: opened.SessionID, SessionEpoch: opened.SessionEpoch}}
		next := opened.DeviceAnswer
		for pause(ctx, time.Duration(next.NextHeartbeatInMs)*time.Millisecond) {
			beat.Seq++
			if err := b.ask(ctx, "heartbeat", beat, &next); err != nil {
				break
			}
		}
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// next is the gateway whose turn it is.
func (b *Browser) next() *Gateway {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turn++
	return b.gateways[b.turn%len(b.gateways)]
}

func (b *Browser) ask(ctx context.Context, op string, request, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://gateway"+gateway.Root+"presence/"+op, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+b.token)
	got, err := b.next().client.Do(r)
	if err != nil {
		return err
	}
	defer got.Body.Close()
	if got.StatusCode != http.StatusOK {
		var refusal subjects.DeviceRefusal
		return errors.Join(json.NewDecoder(got.Body).Decode(&refusal), refusal.Error)
	}
	return json.NewDecoder(got.Body).Decode(answer)
}

package main

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rollcall-io/rollcall/edge"
	"github.com/rollcall-io/rollcall/edge/door"
	"github.com/rollcall-io/rollcall/edge/gateway"
	"github.com/rollcall-io/rollcall/edge/gateway/bearer"
	"github.com/rollcall-io/rollcall/subjects/identity"
)

// A front is a gateway that runs.
type front struct {
	*gateway.Gateway
	counted *prometheus.Registry
}

// runGateway is one life of the gateway. To end it is to crash: the store hears nothing,
// and devices that the process is gone.
func (s *stage) runGateway(ctx context.Context) error {
	nc, err := s.server.connect(identity.Door, "gateway")
	if err != nil {
		return err
	}
	defer nc.Close()
	d, err := door.New(nc, door.Config{Edge: edge.Config{ID: "gateway"}, IdleThreshold: s.idleThreshold})
	if err != nil {
		return err
	}
	verifier, err := bearer.New(ctx, bearer.Config{Keys: []ed25519.PublicKey{s.key.Public().(ed25519.PublicKey)}, Leeway: -1})
	if err != nil {
		return err
	}
	counted := prometheus.NewRegistry()
	g, err := gateway.New(gateway.Config{Door: d, Verify: verifier.Verify, Registerer: counted})
	if err != nil {
		return err
	}
	s.front.Store(&front{g, counted})
	defer s.front.Store(nil)
	return d.Run(ctx)
}

// api is the gateway while there is one, and else what a balancer says.
func (s *stage) api(w http.ResponseWriter, r *http.Request) {
	if f := s.front.Load(); f != nil {
		f.ServeHTTP(w, r)
		return
	}
	http.Error(w, "no gateway", http.StatusBadGateway)
}

// count is how often the gateway was asked for an operation since it started.
func (s *stage) count(op string) (total float64, err error) {
	f := s.front.Load()
	if f == nil {
		return 0, fmt.Errorf("no gateway")
	}
	families, err := f.counted.Gather()
	for _, family := range families {
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				if label.GetName() == "op" && label.GetValue() == op {
					total += m.GetCounter().GetValue()
				}
			}
		}
	}
	return total, err
}

// bearer makes a token for a gateway.
func (s *stage) bearer(ttl, user string) (string, error) {
	d, err := time.ParseDuration(ttl)
	if err != nil {
		return "", err
	}
	return bearer.Mint(s.key, user, "", d)
}

package gateway

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/rollcall-io/rollcall/docs"
	"github.com/rollcall-io/rollcall/edge/door"
	"github.com/rollcall-io/rollcall/internal/limits"
	"github.com/rollcall-io/rollcall/subjects"
)

// Root is the path below which a gateway answers.
const Root = "/api/v1/"

// Gateway is an [http.Handler] for everything below [Root].
type Gateway struct {
	cfg       Config
	door      *door.Door
	addresses *limits.Limits
	mux       *http.ServeMux
	routes    []route
	metrics   metrics
	refused   rate.Sometimes // pages, of which a log should not be full

	sockets atomic.Int64
	running sync.WaitGroup // sockets
}

// A route answers one method of a path with the answer to marshal, or with an error.
type route struct {
	method, path string
	op           string // as metrics name it
	answer       func(*call) (any, error)
}

// New checks the configuration and registers the metrics.
func New(cfg Config) (*Gateway, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	g := &Gateway{cfg: cfg, door: cfg.Door, addresses: limits.New(cfg.AddressRate, cfg.AddressBurst), mux: http.NewServeMux(), refused: rate.Sometimes{Interval: 10 * time.Second}}
	if g.metrics, err = newMetrics(g, cfg.Registerer); err != nil {
		return nil, fmt.Errorf("gateway: registering metrics: %w", err)
	}
	g.routes = []route{
		{http.MethodPost, "presence/session", string(subjects.DeviceOpen), g.open},
		{http.MethodPost, "presence/heartbeat", string(subjects.DeviceHeartbeat), g.heartbeat},
		{http.MethodPost, "presence/state", string(subjects.DeviceState), g.state},
		{http.MethodPost, "presence/close", string(subjects.DeviceClose), g.close},
		{http.MethodGet, "presence/socket", "socket", g.upgrade},
		{http.MethodGet, "users/{id}/presence", "see", g.see},
		{http.MethodGet, "openapi.yaml", "document", func(*call) (any, error) { return document(docs.OpenAPI), nil }},
	}
	for _, r := range g.routes {
		g.mux.HandleFunc(Root+r.path, g.serve(r))
	}
	g.mux.HandleFunc(Root, g.serve(route{op: "none", answer: func(*call) (any, error) {
		return nil, subjects.DeviceErrorf(subjects.DeviceNotFound, "there is nothing here; see %sopenapi.yaml", Root)
	}}))
	return g, nil
}

// ServeHTTP implements [http.Handler].
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) { g.mux.ServeHTTP(w, r) }

// Sockets is how many there are.
func (g *Gateway) Sockets() int { return int(g.sockets.Load()) }

// Wait returns when every socket has ended, or ctx has. Sockets end with their sessions:
// drain the door first.
func (g *Gateway) Wait(ctx context.Context) error {
	gone := make(chan struct{})
	go func() { g.running.Wait(); close(gone) }()
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// serve runs a route behind what holds for all of them.
func (g *Gateway) serve(to route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := &call{gateway: g, w: w, r: r, address: addressOf(r, g.cfg.Proxies)}
		answer, err := c.through(to)
		g.metrics.count("http", to.op, err)
		switch {
		case c.hijacked:
		case err != nil:
			refuse(w, err)
		case answer == nil: // a preflight
			w.WriteHeader(http.StatusNoContent)
		default:
			reply(w, http.StatusOK, answer)
		}
	}
}

// Routes lists what is answered, each as "METHOD path" below [Root].
func (g *Gateway) Routes() []string {
	all := make([]string, len(g.routes))
	for i, r := range g.routes {
		all[i] = r.method + " " + r.path
	}
	return all
}

// through answers unless something is in the way.
func (c *call) through(to route) (any, error) {
	g := c.gateway
	allowed := g.cross(c.w, c.r)
	if wait := g.addresses.Take(c.address, time.Now()); wait > 0 {
		return nil, &subjects.DeviceError{Code: subjects.DeviceRateLimited, Message: "too many requests of this address", RetryAfter: wait}
	}
	if !allowed {
		g.refused.Do(func() {
			g.cfg.Logger.Warn("a page is refused; its origin is not configured", "origin", c.r.Header.Get("Origin"), "host", c.r.Host)
		})
		return nil, subjects.DeviceErrorf(subjects.DeviceForbidden, "pages of this origin may not come; the gateway's operator names those that may")
	}
	if c.r.Method == http.MethodOptions && to.method != "" {
		c.w.Header().Set("Allow", to.method+", OPTIONS")
		return nil, nil
	}
	if to.method != "" && c.r.Method != to.method {
		c.w.Header().Set("Allow", to.method+", OPTIONS")
		return nil, subjects.DeviceErrorf(subjects.DeviceMethodNotAllowed, "it is called with %s", to.method)
	}
	return to.answer(c)
}

// cross sets what a browser must be told before a page of another origin may see an
// answer, and says whether the page may come at all.
func (g *Gateway) cross(w http.ResponseWriter, r *http.Request) bool {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if origin == "" { // no page, or one that asks for what its own host gives to everybody
		return true
	}
	if !slices.Contains(g.cfg.Origins, origin) {
		_, host, _ := strings.Cut(origin, "://")
		return host != "" && strings.EqualFold(host, r.Host)
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Allow-Methods", "GET, POST")
	h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type")
	h.Set("Access-Control-Expose-Headers", "Retry-After")
	h.Set("Access-Control-Max-Age", "7200")
	return true
}

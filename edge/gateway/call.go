package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/edge/door"
	"github.com/rollcall-io/rollcall/subjects"
)

// A call is one request over HTTP.
type call struct {
	gateway  *Gateway
	w        http.ResponseWriter
	r        *http.Request
	address  string
	hijacked bool
}

// caller is who the token says; body is a token that came there, for those who cannot set
// headers.
func (c *call) caller(body string) (door.Caller, error) {
	token, err := tokenOf(c.r)
	if err != nil {
		return door.Caller{}, err
	}
	if token == "" {
		token = body
	}
	who, err := c.gateway.identify(token)
	return door.Caller{User: who.User, Device: who.Device}, err
}

// tokenOf is the token in the header; empty if there is none.
func tokenOf(r *http.Request) (string, error) {
	header := r.Header.Get("Authorization")
	if header == "" {
		return "", nil
	}
	scheme, token, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", subjects.DeviceErrorf(subjects.DeviceUnauthenticated, "the header Authorization is not \"Bearer TOKEN\"")
	}
	return strings.TrimSpace(token), nil
}

// What is checked says itself whether it can be meant.
type checked interface{ Check() error }

// read decodes the body, and refuses it before anything is looked up.
func (c *call) read(into checked) error {
	body, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, c.gateway.cfg.MaxMessage))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return tooLarge(large.Limit)
	case err != nil:
		return subjects.DeviceErrorf(subjects.DeviceInvalid, "the body has not come whole")
	}
	if err := subjects.DecodeDevice(body, into); err != nil {
		return err
	}
	return into.Check()
}

func tooLarge(limit int64) error {
	return subjects.DeviceErrorf(subjects.DeviceTooLarge, "it has more than %d bytes", limit)
}

func (g *Gateway) open(c *call) (any, error) {
	who, err := c.caller("")
	if err != nil {
		return nil, err
	}
	var r subjects.DeviceOpenRequest
	if err := c.read(&r); err != nil {
		return nil, err
	}
	s, err := g.door.Open(who, r, nil)
	if err != nil {
		return nil, err
	}
	return s.Answer(), nil
}

// session reads a request and finds the session that it names.
func (g *Gateway) session(c *call, into checked, named *subjects.DeviceSession) (*door.Session, error) {
	who, err := c.caller("")
	if err != nil {
		return nil, err
	}
	if err := c.read(into); err != nil {
		return nil, err
	}
	return g.door.Find(who, *named)
}

func (g *Gateway) heartbeat(c *call) (any, error) {
	var r subjects.DeviceHeartbeatRequest
	s, err := g.session(c, &r, &r.DeviceSession)
	if err != nil {
		return nil, err
	}
	return s.Heartbeat(r)
}

func (g *Gateway) state(c *call) (any, error) {
	var r subjects.DeviceStateRequest
	s, err := g.session(c, &r, &r.DeviceSession)
	if err != nil {
		return nil, err
	}
	return s.SetState(r)
}

// close reads the body first: a page that goes can only send a beacon, which has no
// header for the token.
func (g *Gateway) close(c *call) (any, error) {
	var r subjects.DeviceCloseRequest
	unread := c.read(&r)
	who, err := c.caller(r.Token)
	switch {
	case err != nil:
		return nil, err
	case unread != nil:
		return nil, unread
	}
	s, err := g.door.Find(who, r.DeviceSession)
	if err != nil {
		return nil, err
	}
	return s.Close(r)
}

// seeing is how long the fanout may take to answer.
const seeing = 5 * time.Second

// seen is the answer to who asks for a user's presence.
type seen struct {
	subjects.View
	Status     rollcall.Status     `json:"status,omitempty"` // absent with the target
	Version    uint64              `json:"version,omitempty"`
	Reason     string              `json:"reason,omitempty"`
	ServerTime subjects.DeviceTime `json:"serverTime"`
}

func (g *Gateway) see(c *call) (any, error) {
	who, err := c.caller("")
	if err != nil {
		return nil, err
	}
	target := c.r.PathValue("id")
	if err := rollcall.CheckID(target); err != nil {
		return nil, subjects.DeviceErrorf(subjects.DeviceInvalid, "user: %v", err)
	}
	if err := g.door.Allow(who.User); err != nil {
		return nil, err
	}
	if g.cfg.See == nil {
		return nil, subjects.DeviceErrorf(subjects.DeviceUnavailable, "this gateway only takes heartbeats")
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), seeing)
	defer cancel()
	sight, err := g.cfg.See(ctx, who.User, target)
	if err != nil {
		return nil, err
	}
	answer := seen{View: subjects.View{Target: target}, Reason: sight.Reason, ServerTime: g.door.Now()}
	if v := sight.View; v != nil {
		answer.View, answer.Status, answer.Version = *v, v.Status, v.Version
	}
	return answer, nil
}

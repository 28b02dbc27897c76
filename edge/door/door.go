package door

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/edge"
	"github.com/rollcall-io/rollcall/internal/limits"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// Caller is who asks, as its credential says.
type Caller struct {
	User string
	// Device, if not empty, is the only one that the caller may speak for.
	Device string
}

// Guest hears of the end of a session that it did not end itself.
type Guest interface{ Ended(End) }

// End is why a session has ended.
type End int

// The ends.
const (
	Superseded End = iota // the device has a newer session, here or elsewhere
	Dead                  // no heartbeat came within the idle timeout
	Drained               // the front door closes
)

// Door holds the sessions of one front door. Use [New], then [Door.Run].
type Door struct {
	nc         *nats.Conn
	node       *edge.Node
	cfg        Config
	allowances *limits.Limits

	mu       sync.Mutex
	closing  bool
	sessions map[string]*Session // by id
	conns    map[*edge.Conn]*Session
	devices  map[string]int // sessions of a user
}

// New copies and checks the configuration. It starts nothing.
func New(nc *nats.Conn, cfg Config) (*Door, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	d := &Door{
		nc: nc, cfg: cfg, allowances: limits.New(cfg.Rate, cfg.Burst),
		sessions: make(map[string]*Session), conns: make(map[*edge.Conn]*Session), devices: make(map[string]int),
	}
	cfg.Edge.OnDead = func(c *edge.Conn) { d.ended(c, Dead) }
	cfg.Edge.OnSuperseded = func(c *edge.Conn) { d.ended(c, Superseded) }
	if d.node, err = edge.New(nc, cfg.Edge); err != nil {
		return nil, err
	}
	return d, nil
}

// Run runs the node and returns what it returns; then all sessions have ended.
func (d *Door) Run(ctx context.Context) error {
	err := d.node.Run(ctx)
	for _, s := range d.shut() {
		s.drain()
	}
	return err
}

// Ready is closed when sessions can be opened for the first time.
func (d *Door) Ready() <-chan struct{} { return d.node.Ready() }

// Accepting says whether sessions can be opened now: the fabric is found, and the door does
// not close.
func (d *Door) Accepting() bool {
	select {
	case <-d.Ready():
	default:
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.closing
}

// Live is nil: a door whose node has ended is at the end of its process.
func (d *Door) Live() error { return nil }

// Readiness is nil while sessions can be opened and the store hears of them. Without the
// store they can be opened too, but another door may be better off.
func (d *Door) Readiness() error {
	switch {
	case !d.Accepting():
		return errors.New("opens no sessions")
	case !d.nc.IsConnected():
		return errors.New("is not connected to NATS")
	}
	return nil
}

// Sessions is how many there are.
func (d *Door) Sessions() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.sessions)
}

// Node is the edge below, for its metrics.
func (d *Door) Node() *edge.Node { return d.node }

// Now is the store's clock as far as it is known, else this machine's.
func (d *Door) Now() subjects.DeviceTime {
	if now, ok := d.node.StoreTime(); ok {
		return subjects.DeviceTime(now)
	}
	return subjects.DeviceTime(rollcall.MicrosOf(time.Now()))
}

// Allow takes one operation off a user's allowance. What a caller does beside the
// sessions should count as well.
func (d *Door) Allow(user string) error {
	wait := d.allowances.Take(user, time.Now())
	if wait == 0 {
		return nil
	}
	return &subjects.DeviceError{Code: subjects.DeviceRateLimited, Message: "too many operations of this user", RetryAfter: wait}
}

// Open begins a session. guest may be nil.
func (d *Door) Open(c Caller, r subjects.DeviceOpenRequest, guest Guest) (*Session, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	if c.Device != "" && c.Device != r.Device {
		return nil, subjects.DeviceErrorf(subjects.DeviceForbidden, "the token is for another device")
	}
	if err := d.Allow(c.User); err != nil {
		return nil, err
	}
	// The lock is held until the session is listed, so that its end finds it.
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.roomLocked(c.User); err != nil {
		return nil, err
	}
	state := edge.State{Foreground: *r.Foreground, Active: *r.Active, Activity: r.Activity}
	conn, err := d.node.ConnectSession(c.User, r.Device, state, edge.Session{ID: r.Session, Client: edge.Client(r.Client)})
	if err != nil {
		return nil, refusal(err)
	}
	s := &Session{door: d, conn: conn, id: newID(), epoch: int64(d.established(conn)), guest: guest, state: state}
	d.sessions[s.id], d.conns[conn] = s, s
	d.devices[c.User]++
	return s, nil
}

func (d *Door) roomLocked(user string) error {
	const later = 5 * time.Second
	switch {
	case d.closing:
		return &subjects.DeviceError{Code: subjects.DeviceUnavailable, Message: "this front door closes; another one may be open", RetryAfter: time.Second}
	case len(d.sessions) >= d.cfg.MaxSessions:
		return &subjects.DeviceError{Code: subjects.DeviceUnavailable, Message: "this front door is full", RetryAfter: later}
	case d.devices[user] >= d.cfg.MaxDevices:
		return &subjects.DeviceError{Code: subjects.DeviceRateLimited, Message: "the user has too many sessions here", RetryAfter: later}
	}
	return nil
}

// established is never 0, which would be no epoch.
func (d *Door) established(c *edge.Conn) rollcall.Micros {
	if at := c.Established(); at != 0 {
		return at
	}
	return rollcall.Micros(d.Now())
}

// newID is a name that nobody guesses.
func newID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// refusal is what the protocol says for an error of the edge.
func refusal(err error) error {
	switch {
	case errors.Is(err, edge.ErrNotReady), errors.Is(err, edge.ErrClosed):
		return &subjects.DeviceError{Code: subjects.DeviceUnavailable, Message: "this front door is not open", RetryAfter: time.Second}
	case errors.Is(err, edge.ErrGone):
		return errUnregistered()
	case errors.Is(err, edge.ErrState), errors.Is(err, rollcall.ErrID):
		return subjects.DeviceErrorf(subjects.DeviceInvalid, "%v", err)
	}
	return subjects.DeviceErrorf(subjects.DeviceInternal, "%v", err)
}

func errUnregistered() error {
	return subjects.DeviceErrorf(subjects.DeviceUnregistered, "there is no such session here, or not any more; open a new one")
}

// Find returns the session that a caller names.
func (d *Door) Find(c Caller, name subjects.DeviceSession) (*Session, error) {
	if err := name.Check(); err != nil {
		return nil, err
	}
	if err := d.Allow(c.User); err != nil {
		return nil, err
	}
	d.mu.Lock()
	s := d.sessions[name.SessionID]
	d.mu.Unlock()
	if s == nil || s.User() != c.User || c.Device != "" && c.Device != s.Device() || !s.is(name) {
		return nil, errUnregistered()
	}
	return s, nil
}

// forget takes a session off the lists; false if it was not there any more.
func (d *Door) forget(s *Session) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sessions[s.id] != s {
		return false
	}
	d.forgetLocked(s)
	return true
}

func (d *Door) forgetLocked(s *Session) {
	delete(d.sessions, s.id)
	delete(d.conns, s.conn)
	if user := s.User(); d.devices[user] > 1 {
		d.devices[user]--
	} else {
		delete(d.devices, user)
	}
}

// ended is what the node says of a connection.
func (d *Door) ended(c *edge.Conn, end End) {
	d.mu.Lock()
	s := d.conns[c]
	if s != nil {
		d.forgetLocked(s)
	}
	d.mu.Unlock()
	if s != nil && s.guest != nil {
		s.guest.Ended(end)
	}
}

// shut lets nobody in any more, and lists who is there.
func (d *Door) shut() []*Session {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closing = true
	all := make([]*Session, 0, len(d.sessions))
	for _, s := range d.sessions {
		all = append(all, s)
	}
	return all
}

// Drain is the polite leave: it opens no sessions any more, ends those there are one by
// one over a while, in no order, and waits until the store knows and Run has returned.
// If ctx ends first, all that are left end at once.
func (d *Door) Drain(ctx context.Context, over time.Duration) error {
	all := d.shut()
	began := time.Now()
	for i, s := range all {
		due := over * time.Duration(i) / time.Duration(len(all))
		if wait := due - time.Since(began); wait > 0 {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
			}
		}
		s.drain()
	}
	if err := d.node.Drain(ctx); err != nil {
		return fmt.Errorf("door: %w", err)
	}
	return nil
}

// drain ends a session for the door's sake.
func (s *Session) drain() {
	if !s.door.forget(s) {
		return
	}
	s.conn.CloseFor(wire.Reason_REASON_DRAINED)
	if s.guest != nil {
		s.guest.Ended(Drained)
	}
}

package edge

import (
	"fmt"
	"sync/atomic"
	"unicode/utf8"
	"unique"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// State is what a device says of itself.
type State struct {
	Foreground bool
	// Active says that there was recent input; it counts in the foreground only.
	Active bool
	// Activity is an optional label of the application, at most
	// [subjects.MaxActivity] bytes, by which online time can be told apart.
	Activity string
}

func (s State) check() error {
	switch {
	case len(s.Activity) > subjects.MaxActivity:
		return fmt.Errorf("%w: activity of %d bytes, the limit is %d", ErrState, len(s.Activity), subjects.MaxActivity)
	case !utf8.ValidString(s.Activity):
		return fmt.Errorf("%w: activity is not UTF-8", ErrState)
	}
	return nil
}

// A status is a State as the fabric tells it. Statuses are few and connections are
// many, so each is kept once and takes a word.
type status = unique.Handle[description]

type description struct {
	state    wire.State
	activity string
	client   Client // never changes; it is here because it takes no further word here
}

func statusOf(s State, client Client) status {
	state := wire.State_STATE_BACKGROUND
	switch {
	case s.Foreground && s.Active:
		state = wire.State_STATE_ACTIVE
	case s.Foreground:
		state = wire.State_STATE_IDLE
	}
	return unique.Make(description{state, s.Activity, client})
}

// flagsOf a heartbeat sent in a status.
func flagsOf(s status) uint32 {
	switch s.Value().state {
	case wire.State_STATE_ACTIVE:
		return subjects.FlagForeground | subjects.FlagActive
	case wire.State_STATE_IDLE:
		return subjects.FlagForeground
	}
	return 0
}

// Conn is one connection of a device. Its methods are safe for concurrent use.
type Conn struct {
	// The heartbeat path.
	last  atomic.Uint64 // a sign
	home  *pipeline
	flags atomic.Uint32 // of heartbeats in the present state
	ring  [ringSize]atomic.Uint32

	// Fixed.
	split  uint8  // length of the user in ids
	tail   uint8  // length of the session in ids
	ids    string // user, device, session
	number uint64 // ascending in the node

	// Under the lock of home.
	phase   phase
	slot    uint16          // where in the wheel
	pending uint32          // where in the backlog
	since   instant         // when it was established
	epoch   rollcall.Micros // the same in store time, once emitted
	now     status
	told    status // as emitted
	next    *Conn  // in the slot of the wheel
	prev    *Conn
	twin    *Conn // another endpoint with the same hash
}

// A phase is a set of the stages that a connection has reached.
type phase uint8

const (
	phaseOpened  phase = 1 << iota // its OPEN is emitted
	phaseGone                      // it has ended
	phaseSuspect                   // it has missed a heartbeat interval
)

func (p phase) has(stage phase) bool { return p&stage != 0 }

func newConn(home *pipeline, user, device string, s State, session Session, number uint64, now instant) *Conn {
	c := &Conn{
		home: home, split: uint8(len(user)), tail: uint8(len(session.ID)), ids: user + device + session.ID,
		number: number, slot: unbooked, since: now, now: statusOf(s, session.Client),
	}
	c.last.Store(uint64(signOf(0, 0, stampOf(now))))
	c.flags.Store(flagsOf(c.now))
	return c
}

// endpoint is what the connection is found by.
func (c *Conn) endpoint() string { return c.ids[:len(c.ids)-int(c.tail)] }

// User is the id of the user.
func (c *Conn) User() string { return c.ids[:c.split] }

// Device is the id of the device.
func (c *Conn) Device() string { return c.endpoint()[c.split:] }

// Number is the connection's number, unique in this run of the edge.
func (c *Conn) Number() uint64 { return c.number }

// Epoch is when the connection was established, in store time; 0 until it has
// been told to the store.
func (c *Conn) Epoch() rollcall.Micros {
	c.home.mu.Lock()
	defer c.home.mu.Unlock()
	return c.epoch
}

// Established is the epoch, or, until that is told, the instant that it will say unless
// the estimate of the store's clock changes before; 0 if nothing is known of that clock
// yet.
func (c *Conn) Established() rollcall.Micros {
	c.home.mu.Lock()
	defer c.home.mu.Unlock()
	if c.epoch != 0 {
		return c.epoch
	}
	at, ok := c.home.store.At(c.since)
	if !ok {
		return 0
	}
	return at
}

// Gone says whether the connection has ended.
func (c *Conn) Gone() bool {
	c.home.mu.Lock()
	defer c.home.mu.Unlock()
	return c.phase.has(phaseGone)
}

// SetState tells a change of the device's state. It fails with [ErrGone] when the
// connection has ended and with [ErrState] for an unacceptable activity. While
// the store is away only the last state is kept.
func (c *Conn) SetState(s State) error {
	if err := s.check(); err != nil {
		return err
	}
	c.home.mu.Lock()
	defer c.home.mu.Unlock()
	if c.phase.has(phaseGone) {
		return ErrGone
	}
	c.home.changeLocked(c, statusOf(s, c.now.Value().client))
	return nil
}

// Close ends the connection because the device said goodbye or closed the
// socket. It is idempotent.
func (c *Conn) Close() { c.CloseFor(wire.Reason_REASON_CLOSED) }

// CloseFor ends the connection for another reason, such as a logout.
func (c *Conn) CloseFor(reason wire.Reason) {
	if reason == wire.Reason_REASON_UNSPECIFIED {
		reason = wire.Reason_REASON_CLOSED
	}
	c.home.mu.Lock()
	defer c.home.mu.Unlock()
	c.home.closeLocked(c, reason)
}

package door

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/rollcall-io/rollcall/edge"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// Session is one connection of a device. Its methods are safe for concurrent use.
type Session struct {
	door  *Door
	conn  *edge.Conn
	id    string
	epoch int64
	guest Guest

	mu    sync.Mutex
	seq   uint32 // of the last heartbeat, as the device counts
	signs uint32 // of life, as the edge counts them: a change of state is one too
	state edge.State
}

// User is the id of the user.
func (s *Session) User() string { return s.conn.User() }

// Device is the id of the device.
func (s *Session) Device() string { return s.conn.Device() }

// Answer is what the device is told of its new session.
func (s *Session) Answer() subjects.DeviceOpenAnswer {
	p := s.door.node.Params()
	return subjects.DeviceOpenAnswer{
		SessionID: s.id, SessionEpoch: s.epoch,
		HeartbeatIntervalMs: p.Heartbeat.Milliseconds(), IdleThresholdMs: s.door.cfg.IdleThreshold.Milliseconds(),
		IdleTimeoutMs: p.IdleTimeout.Milliseconds(), DeviceAnswer: s.answer(),
	}
}

// answer says when to come again: the jitter is the door's, so that devices need none.
func (s *Session) answer() subjects.DeviceAnswer {
	p := s.door.node.Params()
	next := p.Heartbeat - time.Duration(rand.Float64()*p.Jitter*float64(p.Heartbeat))
	return subjects.DeviceAnswer{ServerTime: s.door.Now(), NextHeartbeatInMs: max(next.Milliseconds(), 1)}
}

// Named fails unless the session is the one that is named; nothing names whichever it is.
func (s *Session) Named(name subjects.DeviceSession) error {
	if name == (subjects.DeviceSession{}) || s.is(name) {
		return nil
	}
	return errUnregistered()
}

func (s *Session) is(name subjects.DeviceSession) bool {
	return (name.SessionID == "" || name.SessionID == s.id) && (name.SessionEpoch == 0 || name.SessionEpoch == s.epoch)
}

// Heartbeat takes a sign of life, and the state that rides along unless it is late.
func (s *Session) Heartbeat(r subjects.DeviceHeartbeatRequest) (subjects.DeviceAnswer, error) {
	if err := r.Check(); err != nil {
		return subjects.DeviceAnswer{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Seq <= s.seq {
		if s.conn.Gone() {
			return subjects.DeviceAnswer{}, errUnregistered()
		}
		return s.answer(), nil
	}
	next := s.state
	if r.Foreground != nil {
		next.Foreground = *r.Foreground
	}
	if r.Active != nil {
		next.Active = *r.Active
	}
	if r.Activity != nil {
		next.Activity = *r.Activity
	}
	if err := s.liveLocked(next); err != nil {
		return subjects.DeviceAnswer{}, err
	}
	s.seq = r.Seq
	return s.answer(), nil
}

// SetState takes what the device does now, which is a sign of life too.
func (s *Session) SetState(r subjects.DeviceStateRequest) (subjects.DeviceAnswer, error) {
	if err := r.Check(); err != nil {
		return subjects.DeviceAnswer{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.liveLocked(edge.State{Foreground: *r.Foreground, Active: *r.Active, Activity: r.Activity}); err != nil {
		return subjects.DeviceAnswer{}, err
	}
	return s.answer(), nil
}

// liveLocked takes a sign of life in a state.
func (s *Session) liveLocked(next edge.State) error {
	if next != s.state {
		if err := s.conn.SetState(next); err != nil {
			return refusal(err)
		}
		s.state = next
	}
	s.signs++
	if !s.conn.Beat(s.signs) {
		return errUnregistered() // no other sign comes between: the connection is gone
	}
	return nil
}

// Close ends the session as the device wishes. A session that has ended otherwise, or is
// closed twice, is not registered any more.
func (s *Session) Close(r subjects.DeviceCloseRequest) (subjects.DeviceAnswer, error) {
	if err := r.Check(); err != nil {
		return subjects.DeviceAnswer{}, err
	}
	reason := wire.Reason_REASON_CLOSED
	if r.Reason == subjects.DeviceLogout {
		reason = wire.Reason_REASON_LOGOUT
	}
	if !s.door.forget(s) {
		return subjects.DeviceAnswer{}, errUnregistered()
	}
	s.conn.CloseFor(reason)
	return subjects.DeviceAnswer{ServerTime: s.door.Now()}, nil
}

// Leave ends the session because its wire is gone. It is idempotent.
func (s *Session) Leave() {
	if s.door.forget(s) {
		s.conn.Close()
	}
}

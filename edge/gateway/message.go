package gateway

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/gobwas/ws"

	"github.com/rollcall-io/rollcall/edge/door"
	"github.com/rollcall-io/rollcall/subjects"
)

// A request is what every message of a client has.
type request struct {
	Op subjects.DeviceOp `json:"op"`
	// ID comes back with the answer, whatever it is.
	ID json.RawMessage `json:"id"`
}

// maxRequestID is how long an id of a request may be, in bytes of JSON.
const maxRequestID = 64

// A message is what the gateway sends, besides what the operation answers.
type message struct {
	Op    subjects.DeviceOp     `json:"op,omitempty"`
	ID    json.RawMessage       `json:"id,omitempty"`
	Error *subjects.DeviceError `json:"error,omitempty"`
}

// opened and taken are messages with answers of operations.
type (
	opened struct {
		message
		subjects.DeviceOpenAnswer
	}
	taken struct {
		message
		subjects.DeviceAnswer
	}
)

// text is a frame.
func text(m any) []byte {
	payload, err := json.Marshal(m)
	if err != nil {
		panic(err) // of our own types
	}
	return ws.MustCompileFrame(ws.NewTextFrame(payload))
}

func (s *socket) refuse(r request, err error) error {
	s.gateway.metrics.count("websocket", string(known(r.Op)), err)
	_, failed := s.Write(text(message{r.Op, r.ID, subjects.DeviceErrorOf(err)}))
	return failed
}

// known keeps what clients make up out of the metrics.
func known(op subjects.DeviceOp) subjects.DeviceOp {
	if slices.Contains(subjects.DeviceOps[:], op) {
		return op
	}
	return "none"
}

// handle answers one message. The error ends the socket.
func (s *socket) handle(body []byte) error {
	var r request
	if err := subjects.DecodeDevice(body, &r); err != nil {
		return s.refuse(request{}, err)
	}
	if !repeatable(r.ID) {
		r.ID = nil
		return s.refuse(r, subjects.DeviceErrorf(subjects.DeviceInvalid, "id is neither a number nor a text of at most %d bytes", maxRequestID))
	}
	answer, err := s.perform(r, body)
	if err != nil {
		if failed := s.refuse(r, err); failed != nil || !s.expired() {
			return failed
		}
		s.end(ws.StatusPolicyViolation, "the token has expired; come again with a new one", "")
		return nil
	}
	s.gateway.metrics.count("websocket", string(r.Op), nil)
	if _, err := s.Write(text(answer)); err != nil {
		return err
	}
	if r.Op == subjects.DeviceClose {
		s.end(ws.StatusNormalClosure, "", "")
	}
	return nil
}

// repeatable says whether an id may come back.
func repeatable(id json.RawMessage) bool {
	if len(id) == 0 || string(id) == "null" {
		return true
	}
	return len(id) <= maxRequestID && (id[0] == '"' || id[0] == '-' || id[0] >= '0' && id[0] <= '9')
}

// expired says whether the token of the session is not believed any more.
func (s *socket) expired() bool { return s.session != nil && time.Now().After(s.who.Expires) }

// perform carries out an operation.
func (s *socket) perform(r request, body []byte) (any, error) {
	said := message{Op: r.Op, ID: r.ID}
	if s.expired() {
		return nil, subjects.DeviceErrorf(subjects.DeviceUnauthenticated, "the token has expired")
	}
	switch r.Op {
	case subjects.DeviceOpen:
		answer, err := s.open(body)
		return opened{said, answer}, err
	case subjects.DeviceHeartbeat:
		var beat subjects.DeviceHeartbeatRequest
		if err := s.read(body, &beat, &beat.DeviceSession); err != nil {
			return nil, err
		}
		answer, err := s.session.Heartbeat(beat)
		return taken{said, answer}, err
	case subjects.DeviceState:
		var state subjects.DeviceStateRequest
		if err := s.read(body, &state, &state.DeviceSession); err != nil {
			return nil, err
		}
		answer, err := s.session.SetState(state)
		return taken{said, answer}, err
	case subjects.DeviceClose:
		var end subjects.DeviceCloseRequest
		if err := s.read(body, &end, &end.DeviceSession); err != nil {
			return nil, err
		}
		answer, err := s.session.Close(end)
		return taken{said, answer}, err
	case "":
		return nil, subjects.DeviceErrorf(subjects.DeviceInvalid, "op is missing")
	}
	return nil, subjects.DeviceErrorf(subjects.DeviceNotFound, "there is no such operation")
}

// read decodes a request about the socket's session.
func (s *socket) read(body []byte, into any, name *subjects.DeviceSession) error {
	if err := subjects.DecodeDevice(body, into); err != nil {
		return err
	}
	if s.session == nil {
		return subjects.DeviceErrorf(subjects.DeviceUnregistered, "this socket has no session; open one")
	}
	return s.session.Named(*name)
}

func (s *socket) open(body []byte) (subjects.DeviceOpenAnswer, error) {
	var r subjects.DeviceOpenRequest
	if err := subjects.DecodeDevice(body, &r); err != nil {
		return subjects.DeviceOpenAnswer{}, err
	}
	if s.session != nil {
		return subjects.DeviceOpenAnswer{}, subjects.DeviceErrorf(subjects.DeviceInvalid, "this socket has its session")
	}
	if r.Token != "" || s.who.User == "" {
		who, err := s.gateway.identify(r.Token)
		if err != nil {
			return subjects.DeviceOpenAnswer{}, err
		}
		s.who = who
	}
	session, err := s.gateway.door.Open(door.Caller{User: s.who.User, Device: s.who.Device}, r, s)
	if err != nil {
		return subjects.DeviceOpenAnswer{}, err
	}
	s.session = session
	return session.Answer(), nil
}

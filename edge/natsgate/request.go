package natsgate

import (
	"encoding/json"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall/edge/door"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/identity"
)

// maxBody is far above what any request needs.
const maxBody = 16 << 10

// A request is one operation of a device.
type request struct {
	op     subjects.DeviceOp
	caller door.Caller
	body   []byte
	reply  string // empty if there is to be no answer
}

// mayReply says whether a device may have named the subject of the answer. The server does
// not ask whether the device may publish there, only whether the gate may: it answers to inboxes
// other than those of gates, so that nobody answers one gate through another.
func mayReply(to string) bool {
	return to == "" || strings.HasPrefix(to, nats.InboxPrefix) && !strings.HasPrefix(to, identity.Inbox(identity.Natsgate, ""))
}

// onDevice takes what NATS hands this gate of the queue group.
func (g *Gate) onDevice(m *nats.Msg) {
	if !mayReply(m.Reply) {
		g.metrics.malformed.Inc()
		return
	}
	r, err := g.read(m)
	if err != nil {
		g.refuse(r, err)
		return
	}
	holder := g.own
	if r.op != subjects.DeviceOpen {
		if holder, err = holderOf(r.body); err != nil {
			g.refuse(r, err)
			return
		}
	}
	if holder == g.own {
		g.carryOut(r)
	} else {
		g.relay(holder, r)
	}
}

// onRelayed takes a request about a session of this gate that NATS has handed another one.
func (g *Gate) onRelayed(m *nats.Msg) {
	if r, err := g.read(m); err != nil {
		g.refuse(r, err)
	} else {
		g.carryOut(r)
	}
}

// read takes from the subject who asks, which the device's credential has limited.
func (g *Gate) read(m *nats.Msg) (request, error) {
	op, user, device, err := g.names.ParseDevice(m.Subject)
	r := request{op, door.Caller{User: user, Device: device}, m.Data, m.Reply}
	switch {
	case err != nil:
		return r, subjects.DeviceErrorf(subjects.DeviceInvalid, "subject: %v", err)
	case len(m.Data) > maxBody:
		return r, subjects.DeviceErrorf(subjects.DeviceTooLarge, "the body has %d bytes, the limit is %d", len(m.Data), maxBody)
	}
	return r, nil
}

// carryOut does what is asked of a session here.
func (g *Gate) carryOut(r request) {
	answer, err := g.perform(r)
	if err != nil {
		g.refuse(r, err)
		return
	}
	g.metrics.count(r.op, "OK")
	g.answer(r.reply, answer)
}

func (g *Gate) perform(r request) (answer any, err error) {
	if closed(g.leaving) && r.op != subjects.DeviceClose {
		return nil, errLeaving
	}
	switch r.op {
	case subjects.DeviceOpen:
		return g.open(r)
	case subjects.DeviceHeartbeat:
		return perform(g, r, func(b subjects.DeviceHeartbeatRequest) subjects.DeviceSession { return b.DeviceSession }, (*door.Session).Heartbeat)
	case subjects.DeviceState:
		return perform(g, r, func(b subjects.DeviceStateRequest) subjects.DeviceSession { return b.DeviceSession }, (*door.Session).SetState)
	case subjects.DeviceClose:
		return perform(g, r, func(b subjects.DeviceCloseRequest) subjects.DeviceSession { return b.DeviceSession }, (*door.Session).Close)
	}
	return nil, subjects.DeviceErrorf(subjects.DeviceNotFound, "there is no operation %q", r.op)
}

// open begins a session. The subject has named the device, so the body need not.
func (g *Gate) open(r request) (any, error) {
	var body subjects.DeviceOpenRequest
	if err := subjects.DecodeDevice(r.body, &body); err != nil {
		return nil, err
	}
	if body.Device == "" {
		body.Device = r.caller.Device
	}
	s, err := g.door.Open(r.caller, body, nil)
	if err != nil {
		return nil, err
	}
	answer := s.Answer()
	answer.SessionID = g.own + "." + answer.SessionID
	return answer, nil
}

var (
	errLeaving      = subjects.DeviceErrorf(subjects.DeviceUnregistered, "this gate closes; open a new session, which another one takes")
	errUnregistered = subjects.DeviceErrorf(subjects.DeviceUnregistered, "there is no such session here, or not any more; open a new one")
)

// perform does an operation on the session that a body of type B names.
func perform[B any](g *Gate, r request, named func(B) subjects.DeviceSession, do func(*door.Session, B) (subjects.DeviceAnswer, error)) (any, error) {
	var body B
	if err := subjects.DecodeDevice(r.body, &body); err != nil {
		return nil, err
	}
	name := named(body)
	if err := name.Check(); err != nil {
		return nil, err
	}
	name.SessionID = strings.TrimPrefix(name.SessionID, g.own+".")
	s, err := g.door.Find(r.caller, name)
	if err != nil {
		return nil, err
	}
	return do(s, body)
}

// holderOf the session that a body names: the token of a gate.
func holderOf(body []byte) (string, error) {
	var name subjects.DeviceSession
	if err := subjects.DecodeDevice(body, &name); err != nil {
		return "", err
	}
	if err := name.Check(); err != nil {
		return "", err
	}
	holder, _, ours := strings.Cut(name.SessionID, ".")
	if _, err := subjects.ParseToken(holder); err != nil || !ours {
		return "", errUnregistered
	}
	return holder, nil
}

// refuse answers with what the protocol says for an error.
func (g *Gate) refuse(r request, err error) {
	refusal := subjects.DeviceErrorOf(err)
	g.metrics.count(r.op, string(refusal.Code))
	g.answer(r.reply, subjects.DeviceRefusal{Error: refusal})
}

func (g *Gate) answer(to string, body any) {
	data, err := json.Marshal(body)
	if err != nil {
		panic("natsgate: an answer that is no JSON: " + err.Error())
	}
	g.send(to, data)
}

// send answers. What gets lost is missed by the device, which asks again.
func (g *Gate) send(to string, data []byte) {
	if to != "" {
		g.nc.Publish(to, data)
	}
}

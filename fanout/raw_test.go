package fanout_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/rollcall-io/rollcall/fanout/internal/stage"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/subjects"
)

// A raw viewer speaks the contract by hand.
type raw struct {
	t     *testing.T
	names subjects.Names
	id    string
	nc    *nats.Conn
	sub   *nats.Subscription
}

func newRaw(s *stage.Stage, id string) *raw {
	s.T.Helper()
	nc := lab.Connect(s.T, s.Server.NewLink())
	sub, err := nc.SubscribeSync(s.Fabric.ViewEventsAll(id))
	if err != nil {
		s.T.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		s.T.Fatal(err)
	}
	return &raw{s.T, s.Fabric.Names, id, nc, sub}
}

// ask sends a request and returns the answer or the refusal.
func (r *raw) ask(op subjects.Op, body []byte) (subjects.Reply, *subjects.Error) {
	r.t.Helper()
	m, err := r.nc.Request(r.names.Request(op, r.id), body, 10*time.Second)
	if err != nil {
		r.t.Fatalf("%s: %v", op, err)
	}
	if code := m.Header.Get(micro.ErrorCodeHeader); code != "" {
		return subjects.Reply{}, &subjects.Error{Code: subjects.Code(code), Message: m.Header.Get(micro.ErrorHeader)}
	}
	reply, err := subjects.DecodeReply(m.Data)
	if err != nil {
		r.t.Fatalf("%s: %v in %s", op, err, m.Data)
	}
	return reply, nil
}

func body(targets ...string) []byte {
	b, err := json.Marshal(subjects.Request{Targets: targets})
	if err != nil {
		panic(err)
	}
	return b
}

// do is ask that must be answered.
func (r *raw) do(op subjects.Op, targets ...string) subjects.Reply {
	r.t.Helper()
	reply, refusal := r.ask(op, body(targets...))
	if refusal != nil {
		r.t.Fatalf("%s refused: %v", op, refusal)
	}
	return reply
}

// heard returns the messages that have come.
func (r *raw) heard() []subjects.Message {
	r.t.Helper()
	var all []subjects.Message
	for {
		m, err := r.sub.NextMsg(time.Millisecond)
		if err != nil {
			return all
		}
		message, err := subjects.DecodeMessage(m.Data)
		if err != nil {
			r.t.Fatalf("%v in %s", err, m.Data)
		}
		all = append(all, message)
	}
}

// views collects the views of an answer by target.
func views(reply subjects.Reply) map[string]subjects.View {
	all := make(map[string]subjects.View)
	for _, s := range reply.Shards {
		for _, v := range s.Views {
			all[v.Target] = v
		}
	}
	return all
}

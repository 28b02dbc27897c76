package e2e

import (
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/subjects"
)

// Raw speaks for a viewer by hand, and hears everything between that viewer and
// the fanout, as it is on the wire.
type Raw struct {
	f      *Fabric
	viewer string
	nc     *nats.Conn

	mu       sync.Mutex
	heard    []Heard
	requests []subjects.Op
}

// Heard is a message on a viewer's stream.
type Heard struct {
	At time.Duration
	subjects.Message
	Raw *nats.Msg
}

// Overhear listens from now on to a viewer.
func (f *Fabric) Overhear(viewer string) *Raw {
	f.T.Helper()
	r := &Raw{f: f, viewer: viewer, nc: lab.Connect(f.T, f.Server.NewLink())}
	r.subscribe(f.Names.ViewEventsAll(viewer), r.hear)
	for _, op := range subjects.Ops {
		r.subscribe(f.Names.Request(op, viewer), func(*nats.Msg) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.requests = append(r.requests, op)
		})
	}
	if err := r.nc.Flush(); err != nil {
		f.T.Fatal(err)
	}
	return r
}

func (r *Raw) subscribe(subject string, handle nats.MsgHandler) {
	r.f.T.Helper()
	if _, err := r.nc.Subscribe(subject, handle); err != nil {
		r.f.T.Fatal(err)
	}
}

func (r *Raw) hear(m *nats.Msg) {
	message, err := subjects.DecodeMessage(m.Data)
	if err != nil {
		r.f.T.Errorf("on %s: %v", m.Subject, err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heard = append(r.heard, Heard{r.f.Now(), message, m})
}

// Heard returns what was heard since the last call.
func (r *Raw) Heard() []Heard {
	r.mu.Lock()
	defer r.mu.Unlock()
	heard := r.heard
	r.heard = nil
	return heard
}

// News returns what of it held changes.
func (r *Raw) News() (news []Heard) {
	for _, h := range r.Heard() {
		if len(h.Changes) > 0 {
			news = append(news, h)
		}
	}
	return news
}

// Requests returns what was asked since the last call.
func (r *Raw) Requests() []subjects.Op {
	r.mu.Lock()
	defer r.mu.Unlock()
	requests := r.requests
	r.requests = nil
	return requests
}

// Repeat sends a message of the stream once more, as a network may.
func (r *Raw) Repeat(h Heard) {
	r.f.T.Helper()
	if err := r.nc.Publish(h.Raw.Subject, h.Raw.Data); err != nil {
		r.f.T.Fatal(err)
	}
}

// Ask sends a request and returns the answer, or the code of the refusal.
func (r *Raw) Ask(op subjects.Op, body []byte) (subjects.Reply, subjects.Code) {
	r.f.T.Helper()
	return r.AskAt(r.f.Names.Request(op, r.viewer), body)
}

// AskAt does so at any subject.
func (r *Raw) AskAt(subject string, body []byte) (subjects.Reply, subjects.Code) {
	r.f.T.Helper()
	m, err := r.nc.Request(subject, body, 10*time.Second)
	if err != nil {
		r.f.T.Fatalf("asking at %s: %v", subject, err)
	}
	if code := m.Header.Get(micro.ErrorCodeHeader); code != "" {
		return subjects.Reply{}, subjects.Code(code)
	}
	reply, err := subjects.DecodeReply(m.Data)
	if err != nil {
		r.f.T.Fatalf("answer at %s: %v", subject, err)
	}
	return reply, ""
}

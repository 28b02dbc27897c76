package viewer_test

import (
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/rollcall-io/rollcall/fanout/internal/stage"
	"github.com/rollcall-io/rollcall/fanout/viewer"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/subjects"
)

// A puppet is a fanout of which the test says how it answers subscribe.
type puppet struct {
	s      *stage.Stage
	nc     *nats.Conn
	asked  atomic.Int32
	answer atomic.Pointer[nats.Msg] // nil for none
}

func newPuppet(t *testing.T) *puppet {
	p := &puppet{s: stage.New(t, 1)}
	p.nc = lab.Connect(t, p.s.Server.NewLink())
	if _, err := p.nc.Subscribe(p.s.Fabric.Requests(subjects.OpSubscribe), func(m *nats.Msg) {
		p.asked.Add(1)
		if answer := p.answer.Load(); answer != nil {
			m.RespondMsg(&nats.Msg{Header: answer.Header, Data: answer.Data})
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := p.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *puppet) position(generation uint64) subjects.Position {
	return subjects.Position{Shard: 0, Generation: generation, Seq: 1, Targets: 1, Feed: subjects.FeedLive}
}

func (p *puppet) answers(generation uint64) {
	data, err := json.Marshal(subjects.Reply{Shards: []subjects.ShardSnapshot{{Position: p.position(generation)}}})
	if err != nil {
		p.s.T.Fatal(err)
	}
	p.answer.Store(&nats.Msg{Data: data})
}

func (p *puppet) refuses() {
	p.answer.Store(&nats.Msg{Header: nats.Header{micro.ErrorCodeHeader: {string(subjects.CodeUnavailable)}}})
}

func (p *puppet) announces(generation uint64) {
	data, err := json.Marshal(subjects.Message{Position: p.position(generation)})
	if err == nil {
		err = p.nc.Publish(p.s.Fabric.ViewEvents("alice", 0), data)
	}
	if err != nil {
		p.s.T.Fatal(err)
	}
}

// A request that nobody answers is sent again and again in the first half of its timeout; the
// first answer is that of all.
func TestAsksAgainWhileNobodyAnswers(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		p := newPuppet(t)
		w := watch(p.s, viewer.Config{Timeout: 5 * time.Second})
		began := time.Now()
		time.AfterFunc(1200*time.Millisecond, func() { p.answers(1) }) // the fourth try
		w.mustWatch("bob")
		if took, asked := time.Since(began), p.asked.Load(); took != 1500*time.Millisecond || asked != 4 {
			t.Errorf("answered after %s, asked %d times", took, asked)
		}
		p.answer.Store(nil)
		go w.Watch(t.Context(), "carol")
		time.Sleep(5 * time.Second)
		if asked := p.asked.Load(); asked != 4+5 {
			t.Errorf("asked %d times within a timeout", asked-4)
		}
	})
}

// Whose shards nobody answers for waits longer and longer, but asks at once when somebody has taken
// them over.
func TestATakeoverEndsTheWait(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		p := newPuppet(t)
		w := watch(p.s, viewer.Config{Spread: 100 * time.Millisecond})
		p.answers(1)
		w.mustWatch("bob")
		p.refuses()
		p.announces(2)
		time.Sleep(15 * time.Second)
		before := p.asked.Load()
		if before < 4 || before > 9 {
			t.Errorf("asked %d times in 15 s", before)
		}
		time.Sleep(time.Second)
		for p.asked.Load() == before { // just after one more
			time.Sleep(time.Millisecond)
		}
		p.answers(3)
		p.announces(3)
		before = p.asked.Load()
		time.Sleep(200 * time.Millisecond)
		if asked := p.asked.Load() - before; asked != 1 {
			t.Errorf("asked %d times after the takeover", asked)
		}
	})
}

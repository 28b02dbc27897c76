package fanout_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/fanout"
	"github.com/rollcall-io/rollcall/fanout/internal/stage"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// A pair is two fanouts, each of which can be asked by name.
type pair struct {
	s       *stage.Stage
	fanouts []*stage.Running
	ids     []string // among peers
	nc      *nats.Conn
}

func newPair(t *testing.T, cfg fanout.Config) *pair {
	p := &pair{s: stage.New(t, 2)}
	p.nc = lab.Connect(t, p.s.Server.NewLink())
	p.fanouts = p.s.StartSeveral(2, cfg)
	p.ids = make([]string, 2)
	states, err := p.nc.SubscribeSync(p.s.Fabric.Peers())
	if err != nil {
		t.Fatal(err)
	}
	defer states.Unsubscribe()
	for p.ids[0] == "" || p.ids[1] == "" {
		m, err := states.NextMsg(time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		var state wire.PeerState
		if err := subjects.Decode(m.Data, &state); err != nil {
			t.Fatal(err)
		}
		p.ids[state.Shards[0].Shard] = state.Id // the shard has the number of its fanout
	}
	return p
}

// ask has one of the fanouts handle a request, and says with which code and when it was answered.
func (p *pair) ask(fanout int, subject string, body []byte) (code subjects.Code, reply subjects.Reply, took time.Duration) {
	p.s.T.Helper()
	began := time.Now()
	inbox := p.nc.NewInbox()
	answer, err := p.nc.SubscribeSync(inbox)
	if err != nil {
		p.s.T.Fatal(err)
	}
	defer answer.Unsubscribe()
	relayed := &nats.Msg{Subject: p.s.Fabric.Relay(p.ids[fanout], subject), Header: nats.Header{subjects.HeaderAnswerTo: {inbox}}, Data: body}
	if err := p.nc.PublishMsg(relayed); err != nil {
		p.s.T.Fatal(err)
	}
	m, err := answer.NextMsg(10 * time.Second)
	if err != nil {
		p.s.T.Fatalf("fanout %d does not answer: %v", fanout, err)
	}
	if code = subjects.Code(m.Header.Get(micro.ErrorCodeHeader)); code == "" {
		if reply, err = subjects.DecodeReply(m.Data); err != nil {
			p.s.T.Fatal(err)
		}
	}
	return code, reply, time.Since(began)
}

// in is n ids whose shard is the given one.
func (p *pair) in(shard, n int) (ids []string) {
	for i := 0; len(ids) < n; i++ {
		if id := fmt.Sprint("u", i); p.s.Fabric.Shard(id) == shard {
			ids = append(ids, id)
		}
	}
	return ids
}

// A change of a policy is answered when viewers have been told what follows, also by a fanout
// that is far away, and whichever was asked.
func TestAPolicyIsInEffectOnAllFanoutsWhenAnswered(t *testing.T) {
	for asked := range 2 {
		t.Run(fmt.Sprint("fanout ", asked), func(t *testing.T) {
			lab.Bubble(t, func(t *testing.T) {
				p := newPair(t, fanout.Config{})
				v := newRaw(p.s, "vera")
				var targets []string
				for shard := range 2 {
					targets = append(targets, p.in(shard, 1)...)
				}
				p.s.PutAll(targets, rollcall.Active)
				time.Sleep(time.Second)
				v.do(subjects.OpSubscribe, targets...)
				p.fanouts[1-asked].Link.Delay(100 * time.Millisecond)
				change := func(op subjects.PolicyOp, user, body string, want ...string) {
					t.Helper()
					if code, _, _ := p.askPolicy(asked, op, user, body); code != "" {
						t.Fatalf("%s of %s: %s", op, user, code)
					}
					time.Sleep(time.Millisecond)
					if got := fmt.Sprint(told(v)); got != fmt.Sprint(want) {
						t.Errorf("%s of %s: told %s when it was answered, want %s", op, user, got, want)
					}
					time.Sleep(time.Second)
				}
				for _, u := range targets {
					change(subjects.PolicyBlock, u, `{"users":["vera"]}`, u+" withdrawn")
					change(subjects.PolicyUnblock, u, `{"users":["vera"]}`, u+" online")
					change(subjects.PolicySet, u, `{"everyone":"hidden"}`, u+" unknown")
					change(subjects.PolicyJoin, u, `{"groups":["chess"]}`)
				}
				change(subjects.PolicyJoin, "vera", `{"groups":["chess"]}`, targets[0]+" online", targets[1]+" online")
				change(subjects.PolicyLeave, "vera", `{"groups":["chess"]}`, targets[0]+" unknown", targets[1]+" unknown")
				change(subjects.PolicyForget, targets[1], "", targets[1]+" online")
			})
		})
	}
}

func (p *pair) askPolicy(fanout int, op subjects.PolicyOp, user, body string) (subjects.Code, subjects.Reply, time.Duration) {
	return p.ask(fanout, p.s.Fabric.Policy(op, user), []byte(body))
}

// While a fanout hangs, the other one refuses what needs it, after a moment first and then at
// once, and goes on with all else. When it has taken the shard over it answers all of it.
func TestAFanoutThatHangs(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		p := newPair(t, fanout.Config{})
		here, there := p.in(0, 2), p.in(1, 2)
		p.s.PutAll(append(here, there...), rollcall.Active)
		time.Sleep(time.Second)
		v := newRaw(p.s, "vera")
		v.do(subjects.OpSubscribe, here[0], there[0])
		subscribe := func(targets ...string) (subjects.Code, subjects.Reply, time.Duration) {
			t.Helper()
			return p.ask(0, p.s.Fabric.Request(subjects.OpSubscribe, "vera"), body(targets...))
		}
		p.fanouts[1].Link.Freeze()
		if code, reply, took := subscribe(here[1]); code != "" || len(views(reply)) != 1 || took > 2*time.Second {
			t.Errorf("answered %q and %v after %v, although only the limit concerns the other one", code, reply, took)
		}
		p.ask(0, p.s.Fabric.Request(subjects.OpUnsubscribe, "vera"), body(here[1]))
		p.fanouts[1].Link.Thaw()
		time.Sleep(10 * time.Second)
		p.fanouts[1].Link.Delay(200 * time.Millisecond)
		time.AfterFunc(300*time.Millisecond, p.fanouts[1].Link.Freeze) // amid the request: it has the question
		if code, _, took := subscribe(here[0], here[1], there[0], there[1]); code != subjects.CodeUnavailable || took > 2*time.Second {
			t.Errorf("answered %q after %v", code, took)
		}
		for range 3 {
			if code, _, took := subscribe(here[0], there[0]); code != subjects.CodeUnavailable || took > 10*time.Millisecond {
				t.Errorf("answered %q after %v, although it is known by now", code, took)
			}
			if code, reply, took := subscribe(here[0]); code != "" || len(views(reply)) != 1 || took > 10*time.Millisecond {
				t.Errorf("answered %q and %v after %v", code, reply, took)
			}
			if code, _, _ := p.askPolicy(0, subjects.PolicyBlock, here[0], `{"users":["walter"]}`); code != "" {
				t.Errorf("a policy of another shard: %s", code)
			}
			if code, _, _ := p.askPolicy(0, subjects.PolicyBlock, there[0], `{"users":["walter"]}`); code != subjects.CodeUnavailable {
				t.Errorf("a policy there: %q", code)
			}
			if code, _, _ := p.askPolicy(0, subjects.PolicyJoin, here[0], `{"groups":["chess"]}`); code != subjects.CodeUnavailable {
				t.Errorf("groups: %q", code)
			}
		}
		p.fanouts[0].Member.Take(1, true)
		time.Sleep(time.Second)
		all := append(here, there...)
		if code, reply, took := subscribe(all...); code != "" || len(views(reply)) != 4 || took > 10*time.Millisecond {
			t.Errorf("after the takeover: %q, %v, %v", code, reply, took)
		}
		v.heard()
		p.fanouts[1].Link.Delay(0)
		p.fanouts[1].Link.Thaw() // it takes itself for the owner for a moment
		p.s.PutAll(all, rollcall.Offline)
		time.Sleep(5 * time.Second)
		if code, reply, _ := p.ask(1, p.s.Fabric.Request(subjects.OpGet, "vera"), body(all...)); code != "" || len(views(reply)) != 4 {
			t.Errorf("asked of the one that hung: %q, %v", code, reply)
		}
		for _, m := range v.heard() {
			if m.Shard == 1 && m.Generation == 1 {
				t.Errorf("heard of the former owner: %+v", m)
			}
		}
		if r := v.do(subjects.OpRefresh); len(r.Shards) != 2 || r.Shards[0].Targets != 2 || r.Shards[1].Targets != 2 {
			t.Errorf("subscribed to %+v", r)
		}
	})
}

// A fanout that is killed is not asked again; one that leaves is not asked at all.
func TestAFanoutThatIsGone(t *testing.T) {
	for _, polite := range []bool{false, true} {
		t.Run(fmt.Sprint("polite ", polite), func(t *testing.T) {
			lab.Bubble(t, func(t *testing.T) {
				p := newPair(t, fanout.Config{})
				all := append(p.in(0, 5), p.in(1, 5)...)
				p.s.PutAll(all, rollcall.Active)
				time.Sleep(time.Second)
				if !polite {
					p.fanouts[1].Link.Cut()
				}
				p.fanouts[1].Crash()
				get := p.s.Fabric.Request(subjects.OpGet, "vera")
				if code, _, took := p.ask(0, get, body(all...)); code != subjects.CodeUnavailable || took > 10*time.Millisecond {
					t.Errorf("%q after %v", code, took)
				}
				p.fanouts[0].Member.Take(1, true)
				time.Sleep(time.Second)
				for _, id := range all { // whatever their home was
					v := newRaw(p.s, id)
					if got := views(v.do(subjects.OpGet, all...)); len(got) != len(all) {
						t.Errorf("%s sees %v", id, got)
					}
				}
			})
		})
	}
}

// An application that decides is asked once for a request, whoever owns the shards, and its
// changes of mind reach every fanout.
func TestSightsOverFanouts(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		asked := make(chan []string, 100)
		var sight atomic.Int32
		sight.Store(int32(rollcall.Exact))
		p := newPair(t, fanout.Config{Sights: fanout.SightsFunc(func(_ context.Context, _ string, targets []string) ([]rollcall.Granularity, error) {
			asked <- targets
			return slices.Repeat([]rollcall.Granularity{rollcall.Granularity(sight.Load())}, len(targets)), nil
		})})
		all := append(p.in(0, 2), p.in(1, 2)...)
		p.s.PutAll(all, rollcall.Active)
		time.Sleep(time.Second)
		v := newRaw(p.s, "vera")
		if got := v.do(subjects.OpSubscribe, all...); len(views(got)) != 4 {
			t.Errorf("answered %+v", got)
		}
		if got := <-asked; len(got) != 4 || len(asked) > 0 {
			t.Errorf("asked about %v, and %d times more", got, len(asked))
		}
		for i, f := range p.fanouts {
			g, status := rollcall.Hidden, "unknown"
			if i == 1 {
				g, status = rollcall.Exact, "online"
			}
			sight.Store(int32(g))
			f.SightChanged("vera", "")
			time.Sleep(time.Second)
			var want []string
			for _, id := range all {
				want = append(want, id+" "+status)
			}
			slices.Sort(want)
			if got := told(v); !slices.Equal(got, want) {
				t.Errorf("told %v after fanout %d said that the application had changed its mind, want %v", got, i, want)
			}
		}
	})
}

package fanout_test

import (
	"fmt"
	"strings"
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

// However NATS spreads the requests of a viewer, as many are answered as one fanout would.
func TestRequestRateIsPerViewerWhoeverIsAsked(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := stage.New(t, 6)
		s.StartSeveral(3, fanout.Config{})
		for _, id := range users(9) { // of different homes
			v := newRaw(s, id)
			answered := 0
			for range 150 {
				switch _, refusal := v.ask(subjects.OpRefresh, nil); {
				case refusal == nil:
					answered++
				case refusal.Code != subjects.CodeRateLimited:
					t.Fatal(refusal)
				}
			}
			if answered != fanout.DefaultRequestBurst {
				t.Errorf("%s: %d of 150 requests at once were answered", id, answered)
			}
		}
	})
}

// What viewers say at the same time does not add up to more than the limit.
func TestInterestLimitHoldsOverFanouts(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := stage.New(t, 6)
		s.StartSeveral(3, fanout.Config{})
		v := newRaw(s, "alice")
		all := users(24_000)
		answers := make([]*nats.Subscription, 6)
		for i := range answers {
			inbox := nats.NewInbox()
			answers[i], _ = v.nc.SubscribeSync(inbox)
			if err := v.nc.PublishRequest(s.Fabric.Request(subjects.OpSubscribe, v.id), inbox, body(all[i*4000:(i+1)*4000]...)); err != nil {
				t.Fatal(err)
			}
		}
		codes := map[string]int{}
		for _, a := range answers {
			m, err := a.NextMsg(10 * time.Second)
			if err != nil {
				t.Fatal(err)
			}
			codes[m.Header.Get(micro.ErrorCodeHeader)]++
		}
		if got := fmt.Sprint(codes); got != "map[:2 too_many_targets:4]" {
			t.Errorf("answered %s", got)
		}
		total := 0
		for _, p := range v.do(subjects.OpRefresh).Shards {
			total += p.Targets
		}
		if total != 8000 {
			t.Errorf("subscribed to %d", total)
		}
	})
}

// What is too large for one message is refused with the same words, and changes nothing,
// whether one fanout has all of it or several have a part.
func TestTooLargeOverFanouts(t *testing.T) {
	texts := map[int]string{}
	for _, fanouts := range []int{1, 2, 3} {
		lab.Bubble(t, func(t *testing.T) {
			s := stage.New(t, 3)
			long := make([]string, 9900)
			for i := range long {
				long[i] = fmt.Sprintf("%s%04d", strings.Repeat("\x01", 124), i) // escaped in the answer
			}
			s.PutAll(long, rollcall.Active)
			s.StartSeveral(fanouts, fanout.Config{})
			v := newRaw(s, "alice")
			for _, op := range []subjects.Op{subjects.OpSubscribe, subjects.OpGet} {
				_, refusal := v.ask(op, body(long...))
				if refusal == nil || refusal.Code != subjects.CodeTooLarge {
					t.Fatalf("%s: %v", op, refusal)
				}
				texts[fanouts] += refusal.Message + "\n"
			}
			if r := v.do(subjects.OpRefresh); len(r.Shards) != 0 {
				t.Errorf("something was registered: %+v", r)
			}
		})
	}
	if texts[1] != texts[2] || texts[1] != texts[3] {
		t.Errorf("refused by one fanout as\n%sby two as\n%sby three as\n%s", texts[1], texts[2], texts[3])
	}
}

// What has become too large since it was surveyed is taken back from all shards.
func TestTooLargeIsTakenBack(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		p := newPair(t, fanout.Config{})
		long := make([]string, 9900)
		for i := range long {
			long[i] = fmt.Sprintf("%s%04d", strings.Repeat("\x01", 124), i)
		}
		v := newRaw(p.s, "vera")
		v.do(subjects.OpSubscribe, long[:10]...)
		var halves [2][]string
		for _, id := range long {
			halves[p.s.Fabric.Shard(id)] = append(halves[p.s.Fabric.Shard(id)], id)
		}
		p.s.PutAll(halves[1], rollcall.Active)
		time.Sleep(time.Second)
		p.fanouts[1].Link.Delay(200 * time.Millisecond)
		time.AfterFunc(300*time.Millisecond, func() { p.s.PutAll(halves[0], rollcall.Active) }) // after the survey
		code, _, took := p.ask(0, p.s.Fabric.Request(subjects.OpSubscribe, "vera"), body(long...))
		if code != subjects.CodeTooLarge || took < 800*time.Millisecond {
			t.Errorf("answered %q after %v", code, took)
		}
		p.fanouts[1].Link.Delay(0)
		time.Sleep(time.Second)
		total := 0
		for _, s := range v.do(subjects.OpRefresh).Shards {
			total += s.Targets
		}
		if total != 10 {
			t.Errorf("subscribed to %d", total)
		}
	})
}

// Nobody but fanouts may speak there, but should garbage come all the same, nothing comes of it.
func TestGarbageAmongPeers(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := stage.New(t, 4)
		s.PutAll(users(8), rollcall.Active)
		s.StartSeveral(2, fanout.Config{})
		stranger := lab.Connect(t, s.Server.NewLink())
		ids := map[string]bool{}
		states, err := stranger.SubscribeSync(s.Fabric.Peers())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		for {
			m, err := states.NextMsg(time.Millisecond)
			if err != nil {
				break
			}
			var state wire.PeerState
			if err := subjects.Decode(m.Data, &state); err != nil || state.Id == "" || len(state.Shards) != 2 {
				t.Fatalf("%v: %v", err, &state)
			}
			ids[state.Id] = true
		}
		if len(ids) != 2 {
			t.Fatalf("%d fanouts speak", len(ids))
		}
		v := newRaw(s, "vera")
		want := fmt.Sprint(v.do(subjects.OpSubscribe, users(8)...))
		encoded := func(r *wire.PeerRequest) []byte {
			data, err := subjects.Encode(r)
			if err != nil {
				t.Fatal(err)
			}
			return data
		}
		bad := [][]byte{nil, {0xff}, []byte("{}"), encoded(&wire.PeerRequest{}), encoded(&wire.PeerRequest{Id: "vera"}),
			encoded(&wire.PeerRequest{Id: "vera", Kind: 99}),
			encoded(&wire.PeerRequest{Id: strings.Repeat("v", 129), Kind: wire.PeerRequest_KIND_UNSUBSCRIBE, Shares: []*wire.PeerRequest_Share{{}}}),
			encoded(&wire.PeerRequest{Id: "vera", Kind: wire.PeerRequest_KIND_UNSUBSCRIBE, Shares: []*wire.PeerRequest_Share{{Shard: 4}}}),
			encoded(&wire.PeerRequest{Id: "vera", Kind: wire.PeerRequest_KIND_SUBSCRIBE, Shares: []*wire.PeerRequest_Share{{Targets: []string{""}}}}),
			encoded(&wire.PeerRequest{Id: "vera", Kind: wire.PeerRequest_KIND_SUBSCRIBE, Asked: true, Shares: []*wire.PeerRequest_Share{{Targets: users(1)}}}),
		}
		foreign := func(shard uint32) []byte { // a target of another shard
			return encoded(&wire.PeerRequest{Id: "vera", Kind: wire.PeerRequest_KIND_SUBSCRIBE, Shares: []*wire.PeerRequest_Share{
				{Shard: (shard + 1) % 4, Targets: users(1)},
			}})
		}
		bad = append(bad, foreign(uint32(s.Fabric.Shard(users(1)[0]))))
		for id := range ids {
			for _, data := range bad {
				stranger.Publish(s.Fabric.Peer(id), data)
				stranger.PublishRequest(s.Fabric.Peer(id), s.Fabric.ViewEvents("vera", 0), data)
				stranger.Publish(s.Fabric.Relay(id, s.Fabric.Request(subjects.OpUnsubscribe, "vera"))+".x", data)
				stranger.Publish(s.Fabric.Relay(id, "presence.req.unsubscribe.a=b"), data)
			}
			for _, state := range []*wire.PeerState{{}, {Id: strings.Repeat("x", 200)}, {Id: "x", Shards: []*wire.PeerState_Owned{{Shard: 4, Generation: 1 << 60}}}} {
				data, err := subjects.Encode(state)
				if err != nil {
					t.Fatal(err)
				}
				stranger.Publish(s.Fabric.Peers(), data)
			}
		}
		stranger.Publish(s.Fabric.Peers(), []byte("\xff\xff"))
		stranger.Flush()
		time.Sleep(time.Second)
		for range 8 {
			if got := fmt.Sprint(v.do(subjects.OpSubscribe, users(8)...)); got != want {
				t.Errorf("answered %s, before %s", got, want)
			}
		}
		for _, m := range v.heard() {
			if len(m.Changes) > 0 {
				t.Errorf("heard %+v", m)
			}
		}
	})
}

package fanout

import (
	"testing"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/internal/feed"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

func FuzzRecord(f *testing.F) {
	good, _ := subjects.Encode(&wire.View{State: wire.State_STATE_ACTIVE, Activity: "x", Observed: 1, Seen: 2})
	f.Add(subjects.KeyView("bob"), good)
	f.Add(subjects.KeyView("*"), []byte{0xff})
	f.Add(subjects.KeyOwner, []byte{})
	f.Add("view.", good)
	f.Fuzz(func(t *testing.T, key string, data []byte) {
		c, ok, err := readRecord("b", feed.Msg{Subject: subjects.KVSubject("b", key), Data: data, Header: nats.Header{}})
		if !ok {
			return
		}
		if err != nil || rollcall.CheckID(c.user) != nil || subjects.KeyView(c.user) != key || c.view == nil {
			t.Fatalf("%+v, %v", c, err)
		}
		for g := rollcall.Absent; g <= rollcall.Exact; g++ {
			encoded := appendView(nil, c.user, trim(*c.view, g, 1), 1)
			if len(encoded) > maxViewBytes {
				t.Fatalf("%d bytes", len(encoded))
			}
			message := append(append([]byte(`{"feed":"live","changes":[`), encoded...), "]}"...)
			if _, err := subjects.DecodeMessage(message); err != nil {
				t.Fatalf("%v in %s", err, message)
			}
		}
	})
}

func FuzzInterestPart(f *testing.F) {
	good, _ := subjects.Encode(&wire.Interest{Targets: []string{"bob", "* >"}})
	f.Add(subjects.KeyInterest("alice", 3), good)
	f.Add("alice.-1", good)
	f.Add("alice.99999999999", []byte{0xff})
	f.Fuzz(func(t *testing.T, key string, data []byte) {
		p, err := readPart(key, data)
		if err != nil {
			return
		}
		if p.part < 0 || p.part >= maxParts || rollcall.CheckID(p.viewer) != nil || len(p.targets) > maxPart {
			t.Fatalf("%+v", p)
		}
		b := newBoard(boardConfig{defaults: Open, ttl: DefaultInterestTTL, maxPayload: 1 << 20}, begin)
		b.loaded(begin)
		b.restore(p.viewer, p.part, p.targets, begin, begin)
		b.flush(begin, batch)
	})
}

func FuzzPeers(f *testing.F) {
	for _, m := range []proto.Message{
		&wire.PeerState{Id: "a", Holder: "host/1", Shards: []*wire.PeerState_Owned{{Shard: 1, Generation: 7}}, Asks: true},
		&wire.PeerRequest{Kind: wire.PeerRequest_KIND_SUBSCRIBE, Id: "vera", Asked: true, Shares: []*wire.PeerRequest_Share{
			{Targets: []string{"bob"}, Verdicts: []wire.Granularity{wire.Granularity_GRANULARITY_EXACT}, Revision: 3, Lost: true},
		}},
		&wire.PeerReply{Parts: []*wire.PeerReply_Part{{Shard: 1, Data: []byte(`{"shard":1}`), Position: 5}}, View: &wire.View{Observed: 1}},
		&wire.PeerReply{Code: "unavailable", Text: "try again"},
	} {
		good, _ := subjects.Encode(m)
		f.Add(good)
	}
	names, err := subjects.New(subjects.DefaultPrefix, 2)
	if err != nil {
		f.Fatal(err)
	}
	fan := &Fanout{fabric: fabric.Fabric{Names: names}}
	f.Fuzz(func(t *testing.T, data []byte) {
		if p, _, err := fan.readState(data); err == nil {
			for n := range p.shards {
				if rollcall.CheckID(p.id) != nil || n < 0 || n >= names.Shards() {
					t.Fatalf("%+v", p)
				}
			}
		}
		if j, shares, err := fan.readJob(data); err == nil {
			for i, s := range shares {
				if rollcall.CheckID(j.id) != nil || s.number >= names.Shards() || i > 0 && s.number <= shares[i-1].number {
					t.Fatalf("%+v, %+v", j, shares)
				}
				for _, id := range s.targets {
					if _, said := j.said[id]; names.Shard(id) != s.number || said != (j.said != nil) {
						t.Fatalf("%+v, %+v", j, shares)
					}
				}
			}
		}
		if o, err := readOutcome(data); err == nil {
			if _, err := o.reply.end(1 << 20); err == nil && o.reply.omitted > 0 {
				t.Fatalf("%+v", o)
			}
		}
	})
}

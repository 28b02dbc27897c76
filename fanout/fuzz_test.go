package fanout

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall"
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

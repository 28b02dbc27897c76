package viewer_test

import (
	"testing"
	"time"

	"github.com/rollcall-io/rollcall/fanout/viewer"
	"github.com/rollcall-io/rollcall/subjects"
)

func FuzzReducer(f *testing.F) {
	f.Add([]byte(`{"shards":[{"shard":1,"generation":5,"seq":2,"feed":"live","targets":1,"views":[{"target":"bob","status":"online","version":7}]}]}`),
		[]byte(`{"shard":1,"generation":5,"seq":3,"feed":"stalled","reason":"x","targets":1,"changes":[{"target":"bob","status":"withdrawn","version":8}]}`), true)
	f.Add([]byte(`{"shards":[{"shard":-1}]}`), []byte(`{"seq":18446744073709551615}`), false)
	f.Fuzz(func(t *testing.T, answer, event []byte, base bool) {
		reply, err := subjects.DecodeReply(answer)
		if err != nil {
			return
		}
		message, err := subjects.DecodeMessage(event)
		if err != nil {
			return
		}
		now := time.Unix(0, 0)
		r := viewer.NewReducer()
		r.Want("bob", "carol")
		asked := viewer.Answer{Asked: []string{"bob", "carol"}, Base: map[int]bool{message.Shard: base}}
		for range 2 { // whatever comes, it may come again
			r.Message(message, now)
			r.Reply(reply, asked, now)
			r.Refreshed(reply, now)
			r.Unsubscribed(reply, now)
			r.Changes(time.Time{})
			if len(r.Changes(time.Time{})) > 0 {
				t.Fatal("changes without a cause")
			}
		}
		for _, c := range []string{"bob", "carol"} {
			if state, ok := r.State(c); ok && state.View.Target != c {
				t.Fatalf("%s is shown as %+v", c, state)
			}
		}
		r.Lost(now.Add(time.Hour))
		r.NextClaim()
	})
}

package fabric_test

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// A store that has lost messages can let an owner's record expire, although it never should: the
// shard can be taken over all the same, and whoever wrote it is fenced.
func TestAnOwnersRecordThatIsGone(t *testing.T) {
	onServer(t, func(t *testing.T, js jetstream.JetStream) {
		f := ensure(t, js, fabric.Config{Shards: 1})
		bucket := f.InterestBucket(0)
		end := func(bucket, key string) {
			t.Helper()
			m := &nats.Msg{Subject: subjects.KVSubject(bucket, key), Header: nats.Header(subjects.KVPurge())}
			if _, err := js.PublishMsg(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
		take := func(generation uint64) uint64 {
			t.Helper()
			fence, err := fabric.TakeOver(t.Context(), js, bucket, rollcall.Grant{Generation: generation}, "test")
			if err != nil {
				t.Fatal(err)
			}
			return fence
		}
		first := take(1)
		end(bucket, subjects.KeyOwner)
		if second := take(2); second <= first {
			t.Errorf("revision %d after %d", second, first)
		}
		if _, err := js.Publish(t.Context(), subjects.KVSubject(bucket, "x"), nil, fabric.Fence(bucket, first)); !fabric.Fenced(err) {
			t.Errorf("the first owner writes: %v", err)
		}

		generations := fabric.Generations{JetStream: js, Names: f.Names, Group: "keeper"}
		for generation := uint64(1); generation <= 2; generation++ {
			last, revision, err := generations.Last(t.Context(), 0, func(err error) { t.Error(err) })
			if err != nil || last.Generation != 0 {
				t.Fatalf("%v, %v", last, err)
			}
			if err := generations.Put(t.Context(), 0, &wire.OwnerRecord{Generation: generation}, revision); err != nil {
				t.Fatal(err)
			}
			end(f.CohortBucket("keeper"), subjects.KeyShard(0))
		}
	})
}

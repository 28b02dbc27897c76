package fabric_test

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/subjects"
)

// replicatedLike has a bucket take batches, as a replicated one does: a single server cannot replicate.
func replicatedLike(t *testing.T, js jetstream.JetStream, bucket string) {
	t.Helper()
	stream, err := js.Stream(t.Context(), subjects.KVStream(bucket))
	if err != nil {
		t.Fatal(err)
	}
	config := stream.CachedInfo().Config
	config.AllowAtomicPublish = true
	if _, err := js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
}

// A batch is stored whole under the fence of its owner, and not at all behind another's.
func TestBatch(t *testing.T) {
	onServer(t, func(t *testing.T, js jetstream.JetStream) {
		f := ensure(t, js, fabric.Config{Shards: 1})
		bucket := f.LeasesBucket(0)
		if batched, err := fabric.Batched(t.Context(), js, bucket); err != nil || batched {
			t.Fatalf("of one replica: %v, %v", batched, err)
		}
		replicatedLike(t, js, bucket)
		if batched, err := fabric.Batched(t.Context(), js, bucket); err != nil || !batched {
			t.Fatalf("replicated: %v, %v", batched, err)
		}
		take := func(generation uint64) uint64 {
			fence, err := fabric.TakeOver(t.Context(), js, bucket, rollcall.Grant{Generation: generation}, "test")
			if err != nil {
				t.Fatal(err)
			}
			return fence
		}
		first := take(1)
		for _, n := range []int{1, 2, fabric.MaxBatch} {
			msgs := make([]*nats.Msg, n)
			for i := range msgs {
				msgs[i] = &nats.Msg{Subject: subjects.KVSubject(bucket, fmt.Sprintf("user.u%d", i)), Data: []byte{1}}
			}
			before := lastSequence(t, js, bucket)
			last, err := fabric.Batch(t.Context(), js, bucket, first, msgs)
			if err != nil || last != before+uint64(n) || last != lastSequence(t, js, bucket) {
				t.Errorf("%d messages behind %d end at %d, %v", n, before, last, err)
			}
			if len(msgs[0].Header) != 0 {
				t.Errorf("the message was changed: %v", msgs[0].Header)
			}
		}
		take(2)
		before := lastSequence(t, js, bucket)
		for _, n := range []int{1, 3} {
			msgs := make([]*nats.Msg, n)
			for i := range msgs {
				msgs[i] = &nats.Msg{Subject: subjects.KVSubject(bucket, fmt.Sprintf("user.late%d", i))}
			}
			if _, err := fabric.Batch(t.Context(), js, bucket, first, msgs); !fabric.Fenced(err) {
				t.Errorf("%d messages of a former owner: %v", n, err)
			}
		}
		if after := lastSequence(t, js, bucket); after != before {
			t.Errorf("a former owner has written %d messages", after-before)
		}
	})
}

func TestBatchOf(t *testing.T) {
	small, large := &nats.Msg{Data: make([]byte, 10)}, &nats.Msg{Data: make([]byte, 5<<20)}
	many := make([]*nats.Msg, fabric.MaxBatch+1)
	for i := range many {
		many[i] = small
	}
	for _, tc := range []struct {
		msgs []*nats.Msg
		want int
	}{{nil, 0}, {many, fabric.MaxBatch}, {[]*nats.Msg{small, small}, 2}, {[]*nats.Msg{large, small}, 1}, {[]*nats.Msg{small, large}, 1}} {
		if got := fabric.BatchOf(tc.msgs); got != tc.want {
			t.Errorf("of %d messages %d make a batch, want %d", len(tc.msgs), got, tc.want)
		}
	}
}

func lastSequence(t *testing.T, js jetstream.JetStream, bucket string) uint64 {
	t.Helper()
	stream, err := js.Stream(t.Context(), subjects.KVStream(bucket))
	if err != nil {
		t.Fatal(err)
	}
	return stream.CachedInfo().State.LastSeq
}

package bench

import (
	"context"
	"time"

	"github.com/rollcall-io/rollcall/subjects"
)

// sequences counts what was ever written to a stage's streams.
type sequences struct{ kv, log uint64 }

func (s sequences) since(t sequences) sequences { return sequences{s.kv - t.kv, s.log - t.log} }

func (st *stage) sequences(ctx context.Context) (s sequences, err error) {
	for shard := range st.Shards() {
		for _, bucket := range []string{st.LeasesBucket(shard), st.ViewsBucket(shard), st.InterestBucket(shard)} {
			last, err := st.lastSequence(ctx, subjects.KVStream(bucket))
			if err != nil {
				return s, err
			}
			s.kv += last
		}
		last, err := st.lastSequence(ctx, st.LogStream(shard))
		if err != nil {
			return s, err
		}
		s.log += last
	}
	return s, nil
}

func (st *stage) lastSequence(ctx context.Context, name string) (uint64, error) {
	stream, err := st.js.Stream(ctx, name)
	if err != nil {
		return 0, err
	}
	return stream.CachedInfo().State.LastSeq, nil
}

// settled counts once nothing has been written to the buckets for a while: records
// follow the views.
func (st *stage) settled(ctx context.Context) (sequences, error) {
	const still = 200 * time.Millisecond
	last, err := st.sequences(ctx)
	for err == nil {
		if err = pause(ctx, still); err != nil {
			break
		}
		var now sequences
		if now, err = st.sequences(ctx); err == nil && now.kv == last.kv {
			return now, nil
		}
		last = now
	}
	return last, err
}

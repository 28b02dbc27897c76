package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall/internal/feed"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// viewsWritten is where each shard's views end now.
func (st *stage) viewsWritten() ([]uint64, error) {
	ends := make([]uint64, st.Shards())
	for shard := range ends {
		var err error
		if ends[shard], err = st.lastSequence(st.ctx, subjects.KVStream(st.ViewsBucket(shard))); err != nil {
			return nil, err
		}
	}
	return ends, nil
}

// firstView hears when the next view is written in any shard, a little before it is
// stored. This process's clock tells the time: the store's is the wall clock, which
// can be set meanwhile.
func (st *stage) firstView() (at func() time.Time, err error) {
	var mu sync.Mutex
	var first time.Time
	note := func(*nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		if first.IsZero() {
			first = time.Now()
		}
	}
	nc := st.js.Conn()
	for shard := range st.Shards() {
		sub, err := nc.Subscribe(subjects.KVSubject(st.ViewsBucket(shard), subjects.KindView+".*"), note)
		if err != nil {
			return nil, err
		}
		if err := sub.AutoUnsubscribe(1); err != nil {
			return nil, err
		}
	}
	return func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return first
	}, nc.Flush()
}

// offlineWritten is the time in which the views of all users became offline, from
// the first to the last, by the store's clock.
func (st *stage) offlineWritten(after []uint64, users int) (time.Duration, error) {
	var first, last time.Time
	found := 0
	for shard, end := range after {
		read := errors.New("all is read")
		reader := feed.New(st.js, feed.Config{Stream: subjects.KVStream(st.ViewsBucket(shard)), Start: end + 1})
		err := reader.Run(st.ctx, func(_ context.Context, b feed.Batch) error {
			for _, m := range b.Msgs {
				var v wire.View
				if err := subjects.Decode(m.Data, &v); err != nil {
					return err
				}
				if v.State != wire.State_STATE_OFFLINE {
					return fmt.Errorf("a view became %s in the storm", v.State)
				}
				found++
				if first.IsZero() || m.Time.Before(first) {
					first = m.Time
				}
				if m.Time.After(last) {
					last = m.Time
				}
			}
			if b.Pending == 0 {
				return read
			}
			return nil
		})
		if !errors.Is(err, read) {
			return 0, err
		}
	}
	if found != users {
		return 0, fmt.Errorf("%d views became offline, not %d", found, users)
	}
	return last.Sub(first), nil
}

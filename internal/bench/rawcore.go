package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// A rawCore is the baseline of what is delivered: one publisher, as many
// subscriptions and subjects as the viewers have, and messages of the same size.
type rawCore struct {
	st        *stage
	publisher *nats.Conn
	subjects  []string
	data      []byte
	received  atomic.Int64
	sent      int64
}

// coreInFlight is how far the publisher may be ahead: far enough to keep everybody
// busy, and less than the inbox holds.
const coreInFlight = inboxSize / 4

func (st *stage) newRawCore(viewers []string, size int) (*rawCore, error) {
	r := &rawCore{st: st, data: make([]byte, size)}
	subscriber, err := st.open("raw subscribers")
	if err != nil {
		return nil, err
	}
	if r.publisher, err = st.open("raw publisher"); err != nil {
		return nil, err
	}
	inbox := make(chan *nats.Msg, inboxSize)
	for _, viewer := range viewers {
		prefix := "bench-raw-core." + viewer
		if _, err := subscriber.ChanSubscribe(prefix+".>", inbox); err != nil {
			return nil, err
		}
		for shard := range st.Shards() {
			r.subjects = append(r.subjects, fmt.Sprintf("%s.%d", prefix, shard))
		}
	}
	st.running.Go(func() { r.receive(inbox) })
	return r, subscriber.Flush()
}

func (r *rawCore) receive(inbox <-chan *nats.Msg) {
	for {
		select {
		case <-r.st.ctx.Done():
			return
		case <-inbox:
			r.received.Add(1)
		}
	}
}

// A coreRound is how many messages arrived, all of those sent, and in which time.
type coreRound struct {
	messages int64
	took     time.Duration
}

func (r *rawCore) run(d time.Duration) (coreRound, error) {
	begin, first := time.Now(), r.sent
	for time.Since(begin) < d {
		if err := r.burst(); err != nil {
			return coreRound{}, err
		}
	}
	if err := r.publisher.Flush(); err != nil {
		return coreRound{}, err
	}
	err := await(r.st.ctx, "raw messages", func() bool { return r.received.Load() == r.sent })
	return coreRound{r.sent - first, time.Since(begin)}, err
}

// burst publishes some messages, once there is room for them.
func (r *rawCore) burst() error {
	const some = 256
	for range some {
		if err := r.publisher.Publish(r.subjects[r.sent%int64(len(r.subjects))], r.data); err != nil {
			return err
		}
		r.sent++
	}
	for r.sent-r.received.Load() > coreInFlight {
		if err := pause(r.st.ctx, 100*time.Microsecond); err != nil {
			return err
		}
	}
	return context.Cause(r.st.ctx)
}

package bench

import (
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"
)

// A rawStorm is the baseline of a storm: it sends the messages again, without a fanout;
// see [runner.storm] for what is compared.
type rawStorm struct {
	st        *stage
	publisher *nats.Conn
	onlookers *onlookers
	subjects  [][]string // by shard and viewer
}

// newRawStorm subscribes as many as o has.
func (st *stage) newRawStorm(o *onlookers) (*rawStorm, error) {
	r := &rawStorm{st: st, onlookers: newOnlookers(o.users, 0, o.lists), subjects: make([][]string, st.Shards())}
	subscriber, err := st.open("raw onlookers")
	if err != nil {
		return nil, err
	}
	if r.publisher, err = st.open("raw storm"); err != nil {
		return nil, err
	}
	c := &crowd{st: st, nc: subscriber, hear: r.onlookers.note, inbox: make(chan *nats.Msg, inboxSize)}
	r.onlookers.crowd = c
	for i := range o.lists {
		all := "bench-raw-storm." + viewerName(i) + ".*"
		r.onlookers.viewers[all] = i
		if _, err := subscriber.ChanSubscribe(all, c.inbox); err != nil {
			return nil, err
		}
		for shard := range r.subjects {
			r.subjects[shard] = append(r.subjects[shard], fmt.Sprintf("bench-raw-storm.%s.%d", viewerName(i), shard))
		}
	}
	st.running.Go(c.receive)
	return r, subscriber.Flush()
}

// replay sends the messages and returns how long any was due and had not arrived, and
// how long processors were busy with them. They make all targets what they say.
func (r *rawStorm) replay(arrivals []arrival, to standing, after func(arrival) time.Duration) (backlog, busy time.Duration, err error) {
	r.onlookers.assume(online + offline - to)
	fetchMemory()
	before := processorTime()
	backlog, err = r.send(arrivals, after)
	return backlog, processorTime() - before, err
}

// send sends the messages again, each so long after the first as it is due, and returns
// for how long any was due and had not arrived.
func (r *rawStorm) send(arrivals []arrival, after func(arrival) time.Duration) (time.Duration, error) {
	o := r.onlookers
	want := o.messages.Load() + int64(len(arrivals))
	o.record(true) // as it was when the fanout sent them
	begin := time.Since(o.begin)
	var group errgroup.Group
	for shard, subjects := range r.subjects {
		group.Go(func() error {
			for _, a := range arrivals {
				if a.shard != shard {
					continue
				}
				if early := begin + after(a) - time.Since(o.begin); early > 0 {
					time.Sleep(early)
				}
				if err := r.publisher.Publish(subjects[a.viewer], a.data); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return 0, err
	}
	if err := await(r.st.ctx, "raw storm", func() bool { return o.messages.Load() >= want }); err != nil {
		return 0, err
	}
	if err := o.sound(); err != nil {
		return 0, err
	}
	return backlog(o.recorded(), func(a arrival) time.Duration { return begin + after(a) }), nil
}

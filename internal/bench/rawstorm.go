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
	data      []byte     // messages are its beginnings
}

// newRawStorm subscribes as many as o has. Messages begin as the sample does, so that
// they are read like those that they are compared with.
func (st *stage) newRawStorm(o *onlookers, sample []byte) (*rawStorm, error) {
	r := &rawStorm{st: st, onlookers: newOnlookers(o.users, 0, o.lists), subjects: make([][]string, st.Shards())}
	for len(r.data) < 2*len(sample) { // other rounds may have longer ones
		r.data = append(r.data, sample...)
	}
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

// replays sends the messages several times: once takes so little that it says little.
func (r *rawStorm) replays(arrivals []arrival) (rate Rate, err error) {
	const times = 5
	for range times {
		took, err := r.send(arrivals)
		if err != nil {
			return rate, err
		}
		rate.add(int64(len(arrivals)), took)
	}
	return rate, nil
}

// send sends the messages again and returns how long it took until the last had
// arrived.
func (r *rawStorm) send(arrivals []arrival) (time.Duration, error) {
	o := r.onlookers
	want := o.messages.Load() + int64(len(arrivals))
	o.record()
	begin := time.Since(o.begin)
	var group errgroup.Group
	for shard, subjects := range r.subjects {
		group.Go(func() error {
			for _, a := range arrivals {
				if a.shard != shard {
					continue
				}
				if a.bytes > len(r.data) {
					return fmt.Errorf("a message of %d bytes is too long to be sent again", a.bytes)
				}
				if err := r.publisher.Publish(subjects[a.viewer], r.data[:a.bytes]); err != nil {
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
	again, _ := o.recorded()
	return again[len(again)-1].at - begin, nil
}

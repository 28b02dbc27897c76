package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"golang.org/x/sync/errgroup"

	"github.com/rollcall-io/rollcall/subjects"
)

// A crowd is many raw subscribers on one connection: what they receive is counted,
// not decoded, so that the fanout is measured and not a JSON decoder.
type crowd struct {
	st      *stage
	nc      *nats.Conn
	names   []string
	targets int // of each
	inbox   chan *nats.Msg
	hear    func(*nats.Msg)                        // called by one goroutine
	met     func(viewer int, reply subjects.Reply) // of the answer to its subscribing; may be nil

	changes, messages, bytes atomic.Int64
	// lastTold counts, by viewer, the targets of which the closing label has come.
	// The receiving goroutine alone touches it; complete is how many have all.
	lastTold map[string]int
	label    atomic.Pointer[[]byte]
	complete atomic.Int64
	excess   atomic.Int64
}

// inboxSize is more than can be under way; a full inbox is an error of the
// connection, which fails the measure.
const inboxSize = 1 << 17

// crowdOf subscribes viewers, each to as many targets of the pool as are wanted, and
// waits until the fanout has stored that.
func (st *stage) crowdOf(viewers, targets int, pool []string) (*crowd, error) {
	c := &crowd{st: st, targets: targets}
	c.hear = c.tally
	c.label.Store(new([]byte))
	lists := make([][]string, viewers)
	for i := range lists {
		lists[i] = slicePool(pool, i*7, targets)
	}
	return c, c.assemble(lists)
}

// assemble subscribes a viewer for each list.
func (c *crowd) assemble(lists [][]string) (err error) {
	if c.nc, err = c.st.open("crowd"); err != nil {
		return err
	}
	c.inbox, c.names = make(chan *nats.Msg, inboxSize), make([]string, len(lists))
	c.st.running.Go(c.receive)
	var group errgroup.Group
	group.SetLimit(32) // the fanout refuses more requests than its desks hold
	for i, targets := range lists {
		c.names[i] = viewerName(i)
		group.Go(func() error {
			reply, err := c.subscribe(c.names[i], targets)
			if err == nil && c.met != nil {
				c.met(i, reply)
			}
			return err
		})
	}
	return group.Wait()
}

func viewerName(i int) string { return fmt.Sprintf("viewer-%06d", i) }

// slicePool takes n names of a ring.
func slicePool(pool []string, from, n int) []string {
	taken := make([]string, n)
	for i := range taken {
		taken[i] = pool[(from+i)%len(pool)]
	}
	return taken
}

func (c *crowd) subscribe(viewer string, targets []string) (subjects.Reply, error) {
	if _, err := c.nc.ChanSubscribe(c.st.ViewEventsAll(viewer), c.inbox); err != nil {
		return subjects.Reply{}, err
	}
	body, err := json.Marshal(subjects.Request{Targets: targets})
	if err != nil {
		return subjects.Reply{}, err
	}
	ctx, cancel := context.WithTimeout(c.st.ctx, patience)
	defer cancel()
	m, err := c.nc.RequestWithContext(ctx, c.st.Request(subjects.OpSubscribe, viewer), body)
	if err != nil {
		return subjects.Reply{}, fmt.Errorf("subscribing %s: %w", viewer, err)
	}
	if code := m.Header.Get(micro.ErrorCodeHeader); code != "" {
		return subjects.Reply{}, fmt.Errorf("subscribing %s: %s %s", viewer, code, m.Header.Get(micro.ErrorHeader))
	}
	return subjects.DecodeReply(m.Data)
}

// receive listens until the stage ends.
func (c *crowd) receive() {
	for {
		select {
		case <-c.st.ctx.Done():
			return
		case m := <-c.inbox:
			c.hear(m)
		}
	}
}

// entry begins a change; a position has "targets".
var entry = []byte(`"target":`)

// tally counts what a message holds.
func (c *crowd) tally(m *nats.Msg) {
	n := bytes.Count(m.Data, entry)
	if n == 0 {
		return // a position only
	}
	c.changes.Add(int64(n))
	c.messages.Add(1)
	c.bytes.Add(int64(len(m.Data)))
	c.check(m)
}

// check notes who has been told the closing label of how many targets.
func (c *crowd) check(m *nats.Msg) {
	label := *c.label.Load()
	if len(label) == 0 {
		return
	}
	n := bytes.Count(m.Data, label)
	if n == 0 {
		return
	}
	viewer := m.Sub.Subject // each has a subscription of its own
	c.lastTold[viewer] += n
	switch told := c.lastTold[viewer]; {
	case told == c.targets:
		c.complete.Add(1)
	case told > c.targets:
		c.excess.Add(1)
	}
}

// expect prepares for the closing label, which every target shows last.
func (c *crowd) expect(activity string) {
	c.lastTold = make(map[string]int, len(c.names))
	c.complete.Store(0)
	label := []byte(fmt.Sprintf(`"activity":%q`, activity))
	c.label.Store(&label)
}

// verify waits until every viewer was told the closing label of each of its targets,
// once.
func (c *crowd) verify() error {
	err := await(c.st.ctx, "the last states", func() bool { return c.complete.Load() == int64(len(c.names)) })
	if err != nil && c.st.ctx.Err() == nil {
		err = fmt.Errorf("%d of %d viewers have the last state of every target: %w", c.complete.Load(), len(c.names), err)
	}
	if n := c.excess.Load(); n > 0 && err == nil {
		err = fmt.Errorf("%d last states were told twice", n)
	}
	return errors.Join(err, c.st.sound())
}

// count is what has come so far.
type count struct{ changes, messages, bytes int64 }

func (c *crowd) count() count {
	return count{c.changes.Load(), c.messages.Load(), c.bytes.Load()}
}

func (a count) since(b count) count {
	return count{a.changes - b.changes, a.messages - b.messages, a.bytes - b.bytes}
}

// during counts what comes in a time.
func (c *crowd) during(d time.Duration) (count, time.Duration, error) {
	before, begin := c.count(), time.Now()
	err := pause(c.st.ctx, d)
	return c.count().since(before), time.Since(begin), err
}

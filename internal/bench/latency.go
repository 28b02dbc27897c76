package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall/fanout/viewer"
)

// latency measures single opens on a quiet fabric, each watched by a viewer of its
// own, so that the fanout's window, which begins with a viewer's first event,
// delays none of them.
func (r *runner) latency(ctx context.Context) error {
	st, err := r.raise(ctx, "bench_latency", cast{params: patientParams(), edges: 1})
	if err != nil {
		return err
	}
	defer st.strike()
	n := r.samples()
	r.say("latency: %d single opens, a viewer for each", n)
	visible, err := st.openOneByOne(n + warmOpens)
	if err != nil {
		return err
	}
	r.say("latency: %d raw round trips", n)
	ack, err := r.ackTimes(st.ctx, n)
	if err != nil {
		return err
	}
	request, err := r.requestTimes(st.ctx, n)
	if err != nil {
		return err
	}
	r.figures.Latency = &Latency{
		Visible: spreadOf(visible[warmOpens:]), JetStream: spreadOf(ack[warmOpens:]), Core: spreadOf(request[warmOpens:]),
	}
	return r.sound()
}

// warmOpens are made first and not counted.
const warmOpens = 10

// samples is a few hundred by default; a smoke test takes fewer.
func (r *runner) samples() int { return min(max(int(r.Duration.Seconds()*30), 10), 1000) }

// breathe keeps single operations apart and out of step with any timer, and lets
// the cores go idle, which is what an operation on a quiet system meets. Without it
// a raw round trip would look several times faster than it is when it comes alone.
func breathe(ctx context.Context) error {
	return pause(ctx, 2*time.Millisecond+rand.N(8*time.Millisecond))
}

func (st *stage) openOneByOne(n int) ([]time.Duration, error) {
	nc, err := st.open("viewers")
	if err != nil {
		return nil, err
	}
	lists := make([][]string, n)
	for i := range lists {
		lists[i] = []string{fmt.Sprintf("single-%04d", i)}
	}
	clients, err := st.watchers(nc, lists)
	if err != nil {
		return nil, err
	}
	times := make([]time.Duration, n)
	for i, client := range clients {
		if times[i], err = st.timeOpen(client, lists[i][0]); err != nil {
			return nil, err
		}
		if err := breathe(st.ctx); err != nil {
			return nil, err
		}
	}
	return times, nil
}

// watchers starts a client for each list; they end with the stage.
func (st *stage) watchers(nc *nats.Conn, lists [][]string) ([]*viewer.Client, error) {
	clients := make([]*viewer.Client, len(lists))
	for i, targets := range lists {
		client, err := viewer.New(nc, viewer.Config{Viewer: "of-" + targets[0], Prefix: st.Prefix(), Logger: st.log})
		if err != nil {
			return nil, err
		}
		st.start("viewer", client.Run)
		if err := client.Watch(st.ctx, targets...); err != nil {
			return nil, err
		}
		clients[i] = client
	}
	return clients, nil
}

func (st *stage) timeOpen(client *viewer.Client, user string) (time.Duration, error) {
	late := time.NewTimer(patience)
	defer late.Stop()
	begin := time.Now()
	if _, err := st.edges[0].Connect(user, "phone", inUse()); err != nil {
		return 0, err
	}
	for {
		select {
		case <-st.ctx.Done():
			return 0, context.Cause(st.ctx)
		case <-late.C:
			return 0, fmt.Errorf("%s is not visible to its viewer after %s", user, patience)
		case c := <-client.Changes():
			if c.Target == user && c.Known() {
				return time.Since(begin), nil
			}
		}
	}
}

func (r *runner) ackTimes(ctx context.Context, n int) ([]time.Duration, error) {
	raw, err := r.newRawStream(ctx, "bench-raw-latency")
	if err != nil {
		return nil, err
	}
	defer raw.close()
	return raw.roundTrips(ctx, n+warmOpens)
}

// requestTimes measures requests that another connection answers at once.
func (r *runner) requestTimes(ctx context.Context, n int) ([]time.Duration, error) {
	const subject = "bench-raw-request"
	server, err := r.connect("raw responder")
	if err != nil {
		return nil, err
	}
	defer server.Close()
	if _, err := server.Subscribe(subject, func(m *nats.Msg) { m.Respond(m.Data) }); err != nil {
		return nil, err
	}
	if err := server.Flush(); err != nil {
		return nil, err
	}
	client, err := r.connect("raw requester")
	if err != nil {
		return nil, err
	}
	defer client.Close()
	times := make([]time.Duration, n+warmOpens)
	for i := range times {
		begin := time.Now()
		if _, err := client.RequestWithContext(ctx, subject, make([]byte, writeBytes)); err != nil {
			return nil, err
		}
		times[i] = time.Since(begin)
		if err := breathe(ctx); err != nil {
			return nil, err
		}
	}
	return times, nil
}

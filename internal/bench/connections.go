package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/edge"
	"github.com/rollcall-io/rollcall/subjects"
)

const (
	// edgeSize is how many connections an edge holds where they are spread.
	edgeSize = 50_000
	// periods is how many renewals of each lease are counted.
	periods = 3
	// growthPatience is how long a million users may take to come online on a busy machine.
	growthPatience = 20 * time.Minute
)

// growthParams renew six times as often as the default. Each connection beats twice meanwhile, as by
// default; none is timed out.
func growthParams() rollcall.Params {
	p := rollcall.Default()
	p.Heartbeat, p.IdleTimeout, p.Renewal = 5*time.Second, time.Hour, 10*time.Second
	return p
}

// growConnections counts what renewals take from a thousand connections on, ten times as many at a
// time, on one edge and spread over several.
func (r *runner) growConnections(ctx context.Context) error {
	idle, err := r.connectionsCost(ctx, 0, 1)
	if err != nil {
		return err
	}
	g := r.figures.Growth
	g.Idle = idle.Busy
	for n := r.GrowFrom; n <= r.GrowTo; n *= 10 {
		spread := (n + edgeSize - 1) / edgeSize
		for _, edges := range slices.Compact([]int{spread, 1}) {
			cost, err := r.connectionsCost(ctx, n, edges)
			if err != nil {
				return fmt.Errorf("%d connections on %d edges: %w", n, edges, err)
			}
			r.say("growth: %d KV writes, %v µs each", cost.KVWrites, cost.AboveIdle)
			g.Connections = append(g.Connections, cost)
		}
	}
	return r.sound()
}

func (r *runner) connectionsCost(ctx context.Context, n, edges int) (ConnectionsCost, error) {
	cost := ConnectionsCost{Connections: n, Edges: edges}
	r.say("growth: %d connections on %d edges", n, edges)
	st, err := r.raise(ctx, fmt.Sprintf("bench_grow_%d_%d", n, edges), cast{params: r.growthParams, edges: edges})
	if err != nil {
		return cost, err
	}
	defer st.strike()
	conns, err := st.connectSpread(n)
	if err != nil {
		return cost, err
	}
	var beating sync.WaitGroup
	ctx, stop := context.WithCancel(st.ctx)
	defer beating.Wait()
	defer stop()
	beating.Go(func() { (&beater{conns: conns, every: st.Params.Heartbeat * 95 / 100}).run(ctx) })
	err = r.countCost(st, &cost)
	return cost, err
}

// connectSpread connects users to all edges alike, and waits until all are online.
func (st *stage) connectSpread(n int) ([]*edge.Conn, error) {
	conns := make([]*edge.Conn, n)
	for i := range conns {
		var err error
		if conns[i], err = st.edges[i%len(st.edges)].Connect(userName(i), "phone", inUse()); err != nil {
			return nil, err
		}
	}
	return conns, awaitWithin(st.ctx, growthPatience, "all users online", func() bool { return st.keeper.Stats().Online == n })
}

// countCost counts for some renewal periods.
func (r *runner) countCost(st *stage, cost *ConnectionsCost) error {
	if err := st.onlyRenews(); err != nil {
		return err
	}
	written, err := st.tally()
	if err != nil {
		return err
	}
	before, busy, begin := st.keeper.Stats(), processorTime(), time.Now()
	if err := pause(st.ctx, periods*st.Params.Renewal); err != nil {
		return err
	}
	used, took, after := processorTime()-busy, time.Since(begin), st.keeper.Stats()
	if after.Mismatches+after.LeaseExpiries > 0 {
		return fmt.Errorf("not a quiet fabric: %d leases expired, %d digests differed", after.LeaseExpiries, after.Mismatches)
	}
	if cost.Connections == 0 {
		cost.Busy = round(used.Seconds()*1000/took.Seconds(), 3)
		return nil
	}
	idle := time.Duration(r.figures.Growth.Idle * took.Seconds() * float64(time.Millisecond))
	cost.Renewed = after.RenewedConnections - before.RenewedConnections
	cost.PerRenewal = round(float64(written.kv.messages.Load())/float64(max(after.Renewals-before.Renewals, 1)), 3)
	cost.share(written, used, idle)
	return nil
}

// onlyRenews waits until everybody has renewed once and nothing else is written any more.
func (st *stage) onlyRenews() error {
	if _, err := st.settled(st.ctx); err != nil { // users are online before their records are written
		return err
	}
	stats := st.keeper.Stats()
	all := stats.Renewals + uint64(stats.Leases)
	return await(st.ctx, "a renewal of every lease", func() bool { return st.keeper.Stats().Renewals >= all })
}

// share tells what of it is one renewed connection's.
func (c *ConnectionsCost) share(written *tally, used, idle time.Duration) {
	of := func(total float64, digits int) float64 { return round(total/float64(max(c.Renewed, 1)), digits) }
	c.KVWrites = written.kv.messages.Load()
	c.PerThousand = of(float64(c.KVWrites)*1000, 4)
	c.KVBytes = of(float64(written.kv.bytes.Load()), 4)
	c.LogBytes = of(float64(written.log.bytes.Load()), 4)
	c.BeatBytes = of(float64(written.beats.bytes.Load()), 2)
	c.Busy, c.AboveIdle = of(microseconds(used), 3), of(microseconds(used-idle), 3)
}

// A tally counts what is written from now on, as it passes on its way to the store.
type tally struct{ kv, log, beats counted }

type counted struct{ messages, bytes atomic.Uint64 }

func (c *counted) take(m *nats.Msg) {
	c.messages.Add(1)
	c.bytes.Add(uint64(m.Size()))
}

func (st *stage) tally() (*tally, error) {
	t := new(tally)
	nc, err := st.open("tally")
	if err != nil {
		return nil, err
	}
	for shard := range st.Shards() {
		for subject, count := range map[string]*counted{
			subjects.KVSubject(st.LeasesBucket(shard), ">"): &t.kv, subjects.KVSubject(st.ViewsBucket(shard), ">"): &t.kv,
			st.LogSubjects(shard): &t.log, st.BeatsSubjects(shard): &t.beats,
		} {
			if _, err := nc.Subscribe(subject, count.take); err != nil {
				return nil, err
			}
		}
	}
	return t, nc.Flush()
}

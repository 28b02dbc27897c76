package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/rollcall-io/rollcall/edge"
)

const (
	// beatTarget is ten million connections at a heartbeat every 30 s.
	beatTarget = 10_000_000.0 / 30
	// beatPasses of a round make it long enough to be measured. Nobody collects so
	// many heartbeats, so most overwrite one, which costs an atomic addition more.
	beatPasses = 50
)

// heartbeats measures how many one core takes, over many connections of one edge. No
// keeper runs: it would be busy with the opens.
func (r *runner) heartbeats(ctx context.Context) error {
	n := r.Connections * BeatFactor
	st, err := r.raise(ctx, "bench_beats", cast{params: patientParams(), silent: true, edges: 1})
	if err != nil {
		return err
	}
	defer st.strike()
	r.say("heartbeats: connecting %d", n)
	conns, err := st.connectMany(n)
	if err != nil {
		return err
	}
	// Devices do not beat in the order in which they connected, which the cores' caches
	// would like.
	rand.Shuffle(len(conns), func(i, j int) { conns[i], conns[j] = conns[j], conns[i] })
	runtime.GC() // what connecting has left behind is not the heartbeats' to clear away
	var figures Heartbeats
	seq := uint32(0)
	if err := beatAll(conns, &seq); err != nil {
		return err
	}
	r.say("heartbeats: %d rounds of %d", rounds, beatPasses*n)
	for range rounds {
		begin := time.Now()
		for range beatPasses {
			if err := beatAll(conns, &seq); err != nil {
				return err
			}
		}
		figures.PerSecond.add(int64(beatPasses*n), time.Since(begin))
		if err := pause(st.ctx, 0); err != nil {
			return err
		}
	}
	figures.Nanoseconds = round(1e9/figures.PerSecond.Median, 1)
	figures.Target = round(beatTarget, 0)
	r.figures.Heartbeats = &figures
	if held := st.edges[0].Stats().Connections; held != int64(n) {
		return fmt.Errorf("the edge holds %d connections, not %d", held, n)
	}
	return r.sound()
}

// connectMany connects to the first edge and waits until the log has it all.
func (st *stage) connectMany(n int) ([]*edge.Conn, error) {
	conns := make([]*edge.Conn, n)
	for i := range conns {
		var err error
		if conns[i], err = st.edges[0].Connect(fmt.Sprintf("user-%07d", i), "phone", inUse()); err != nil {
			return nil, err
		}
	}
	return conns, await(st.ctx, "the opens in the log", func() bool { return st.edges[0].Stats().Pending == 0 })
}

// beatAll sends one heartbeat of each connection.
func beatAll(conns []*edge.Conn, seq *uint32) error {
	*seq++
	refused := 0
	for _, conn := range conns {
		if !conn.Beat(*seq) {
			refused++
		}
	}
	if refused > 0 {
		return fmt.Errorf("%d of %d heartbeats were refused", refused, len(conns))
	}
	return nil
}

package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rollcall-io/rollcall/edge"
	"github.com/rollcall-io/rollcall/subjects"
)

// renewals counts what the buckets and the raw history take while connections of
// one edge do nothing but beat.
func (r *runner) renewals(ctx context.Context) error {
	st, err := r.raise(ctx, "bench_renewals", cast{params: r.Renewals, edges: 1})
	if err != nil {
		return err
	}
	defer st.strike()
	r.say("renewals: connecting %d", r.Connections)
	conns, err := st.connectMany(r.Connections)
	if err != nil {
		return err
	}
	var beating sync.WaitGroup
	ctx, stop := context.WithCancel(st.ctx)
	defer beating.Wait()
	defer stop()
	beats := &beater{conns: conns, every: st.Params.Heartbeat * 95 / 100}
	beating.Go(func() { beats.run(ctx) })
	online := func() bool { return st.keeper.Stats().Online == r.Connections }
	if err := await(st.ctx, "all users online", online); err != nil {
		return err
	}
	figures, err := r.countRenewals(st)
	if err != nil {
		return err
	}
	stop()
	beating.Wait()
	if err := st.weighBeats(beats.accepted, figures); err != nil {
		return err
	}
	figures.BeatsInterval = beats.every.Seconds()
	r.figures.Renewals = figures
	return r.sound()
}

// countRenewals counts writes between two instants at which all that was renewed
// is written.
func (r *runner) countRenewals(st *stage) (*Renewals, error) {
	r.say("renewals: counting for %s", r.Duration)
	before, err := st.renewedAndWritten()
	if err != nil {
		return nil, err
	}
	if err := pause(st.ctx, r.Duration); err != nil {
		return nil, err
	}
	after, err := st.renewedAndWritten()
	if err != nil {
		return nil, err
	}
	stats := st.keeper.Stats()
	if timeouts := st.edges[0].Stats().Timeouts; timeouts+stats.LeaseExpiries+stats.Mismatches > 0 {
		return nil, fmt.Errorf("not a quiet fabric: %d connections timed out, %d leases expired, %d digests differed; the machine is too busy",
			timeouts, stats.LeaseExpiries, stats.Mismatches)
	}
	f := &Renewals{Renewed: after.connections - before.connections, KVWrites: after.kv - before.kv}
	f.PerThousand = round(float64(f.KVWrites)/float64(f.Renewed)*1000, 3)
	return f, nil
}

type renewed struct{ connections, kv uint64 }

// renewedAndWritten waits for the next renewal of every shard, and for its writes.
func (st *stage) renewedAndWritten() (renewed, error) {
	next := st.keeper.Stats().Renewals + uint64(st.Shards())
	err := await(st.ctx, "a renewal", func() bool { return st.keeper.Stats().Renewals >= next })
	if err != nil {
		return renewed{}, err
	}
	for {
		connections := st.keeper.Stats().RenewedConnections
		written, err := st.settled(st.ctx)
		if err != nil {
			return renewed{}, err
		}
		if st.keeper.Stats().RenewedConnections == connections {
			return renewed{connections, written.kv}, nil
		}
	}
}

// A beater beats for connections, spread evenly over the interval as devices that
// know nothing of each other are.
type beater struct {
	conns    []*edge.Conn
	every    time.Duration
	accepted uint64
}

func (b *beater) run(ctx context.Context) {
	const step = 10 * time.Millisecond
	ticks := time.NewTicker(step)
	defer ticks.Stop()
	begin, sent := time.Now(), 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		due := int(float64(time.Since(begin)) / float64(b.every) * float64(len(b.conns)))
		for ; sent < due; sent++ {
			if b.conns[sent%len(b.conns)].Beat(uint32(sent/len(b.conns)) + 1) {
				b.accepted++
			}
		}
	}
}

// weighBeats lets the edge leave, which stores the last heartbeats, and finds all of
// them in the raw history, but for those that the edge has counted as dropped.
func (st *stage) weighBeats(accepted uint64, f *Renewals) error {
	ctx, cancel := context.WithTimeout(st.ctx, patience)
	defer cancel()
	if err := st.edges[0].Drain(ctx); err != nil {
		return err
	}
	var bytes uint64
	for shard := range st.Shards() {
		beats, size, err := st.readBeats(ctx, shard)
		if err != nil {
			return err
		}
		f.Beats, bytes = f.Beats+beats, bytes+size
	}
	f.BeatsDropped = st.edges[0].Stats().BeatsDropped
	if f.Beats+f.BeatsDropped != accepted {
		return fmt.Errorf("the raw history holds %d heartbeats and %d are counted as dropped, but %d were taken",
			f.Beats, f.BeatsDropped, accepted)
	}
	if f.Beats == 0 {
		return errors.New("no heartbeat was sent; the duration is too short")
	}
	f.BytesPerBeat = round(float64(bytes)/float64(f.Beats), 2)
	return nil
}

// readBeats counts the heartbeats in a shard's history and the bytes that it takes
// in the store, with all overhead.
func (st *stage) readBeats(ctx context.Context, shard int) (beats, bytes uint64, err error) {
	stream, err := st.js.Stream(ctx, st.BeatsStream(shard))
	if err != nil {
		return 0, 0, err
	}
	state := stream.CachedInfo().State
	for seq := state.FirstSeq; seq <= state.LastSeq; seq++ {
		m, err := stream.GetMsg(ctx, seq)
		if err != nil {
			return 0, 0, err
		}
		_, some, err := subjects.DecodeBeats(m.Data)
		if err != nil {
			return 0, 0, err
		}
		beats += uint64(len(some))
	}
	return beats, state.Bytes, nil
}

package keeper

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/internal/feed"
	"github.com/rollcall-io/rollcall/keeper/machine"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// A shard runs one state machine under one grant: read, apply, write, repeat.
type shard struct {
	keeper *Keeper
	fabric fabric.Fabric
	grant  rollcall.Grant
	log    *slog.Logger
	writer *writer
	traces *traces
	ticker *ticker

	mu       sync.Mutex // held while the machine changes
	machine  *machine.Machine
	caughtUp atomic.Bool
	behind   atomic.Uint64 // messages of the log that wait
	written  atomic.Int64  // store time of the last message that is dealt with, Unix nanoseconds; 0 before the first

	bias       bias
	known      uint64      // the last sequence in the records that were loaded
	from       feed.Config // where to read on
	checkpoint time.Time   // when the last one was written
	pulsed     time.Time   // when the last pulse was sent
}

func newShard(k *Keeper, f fabric.Fabric, g rollcall.Grant) *shard {
	s := &shard{
		keeper: k, fabric: f, grant: g,
		log:     k.cfg.Logger.With("shard", g.Shard, "generation", g.Generation),
		machine: machine.New(f.Params, g.Shard),
		traces:  newTraces(k.cfg.Tracer, f.Params, g.Shard),
	}
	refusals := func(what string) *fabric.Refusals {
		return &fabric.Refusals{Log: s.log, What: what, Total: &k.refused}
	}
	s.writer = &writer{js: k.js, names: f.Names, shard: g.Shard, params: f.Params, refusals: refusals("records"), header: s.traces.header}
	s.ticker = newTicker(k.js, f, g, refusals("ticks"))
	return s
}

// run takes the shard over and keeps it until ctx ends or the ownership is lost.
func (s *shard) run(ctx context.Context) error {
	if err := s.writer.takeOver(ctx, s.grant, s.keeper.cfg.Holder); err != nil {
		return err
	}
	records, err := readRecords(ctx, s.writer, s.log)
	if err != nil {
		return err
	}
	if err := s.load(ctx, records); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var ticking sync.WaitGroup
	ticking.Go(func() { s.ticker.run(ctx) })
	defer ticking.Wait()
	defer cancel()
	return s.follow(ctx)
}

func (s *shard) load(ctx context.Context, records machine.Records) error {
	end, err := logEnd(ctx, s.keeper.js, s.fabric.LogStream(s.grant.Shard))
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.machine = machine.Load(s.fabric.Params, s.grant.Shard, records)
	checkpoint := records.Checkpoint
	s.bias = bias(checkpoint.GetBias())
	s.from = feed.Config{Stream: s.fabric.LogStream(s.grant.Shard), Start: s.bias.shrink(checkpoint.GetSequence()) + 1}
	if checkpoint.GetTime() != 0 {
		s.from.Previous = time.Unix(0, checkpoint.Time)
	}
	s.log.Info("shard loaded", "users", len(records.Users), "edges", len(records.Edges), "checkpoint", checkpoint.GetSequence())
	if s.known = records.LastSequence(); s.bias.grow(end) < s.known {
		s.rollBackLocked(end)
	}
	return nil
}

// rollBackLocked goes on after a loss: the log ends at end although more was applied,
// here or by whoever wrote the records. Whatever stood between is in the edges'
// rosters.
func (s *shard) rollBackLocked(end uint64) {
	known := max(s.known, s.machine.Sequence())
	s.log.Warn("the log has lost its tail, asking all edges for their rosters", "end", end, "known", known)
	s.bias = s.bias.lifted(end, known)
	s.from = feed.Config{Stream: s.from.Stream, Start: end + 1}
	s.machine.ResyncAll()
	s.checkpoint = time.Time{} // a new one soon: the old one has the old bias
}

// follow reads the log until ctx ends or a write fails for good.
func (s *shard) follow(ctx context.Context) error {
	for {
		reader := feed.New(s.keeper.js, s.from)
		s.ticker.watch(reader)
		err := reader.Run(ctx, s.handle)
		var lost *feed.RollbackError
		if !errors.As(err, &lost) {
			return err
		}
		s.mu.Lock()
		s.rollBackLocked(lost.Last)
		s.mu.Unlock()
	}
}

// handle applies a batch and writes what follows from it. It returns only when
// everything is written, so that nothing is applied ahead of a store that is away.
func (s *shard) handle(ctx context.Context, batch feed.Batch) error {
	changes, ticked := s.apply(batch)
	written := s.traces.write(changes.Views)
	if err := s.writer.write(ctx, changes); err != nil {
		return err
	}
	written()
	s.report(changes)
	if len(batch.Msgs) > 0 {
		last := batch.Msgs[len(batch.Msgs)-1]
		s.scheduleTick(last, batch.Pending)
		if err := s.writeCheckpoint(ctx, last); err != nil {
			return err
		}
		s.written.Store(last.Time.UnixNano())
	}
	s.behind.Store(batch.Pending)
	if batch.Pending == 0 {
		s.caughtUp.Store(true)
	}
	if !ticked {
		return nil
	}
	s.pulse()
	return s.writer.verify(ctx) // also where there is nothing to write
}

func (s *shard) apply(batch feed.Batch) (changes machine.Changes, ticked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, msg := range batch.Msgs {
		at, seq := rollcall.MicrosOf(msg.Time), s.bias.grow(msg.Seq)
		edge, tick, err := s.fabric.ParseLog(msg.Subject)
		var frame *wire.Frame
		if err == nil {
			frame, err = subjects.DecodeFrame(msg.Data)
		}
		if err != nil {
			s.log.Warn("message in the log cannot be read", "subject", msg.Subject, "sequence", msg.Seq, "err", err)
			s.machine.Pass(at, seq)
			continue
		}
		ticked = ticked || tick
		applied := s.traces.apply(msg.Header, frame)
		s.machine.Apply(at, seq, machine.Source{Edge: edge, Tick: tick}, frame)
		applied()
	}
	return s.machine.Take(), ticked
}

// report sends what edges must hear and measures who left. Controls may be lost:
// the next renewal repeats them.
func (s *shard) report(changes machine.Changes) {
	for _, c := range changes.Controls {
		b, err := subjects.EncodeControl(c.Message)
		if err == nil {
			err = s.keeper.nc.Publish(s.fabric.EdgeControl(c.Edge), b)
		}
		if err != nil {
			s.log.Warn("control message not sent", "edge", c.Edge, "kind", c.Message.Kind, "err", err)
		}
	}
	for _, d := range changes.Departures {
		s.keeper.detected(d, s.fabric.Params.Bounds())
	}
}

// scheduleTick asks for the next tick at the next deadline, which is in store
// time: the last message tells what the store's clock was.
func (s *shard) scheduleTick(last feed.Msg, pending uint64) {
	if pending > 0 {
		return // ticks that are already in the log come first
	}
	s.mu.Lock()
	deadline, ok := s.machine.NextDeadline()
	s.mu.Unlock()
	if ok {
		s.ticker.in(deadline.Sub(rollcall.MicrosOf(last.Time)))
	}
}

func (s *shard) writeCheckpoint(ctx context.Context, last feed.Msg) error {
	if time.Since(s.checkpoint) < s.keeper.cfg.CheckpointEvery {
		return nil
	}
	s.mu.Lock()
	record := s.machine.Checkpoint()
	whole := record.Sequence == s.machine.Sequence()
	s.mu.Unlock()
	record.Bias = uint64(s.bias)
	if whole {
		record.Time = last.Time.UnixNano()
	}
	if err := s.writer.writeCheckpoint(ctx, record); err != nil {
		return err
	}
	s.checkpoint = time.Now()
	return nil
}

// pulseEvery bounds how often a pulse is sent, as ticks can come far more often than
// once a sweep. A fanout calls the keeper silent after an outage, which may be as
// short as two sweeps, so the periodic ticks must not be among those without one.
func (s *shard) pulseEvery() time.Duration { return min(time.Second, s.fabric.Params.Sweep/2) }

// pulse tells the fanout that the keeper is alive and up to which revision the
// views must have reached it.
func (s *shard) pulse() {
	if time.Since(s.pulsed) < s.pulseEvery() {
		return
	}
	s.pulsed = time.Now()
	s.mu.Lock()
	now := s.machine.Now()
	s.mu.Unlock()
	b, err := subjects.Encode(&wire.Pulse{
		Shard: uint32(s.grant.Shard), Generation: s.grant.Generation, Now: int64(now), Revision: s.writer.viewsRevision,
	})
	if err == nil {
		err = s.keeper.nc.Publish(s.fabric.Pulse(s.grant.Shard), b)
	}
	if err != nil {
		s.log.Warn("pulse not sent", "err", err)
	}
}

func (s *shard) stats() machine.Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.machine.Stats()
}

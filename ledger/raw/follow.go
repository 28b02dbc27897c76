package raw

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/rollcall-io/rollcall/internal/feed"
	"github.com/rollcall-io/rollcall/subjects"
)

// A Position is where reading goes on: the last sequences that were handed over.
type Position struct {
	Log, Beats uint64
	// LogTime and BeatsTime are the store times of these messages, if known: a message of
	// another time found in the place of one is a rollback.
	LogTime, BeatsTime time.Time
}

// Step is what [Follow] hands over: messages of both streams in the order of their
// store times, as far as they are known.
type Step struct {
	Msgs []Message
	// Position is behind them.
	Position Position
	// Watermark is how far time has certainly come, in ms; 0 if it is not known yet.
	Watermark int64
	// Ended says that nothing more was stored.
	Ended bool
	// Behind is how many messages were stored and not handed over, as far as is known.
	Behind uint64
}

// transit is how long a message may be stored and not have arrived here although
// nothing is said to be pending.
const transit = time.Minute

// ErrStop ends [Follow] without an error, if the handler returns it.
var ErrStop = errors.New("raw: stop")

// Follow reads a shard from a position on, and goes on with what is stored later,
// until ctx ends or handle fails. It returns a [feed.RollbackError] if a stream has
// lost what was read: then everything must be rebuilt.
//
// The log is not read ahead of the beats, or the other way round, by more than a
// batch: memory does not depend on how far behind the reader is.
func Follow(ctx context.Context, js jetstream.JetStream, names subjects.Names, shard int, from Position, handle func(Step) error) error {
	group, ctx := errgroup.WithContext(ctx)
	m := merger{position: from, handle: handle}
	for i, stream := range []string{names.LogStream(shard), names.BeatsStream(shard)} {
		f := &m.sources[i]
		f.stream, f.beats, f.batches = stream, i == 1, make(chan feed.Batch)
		config := feed.Config{Stream: stream, Start: from.Log + 1, Previous: from.LogTime}
		if f.beats {
			config.Start, config.Previous = from.Beats+1, from.BeatsTime
		}
		group.Go(func() error {
			return feed.New(js, config).Run(ctx, func(ctx context.Context, b feed.Batch) error {
				select {
				case f.batches <- b:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
		})
	}
	group.Go(func() error { return m.run(ctx) })
	err := group.Wait()
	if errors.Is(err, ErrStop) {
		return nil
	}
	return err
}

// A source is one stream.
type source struct {
	stream  string
	beats   bool
	batches chan feed.Batch
	next    []feed.Msg
	pending uint64 // behind next
	all     bool   // nothing is, as far as the store has said
	time    int64
}

type merger struct {
	sources  [2]source
	position Position
	handle   func(Step) error
	ended    bool // it was said
}

func (m *merger) run(ctx context.Context) error {
	for {
		if err := m.wait(ctx); err != nil {
			return err
		}
		if err := m.step(); err != nil {
			return err
		}
	}
}

// wait fetches until every source has messages, or is read to its end.
func (m *merger) wait(ctx context.Context) error {
	log, beats := &m.sources[0], &m.sources[1]
	for {
		var fromLog, fromBeats chan feed.Batch
		if len(log.next) == 0 {
			fromLog = log.batches
		}
		if len(beats.next) == 0 {
			fromBeats = beats.batches
		}
		ready := len(log.next)+len(beats.next) > 0 || !m.ended
		if ready && (len(log.next) > 0 || log.all) && (len(beats.next) > 0 || beats.all) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case b := <-fromLog:
			log.take(b)
		case b := <-fromBeats:
			beats.take(b)
		}
		m.ended = false
	}
}

func (s *source) take(b feed.Batch) { s.next, s.pending, s.all = b.Msgs, b.Pending, b.Pending == 0 }

// step hands over what is certain to be next.
func (m *merger) step() error {
	log, beats := &m.sources[0], &m.sources[1]
	var step Step
	for len(log.next) > 0 || len(beats.next) > 0 {
		s := log
		switch {
		case len(log.next) == 0 && !log.all || len(beats.next) == 0 && !beats.all:
			return m.give(step)
		case len(log.next) == 0 || len(beats.next) > 0 && beats.next[0].Time.Before(log.next[0].Time):
			s = beats
		}
		step.Msgs = append(step.Msgs, s.pop())
	}
	step.Ended = log.all && beats.all
	m.ended = step.Ended
	return m.give(step)
}

func (s *source) pop() Message {
	m := s.next[0]
	s.next, s.time = s.next[1:], m.Time.UnixMilli()
	return Message{Beats: s.beats, Stream: s.stream, Subject: m.Subject, Seq: m.Seq, Time: m.Time, Data: m.Data}
}

func (m *merger) give(step Step) error {
	for _, msg := range step.Msgs {
		if msg.Beats {
			m.position.Beats, m.position.BeatsTime = msg.Seq, msg.Time
		} else {
			m.position.Log, m.position.LogTime = msg.Seq, msg.Time
		}
	}
	step.Position = m.position
	for _, s := range m.sources {
		step.Behind += uint64(len(s.next)) + s.pending
	}
	// Both streams are read in the order of time, so that neither holds anything older
	// than what came last of either, but for what is still under way.
	if newest := max(m.sources[0].time, m.sources[1].time); newest > 0 {
		step.Watermark = newest - transit.Milliseconds()
	}
	return m.handle(step)
}

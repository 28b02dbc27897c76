package rebuild

import (
	"bytes"
	"context"
	"encoding/gob"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/interval"
	"github.com/rollcall-io/rollcall/ledger/raw"
	"github.com/rollcall-io/rollcall/subjects"
)

// Stream is what the streams of a fabric still hold. Device makes pseudonyms, those of
// the figures that there are.
func Stream(js jetstream.JetStream, names subjects.Names, device func(string) string) Source {
	return streams{js, names, device}
}

type streams struct {
	js     jetstream.JetStream
	names  subjects.Names
	device func(string) string
}

func (streams) Name() string { return "stream" }

// Reach implements Source. A connection whose OPEN was trimmed is known again only when
// something is told of it.
func (s streams) Reach(ctx context.Context) (Reach, error) {
	now := time.Now().UnixMilli()
	r := Reach{Interval: interval.Interval{From: interval.Earliest, To: now}}
	for shard := range s.names.Shards() {
		states, err := s.states(ctx, shard)
		if err != nil {
			return r, err
		}
		for _, state := range states {
			first := state.FirstTime.UnixMilli()
			if state.Msgs == 0 {
				first = now
			}
			if state.FirstSeq > 1 {
				r.From, r.Trimmed = max(r.From, first), true
			}
		}
	}
	return r, nil
}

// states are those of a shard's log and heartbeats.
func (s streams) states(ctx context.Context, shard int) (states [2]jetstream.StreamState, err error) {
	for i, name := range []string{s.names.LogStream(shard), s.names.BeatsStream(shard)} {
		stream, err := s.js.Stream(ctx, name)
		if err != nil {
			return states, fmt.Errorf("rebuild: stream %s: %w", name, err)
		}
		states[i] = stream.CachedInfo().State
	}
	return states, nil
}

func (s streams) Parts() (parts []Part) {
	for shard := range s.names.Shards() {
		parts = append(parts, shardPart{s, shard})
	}
	return parts
}

type shardPart struct {
	streams
	shard int
}

func (p shardPart) Name() string { return p.names.LogStream(p.shard) }

// shardState is how reading a shard goes on.
type shardState struct {
	Position raw.Position
	Decoder  []byte
}

// Read reads from the beginning of the streams: they hold little more than a window, and
// what a connection is was said when it was opened.
func (p shardPart) Read(ctx context.Context, w Window, state []byte, to Sink) error {
	var from shardState
	decoder := raw.New(p.names, w.Lateness, veiled{to, p.device})
	if state != nil {
		if err := gob.NewDecoder(bytes.NewReader(state)).Decode(&from); err != nil {
			return fmt.Errorf("%w: %s: %w", ErrPlace, p.Name(), err)
		}
		if err := decoder.Restore(from.Decoder); err != nil {
			return fmt.Errorf("%w: %w", ErrPlace, err)
		}
	}
	share, err := p.progress(ctx)
	if err != nil {
		return err
	}
	err = raw.Follow(ctx, p.js, p.names, p.shard, from.Position, func(s raw.Step) error {
		for _, m := range s.Msgs {
			decoder.Add(m)
		}
		if s.Watermark > 0 {
			if err := to.Reached(s.Watermark, share(s.Position), func() ([]byte, error) { return p.save(s.Position, decoder) }); err != nil {
				return err
			}
		}
		if s.Ended || s.Watermark >= w.To {
			return raw.ErrStop
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("rebuild: read %s: %w", p.Name(), err)
	}
	decoder.Flush()
	return nil
}

func (p shardPart) save(at raw.Position, d *raw.Decoder) ([]byte, error) {
	decoder, err := d.Snapshot()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = gob.NewEncoder(&b).Encode(shardState{at, decoder})
	return b.Bytes(), err
}

// progress tells which share of what the streams hold now lies before a position.
func (p shardPart) progress(ctx context.Context) (func(raw.Position) float64, error) {
	states, err := p.states(ctx, p.shard)
	if err != nil {
		return nil, err
	}
	return func(at raw.Position) float64 {
		var read, total uint64
		for i, seq := range []uint64{at.Log, at.Beats} {
			first, end := states[i].FirstSeq, states[i].LastSeq+1
			read += min(max(seq+1, first), end) - first
			total += end - first
		}
		return float64(read) / float64(max(total, 1))
	}, nil
}

// veiled replaces device ids before anything else sees them.
type veiled struct {
	Sink
	device func(string) string
}

func (v veiled) Event(e ledger.Event) {
	e.Device = v.device(e.Device)
	v.Sink.Event(e)
}

// Beat hides the device of a connection from those who do not know it yet.
func (v veiled) Beat(c *raw.Conn, at int64, flags uint8) {
	if c.Bound {
		v.Sink.Beat(c, at, flags)
		return
	}
	device := c.Device
	c.Device = v.device(device)
	v.Sink.Beat(c, at, flags)
	c.Device = device
}

func (v veiled) Reject(r ledger.Rejected) {
	if r.Event != nil {
		e := *r.Event
		e.Device = v.device(e.Device)
		r.Event = &e
	}
	v.Sink.Reject(r)
}

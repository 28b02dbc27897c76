package explain

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// stride is how many messages of the log are read at a time, the newest first.
const stride = 2000

// frames reads the log backwards until there are enough frames, or it is far enough back.
func (i *inquiry) frames(ctx context.Context) error {
	stream, err := i.js.Stream(ctx, i.fabric.LogStream(i.report.Shard))
	if err != nil {
		return fmt.Errorf("explain: log: %w", err)
	}
	state, r := stream.CachedInfo().State, &i.report
	oldest := r.AsOf.Add(-i.Back)
	var found []Frame
	for last := state.LastSeq; ; {
		r.Searched.Whole = last < max(state.FirstSeq, 1)
		if r.Searched.Whole || i.count(found) >= i.Frames || r.Searched.Messages >= i.Messages || !r.Searched.Since.IsZero() && r.Searched.Since.Before(oldest) {
			break
		}
		first := max(state.FirstSeq, last-min(last-1, stride-1))
		some, err := i.search(ctx, stream, first, last)
		if err != nil {
			return err
		}
		found = append(some, found...)
		last = first - 1
	}
	found = slices.DeleteFunc(found, func(f Frame) bool { return f.At.Before(oldest) || !i.concerns(f) })
	r.Frames = append(r.Frames, found[max(0, len(found)-i.Frames):]...)
	return nil
}

// search reads a part of the log.
func (i *inquiry) search(ctx context.Context, stream jetstream.Stream, first, last uint64) (found []Frame, err error) {
	consumer, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: first, AckPolicy: jetstream.AckNonePolicy,
		MemoryStorage: true, Replicas: 1, InactiveThreshold: time.Minute,
	})
	if err != nil {
		return nil, fmt.Errorf("explain: reading the log: %w", err)
	}
	defer stream.DeleteConsumer(context.WithoutCancel(ctx), consumer.CachedInfo().Name)
	begun := false // and so the oldest of all that was read
	for at := first; at <= last; {
		batch, err := consumer.FetchNoWait(int(min(last-at+1, 500)))
		if err != nil {
			return nil, fmt.Errorf("explain: reading the log: %w", err)
		}
		before := at
		for m := range batch.Messages() {
			meta, err := m.Metadata()
			if err != nil {
				return nil, err
			}
			if at = meta.Sequence.Stream + 1; at > last+1 {
				break // younger: some of what was there is gone
			}
			if !begun {
				begun, i.report.Searched.Since = true, meta.Timestamp.UTC()
			}
			i.report.Searched.Messages++
			if f, ok := i.frame(m.Subject(), m.Data()); ok {
				f.At, f.Sequence = meta.Timestamp.UTC(), meta.Sequence.Stream
				found = append(found, f)
			}
		}
		if err := batch.Error(); err != nil {
			return nil, fmt.Errorf("explain: reading the log: %w", err)
		}
		if at == before {
			break // the rest is gone
		}
	}
	return found, nil
}

// frame is what a message says of the user, or of an edge that comes or goes.
func (i *inquiry) frame(subject string, data []byte) (f Frame, ok bool) {
	edge, tick, err := i.fabric.ParseLog(subject)
	if err != nil || tick {
		return f, false
	}
	frame, err := subjects.DecodeFrame(data)
	if err != nil {
		return f, false
	}
	f.Edge = edge
	for _, e := range frame.Entries {
		comesOrGoes := e.Kind == wire.Kind_KIND_HELLO || e.Kind == wire.Kind_KIND_LEAVE
		if e.User != i.User && !comesOrGoes {
			continue
		}
		f.Entries = append(f.Entries, entryOf(e))
		if e.User == i.User {
			if _, known := i.edges[edge]; !known {
				i.edges[edge] = nil // it held a connection of the user
			}
		}
	}
	return f, len(f.Entries) > 0
}

// concerns says that a frame names the user, or is of an edge that held a connection of it.
func (i *inquiry) concerns(f Frame) bool {
	_, held := i.edges[f.Edge]
	return held
}

func (i *inquiry) count(found []Frame) (n int) {
	for _, f := range found {
		if i.concerns(f) {
			n++
		}
	}
	return n
}

func entryOf(e *wire.Entry) Entry {
	out := Entry{Kind: kindOf(e.Kind), Device: e.Device, Number: e.Conn, Activity: e.Activity, At: timeOf(e.At), Seen: timeOf(e.Seen)}
	switch e.Kind {
	case wire.Kind_KIND_OPEN, wire.Kind_KIND_ROSTER:
		out.Epoch = timeOf(e.Epoch)
		out.State = rollcall.State(e.State).String()
	case wire.Kind_KIND_STATE:
		out.State = rollcall.State(e.State).String()
	case wire.Kind_KIND_CLOSE:
		out.Reason = strings.ToLower(strings.TrimPrefix(e.Reason.String(), "REASON_"))
	}
	return out
}

func kindOf(k wire.Kind) string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(k.String(), "KIND_")), "_", " ")
}

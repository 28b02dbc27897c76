package keeper

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/internal/feed"
	"github.com/rollcall-io/rollcall/subjects"
)

// A ticker lets time pass in the log: it appends a tick at the instant it was
// asked for, and one sweep after the last tick in any case.
type ticker struct {
	js       jetstream.JetStream
	subject  string
	tick     []byte
	sweep    time.Duration
	reset    chan time.Duration
	reader   atomic.Pointer[feed.Reader]
	turned   atomic.Int64 // when the loop turned last, Unix nanoseconds; 0 before it runs
	refusals *fabric.Refusals
}

func newTicker(js jetstream.JetStream, f fabric.Fabric, g rollcall.Grant, refusals *fabric.Refusals) *ticker {
	tick, err := subjects.EncodeFrame(subjects.TickFrame(g.Generation))
	if err != nil {
		panic("keeper: a tick cannot be encoded: " + err.Error()) // it holds no text
	}
	return &ticker{
		js: js, subject: f.Tick(g.Shard), tick: tick, sweep: f.Params.Sweep, reset: make(chan time.Duration, 1), refusals: refusals,
	}
}

// in asks for a tick after d, if none is due before.
func (t *ticker) in(d time.Duration) {
	select {
	case <-t.reset: // an older wish; the new one knows more
	default:
	}
	t.reset <- d
}

// watch names the reader that must see the ticks.
func (t *ticker) watch(r *feed.Reader) { t.reader.Store(r) }

// run ticks until ctx ends. While the store is away it tries again and again.
func (t *ticker) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var last, seen uint64 // sequence of the last tick, position of the reader then
	next := time.Now()
	for {
		t.turned.Store(time.Now().UnixNano())
		select {
		case <-ctx.Done():
			return
		case d := <-t.reset:
			if wish := time.Now().Add(d); wish.Before(next) {
				next = wish
			}
		case <-timer.C:
			seen = t.kickReader(last, seen)
			if seq, err := t.append(ctx); err == nil {
				last, next = seq, time.Now().Add(t.sweep)
			} else {
				next = time.Now().Add(tickRetry)
			}
		}
		timer.Reset(time.Until(next))
	}
}

const (
	tickTimeout = 2 * time.Second
	tickRetry   = 250 * time.Millisecond
)

// stuck says for how long the loop has not turned although it must have, whether the
// store is there or not; 0 while all is well.
func (t *ticker) stuck() time.Duration {
	turned := t.turned.Load()
	if turned == 0 {
		return 0
	}
	const scheduling = 10 * time.Second // of a machine that is busy with other things
	if still := time.Since(time.Unix(0, turned)); still > t.sweep+tickTimeout+scheduling {
		return still
	}
	return 0
}

func (t *ticker) append(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, tickTimeout)
	defer cancel()
	ack, err := t.js.Publish(ctx, t.subject, t.tick, jetstream.WithRetryAttempts(0))
	t.refusals.Note(err)
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

// kickReader rebuilds a reader that has not seen the last tick, nor anything else
// since it was looked at last. It returns the reader's position.
func (t *ticker) kickReader(last, seen uint64) uint64 {
	r := t.reader.Load()
	if r == nil {
		return 0
	}
	position := r.Position()
	if position < last && position == seen {
		r.Kick()
	}
	return position
}

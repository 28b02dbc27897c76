package feed

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall/internal/retry"
)

// Window is how many messages are fetched ahead of the handler at most, half of
// them by the client library.
const Window = 2048

// Pauses before a consumer is built again: most trouble is short.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = 2 * time.Second
)

// A Msg is one message of the stream.
type Msg struct {
	Subject string
	Seq     uint64
	Time    time.Time // given by the store
	Header  nats.Header
	Data    []byte
}

// A Batch is a run of messages. Pending is how many more the stream held when the
// last of them was sent. A batch without messages says that nothing was pending
// when the reader began.
type Batch struct {
	Msgs    []Msg
	Pending uint64
}

// RollbackError says that the stream no longer holds, or holds differently, what
// was read before.
type RollbackError struct {
	Stream string
	Last   uint64 // the stream's last sequence now
}

func (e *RollbackError) Error() string {
	return fmt.Sprintf("feed: stream %s lost its tail, it now ends at %d", e.Stream, e.Last)
}

// Config says what to follow.
type Config struct {
	Stream string
	// Start is the first sequence to hand over. Zero means the last message of
	// every subject first, then everything that follows.
	Start uint64
	// Previous is the store time of message Start−1, if known. A different time
	// found there is a rollback.
	Previous time.Time
	// Subjects filters; empty means all.
	Subjects []string
}

// Reader follows one stream. Use [New].
type Reader struct {
	js   jetstream.JetStream
	cfg  Config
	kick chan struct{}
	lost atomic.Bool // somebody knows of a rollback

	next     uint64 // first sequence not yet handed over; 0 before the first
	previous time.Time
	handed   atomic.Uint64
}

// New returns a reader; [Reader.Run] starts it.
func New(js jetstream.JetStream, cfg Config) *Reader {
	return &Reader{js: js, cfg: cfg, kick: make(chan struct{}, 1), next: cfg.Start, previous: cfg.Previous}
}

// Position is the last sequence that the handler has taken.
func (r *Reader) Position() uint64 { return r.handed.Load() }

// Kick makes the reader rebuild its consumer: for callers who know of messages
// that did not come.
func (r *Reader) Kick() {
	select {
	case r.kick <- struct{}{}:
	default:
	}
}

// Lost says that the stream has lost what was read: for callers who wrote a message
// and were given a sequence that had been read before. Run reports it.
func (r *Reader) Lost() {
	r.lost.Store(true)
	r.Kick()
}

// Run calls handle until ctx ends, handle fails, or the stream was rolled back.
func (r *Reader) Run(ctx context.Context, handle func(context.Context, Batch) error) error {
	reconnected := r.js.Conn().StatusChanged(nats.CONNECTED)
	defer r.js.Conn().RemoveStatusListener(reconnected)
	for attempt := 0; ; attempt++ {
		worked, err := r.follow(ctx, reconnected, handle)
		var failed *handlerError
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &failed):
			return failed.error
		case errors.As(err, new(*RollbackError)):
			return err
		case worked:
			attempt = 0
		}
		if !retry.Pause(ctx, retry.Backoff(attempt, firstPause, lastPause, rand.Int64N)) {
			return ctx.Err()
		}
	}
}

// A handlerError tells the handler's failure from the store's.
type handlerError struct{ error }

// follow builds one consumer and reads it until it breaks. worked says whether
// anything was handed over.
func (r *Reader) follow(ctx context.Context, reconnected <-chan nats.Status, handle func(context.Context, Batch) error) (worked bool, err error) {
	select {
	case <-r.kick: // from while there was no consumer: whoever kicks again and again must not end each new one
	default:
	}
	consumer, pending, heartbeat, err := r.build(ctx)
	if err != nil {
		return false, err
	}
	arrived, broken, stop, err := consume(consumer, heartbeat)
	if err != nil {
		return false, err
	}
	defer stop()
	if pending == 0 {
		if err := handle(ctx, Batch{}); err != nil {
			return false, &handlerError{err}
		}
	}
	for expected := uint64(1); ; {
		select {
		case <-ctx.Done():
			return worked, ctx.Err()
		case err := <-broken:
			return worked, err
		case <-r.kick:
			return worked, nil
		case <-reconnected:
			return worked, nil
		case m := <-arrived:
			batch, gap := r.collect(m, arrived, &expected)
			if len(batch.Msgs) > 0 {
				if err := handle(ctx, batch); err != nil {
					return worked, &handlerError{err}
				}
				last := batch.Msgs[len(batch.Msgs)-1]
				r.next, r.previous, worked = last.Seq+1, last.Time, true
				r.handed.Store(last.Seq)
			}
			if gap {
				return worked, nil
			}
		}
	}
}

// consume has the client library fetch ahead until stop is called. broken holds the
// first thing that goes wrong.
func consume(consumer jetstream.Consumer, heartbeat time.Duration) (arrived <-chan jetstream.Msg, broken <-chan error, stop func(), err error) {
	messages, trouble, stopped := make(chan jetstream.Msg, Window/2), make(chan error, 1), make(chan struct{})
	consuming, err := consumer.Consume(func(m jetstream.Msg) {
		select {
		case messages <- m:
		case <-stopped:
		}
	}, jetstream.PullMaxMessages(Window/2), jetstream.PullExpiry(time.Minute), jetstream.PullHeartbeat(heartbeat),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
			select {
			case trouble <- err:
			default:
			}
		}))
	if err != nil {
		return nil, nil, nil, err
	}
	return messages, trouble, func() { consuming.Stop(); close(stopped) }, nil
}

// collect takes m and whatever has arrived behind it. gap is true where the
// consumer's own count shows that a message is missing.
func (r *Reader) collect(m jetstream.Msg, arrived <-chan jetstream.Msg, expected *uint64) (batch Batch, gap bool) {
	for {
		meta, err := m.Metadata()
		if err != nil || meta.Sequence.Consumer != *expected {
			return batch, true
		}
		*expected++
		batch.Msgs = append(batch.Msgs, Msg{m.Subject(), meta.Sequence.Stream, meta.Timestamp, m.Headers(), m.Data()})
		batch.Pending = meta.NumPending
		if len(batch.Msgs) == Window {
			return batch, false
		}
		select {
		case m = <-arrived:
		default:
			return batch, false
		}
	}
}

// The consumer lives on one server. Where there are several, that one can be lost while the
// connection goes on, and only the missing heartbeats tell, after two of them.
const (
	heartbeat           = 10 * time.Second
	replicatedHeartbeat = 2 * time.Second
)

// build checks that the stream still holds what was read and makes a consumer for
// the rest, which is to be heard of as often as it says.
func (r *Reader) build(ctx context.Context) (jetstream.Consumer, uint64, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	stream, err := r.js.Stream(ctx, r.cfg.Stream)
	if err != nil {
		return nil, 0, 0, err
	}
	if err := r.checkTail(ctx, stream); err != nil {
		return nil, 0, 0, err
	}
	cfg := jetstream.ConsumerConfig{
		AckPolicy: jetstream.AckNonePolicy, FilterSubjects: r.cfg.Subjects,
		MemoryStorage: true, Replicas: 1, InactiveThreshold: 2 * time.Minute,
		DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy,
	}
	switch {
	case r.next > 0:
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, r.next
	case len(cfg.FilterSubjects) == 0:
		cfg.FilterSubjects = []string{">"}
	}
	consumer, err := stream.CreateConsumer(ctx, cfg)
	if err != nil {
		return nil, 0, 0, err
	}
	every := heartbeat
	if stream.CachedInfo().Config.Replicas > 1 {
		every = replicatedHeartbeat
	}
	return consumer, consumer.CachedInfo().NumPending, every, nil
}

func (r *Reader) checkTail(ctx context.Context, stream jetstream.Stream) error {
	if r.next <= 1 {
		return nil
	}
	state := stream.CachedInfo().State
	if state.LastSeq < r.next-1 || r.lost.Load() {
		return &RollbackError{r.cfg.Stream, state.LastSeq}
	}
	if r.previous.IsZero() || r.next-1 < state.FirstSeq {
		return nil
	}
	m, err := stream.GetMsg(ctx, r.next-1)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil // replaced by a newer message of its subject, or trimmed
	}
	if err != nil {
		return err
	}
	if !m.Time.Equal(r.previous) {
		return &RollbackError{r.cfg.Stream, state.LastSeq}
	}
	return nil
}

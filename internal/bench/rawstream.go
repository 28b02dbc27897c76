package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// writeBytes is the size of a raw message: about that of the records and views of
// a user.
const writeBytes = 128

// A rawStream is the baseline of whatever is stored: one stream of files, one
// publisher, no rules.
type rawStream struct {
	nc      *nats.Conn
	js      jetstream.JetStream
	stream  jetstream.Stream
	subject string
	data    []byte
	written uint64
}

func (s *scene) newRawStream(ctx context.Context, name string) (*rawStream, error) {
	nc, err := s.connect("raw stream")
	if err != nil {
		return nil, err
	}
	r := &rawStream{nc: nc, subject: name, data: make([]byte, writeBytes)}
	const inFlight = 4096 // as many as the keeper has
	if r.js, err = jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(inFlight)); err == nil {
		r.stream, err = r.js.CreateStream(ctx, jetstream.StreamConfig{
			Name: name, Subjects: []string{name + ".>"}, Storage: jetstream.FileStorage,
		})
	}
	if err != nil {
		nc.Close()
		return nil, err
	}
	return r, nil
}

func (r *rawStream) close() { r.nc.Close() }

// write publishes n messages, each on a subject of its own as the records of users
// are, and returns how long it took until all were acknowledged.
func (r *rawStream) write(ctx context.Context, n int) (time.Duration, error) {
	subjects := make([]string, n)
	for i := range subjects {
		subjects[i] = fmt.Sprintf("%s.%d", r.subject, r.written+uint64(i))
	}
	begin := time.Now()
	for _, subject := range subjects {
		if _, err := r.js.PublishAsync(subject, r.data, jetstream.WithStallWait(patience)); err != nil {
			return 0, err
		}
	}
	select {
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	case <-time.After(patience):
		return 0, fmt.Errorf("%d raw writes are not acknowledged after %s", r.js.PublishAsyncPending(), patience)
	case <-r.js.PublishAsyncComplete():
	}
	took := time.Since(begin)
	r.written += uint64(n)
	return took, r.check(ctx)
}

// check finds everything in the stream.
func (r *rawStream) check(ctx context.Context) error {
	info, err := r.stream.Info(ctx)
	if err == nil && info.State.Msgs != r.written {
		err = fmt.Errorf("the raw stream holds %d messages, not %d", info.State.Msgs, r.written)
	}
	return err
}

// roundTrips measures single writes, one after the other, with pauses.
func (r *rawStream) roundTrips(ctx context.Context, n int) ([]time.Duration, error) {
	times := make([]time.Duration, n)
	for i := range times {
		begin := time.Now()
		if _, err := r.js.Publish(ctx, r.subject+".ack", r.data); err != nil {
			return nil, err
		}
		times[i] = time.Since(begin)
		r.written++
		if err := breathe(ctx); err != nil {
			return nil, err
		}
	}
	return times, r.check(ctx)
}

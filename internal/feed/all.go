package feed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// patience is how long a stream may lack what it has acknowledged.
const patience = 30 * time.Second

// All hands over the last message of every subject in the stream, as of now, but at least up to the
// given sequence, which the store has acknowledged: on a replicated stream a server may answer that
// has not heard of it yet. With filters it hands over those that match one of them, and least is the
// sequence of such a message.
func All(ctx context.Context, js jetstream.JetStream, stream string, least uint64, handle func(Msg) error, filters ...string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := errors.New("done")
	var read uint64
	var short *time.Timer // runs while there is nothing more to read
	defer func() { stop(short) }()
	err := New(js, Config{Stream: stream, Subjects: filters}).Run(ctx, func(_ context.Context, b Batch) error {
		stop(short)
		for _, m := range b.Msgs {
			if err := handle(m); err != nil {
				return err
			}
			read = m.Seq
		}
		if b.Pending == 0 && read >= least {
			return done
		}
		if b.Pending == 0 {
			short = time.AfterFunc(patience, func() { cancel(fmt.Errorf("feed: %s ends at %d and had %d", stream, read, least)) })
		}
		return nil
	})
	switch {
	case errors.Is(err, done):
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return err
}

func stop(t *time.Timer) {
	if t != nil {
		t.Stop()
	}
}

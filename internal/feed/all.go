package feed

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go/jetstream"
)

// All hands over the last message of every subject in the stream, as of now.
func All(ctx context.Context, js jetstream.JetStream, stream string, handle func(Msg) error) error {
	done := errors.New("done")
	err := New(js, Config{Stream: stream}).Run(ctx, func(_ context.Context, b Batch) error {
		for _, m := range b.Msgs {
			if err := handle(m); err != nil {
				return err
			}
		}
		if b.Pending == 0 {
			return done
		}
		return nil
	})
	if errors.Is(err, done) {
		return nil
	}
	return err
}

package storeclock

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall"
)

const (
	// probes is how often one Sync asks at most: the shortest of a few round
	// trips is close to the shortest of many.
	probes = 3
	// goodEnough ends a Sync early; presence is told to the minute.
	goodEnough = time.Millisecond
)

// Sync asks the leader of a stream for its time, a few times if the answers are
// slow. local reads the caller's monotonic clock.
func Sync(ctx context.Context, js jetstream.JetStream, stream string, local func() time.Duration, clock *Clock) error {
	for range probes {
		sent := local()
		s, err := js.Stream(ctx, stream)
		received := local()
		if err != nil {
			return fmt.Errorf("storeclock: asking %s for the time: %w", stream, err)
		}
		clock.Observe(Reading{sent, received, rollcall.MicrosOf(s.CachedInfo().TimeStamp)})
		if received-sent <= 2*goodEnough {
			return nil
		}
	}
	return nil
}

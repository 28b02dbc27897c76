package rollcall

import (
	"context"
	"errors"
	"time"
)

// Errors that every part of a fabric can end with.
var (
	// ErrNotOwner says that another process has taken over the shard.
	ErrNotOwner = errors.New("rollcall: shard not owned")
	// ErrNoFabric says that nobody has made a fabric with this prefix on the server.
	ErrNoFabric = errors.New("rollcall: no fabric here")
	// ErrDisconnected says that the NATS connection was closed for good.
	ErrDisconnected = errors.New("rollcall: NATS connection closed")
)

// A Grant is the right to act for one shard. Generation grows with every change
// of owner, also across restarts and a store that forgot, so that whatever an
// older owner says can be told apart.
type Grant struct {
	Shard      int
	Generation uint64
}

// Ownership decides which shards this process acts for.
type Ownership interface {
	// Own calls run, each call in its own goroutine, for every shard that this
	// process owns, now or later. The context given to run ends when the shard is
	// lost. When run returns before that, the shard is granted again after a
	// pause, with a higher generation. Own returns when ctx has ended or no shard
	// can be owned any more ([ErrNotOwner]), and every run has returned.
	Own(ctx context.Context, run func(context.Context, Grant) error) error
}

// generationEpoch is where generations count from: with 22 bits left for a count
// of changes, a version stays an exact JSON number (below 2^53) until 2068.
var generationEpoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// NextGeneration is the generation of a takeover at the given instant after one
// of the given generation: the second since 2000, or one more than the last.
func NextGeneration(last uint64, now time.Time) uint64 {
	second := max(now.Sub(generationEpoch)/time.Second, 0)
	return max(last+1, uint64(second))
}

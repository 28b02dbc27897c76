package fabric

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/internal/retry"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// ThisProcess names this process for people who read an owner's record.
func ThisProcess() string {
	host, _ := os.Hostname()
	return fmt.Sprintf("%s/%d", host, os.Getpid())
}

// TakeOver makes a grant's holder the only one who may write to a bucket. It returns
// the revision of the owner's record, which every write must expect, and refuses with
// [rollcall.ErrNotOwner] if a newer generation is already there. A record that cannot
// be read stops nobody: its revision is fence enough.
func TakeOver(ctx context.Context, js jetstream.JetStream, bucket string, g rollcall.Grant, holder string) (fence uint64, err error) {
	kv, err := js.KeyValue(ctx, bucket)
	if err != nil {
		return 0, fmt.Errorf("fabric: taking over %s: %w", bucket, err)
	}
	value, revision, err := Last(ctx, js, bucket, subjects.KeyOwner)
	if err != nil {
		return 0, fmt.Errorf("fabric: owner of %s: %w", bucket, err)
	}
	var last wire.OwnerRecord
	if subjects.Decode(value, &last) != nil {
		last.Reset()
	}
	if last.Generation > g.Generation {
		return 0, fmt.Errorf("%w: %s belongs to %q, generation %d", rollcall.ErrNotOwner, bucket, last.Holder, last.Generation)
	}
	value, err = subjects.Encode(&wire.OwnerRecord{Generation: g.Generation, Holder: holder})
	if err != nil {
		return 0, err
	}
	for attempt := 0; ; attempt++ {
		fence, err = kv.Update(ctx, subjects.KeyOwner, value, revision)
		if err == nil {
			return fence, nil
		}
		if !Busy(err) || !retry.Pause(ctx, retry.Backoff(attempt, firstPause, lastPause, rand.Int64N)) {
			return 0, fmt.Errorf("fabric: taking over %s: %w", bucket, err)
		}
	}
}

// Pauses while the last writes of the former owner are under way.
const (
	firstPause = 10 * time.Millisecond
	lastPause  = 200 * time.Millisecond
)

// Busy says whether a replicated bucket refused a write because another that concerns the same
// record is under way.
func Busy(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant
}

// Fence is the option by which a write to a bucket expects its owner's record to be
// of the revision that [TakeOver] returned.
func Fence(bucket string, fence uint64) jetstream.PublishOpt {
	return jetstream.WithExpectLastSequenceForSubject(fence, subjects.KVSubject(bucket, subjects.KeyOwner))
}

func fenceHeader(h nats.Header, bucket string, fence uint64) {
	h.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(fence, 10))
	h.Set(jetstream.ExpectedLastSubjSeqSubjHeader, subjects.KVSubject(bucket, subjects.KeyOwner))
}

// Fenced says whether a write was refused because the owner's record has changed.
func Fenced(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence
}

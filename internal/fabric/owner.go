package fabric

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall"
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
	var revision uint64
	var last wire.OwnerRecord
	entry, err := kv.Get(ctx, subjects.KeyOwner)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
	case err != nil:
		return 0, fmt.Errorf("fabric: owner of %s: %w", bucket, err)
	default:
		revision = entry.Revision()
		if subjects.Decode(entry.Value(), &last) != nil {
			last.Reset()
		}
	}
	if last.Generation > g.Generation {
		return 0, fmt.Errorf("%w: %s belongs to %q, generation %d", rollcall.ErrNotOwner, bucket, last.Holder, last.Generation)
	}
	value, err := subjects.Encode(&wire.OwnerRecord{Generation: g.Generation, Holder: holder})
	if err != nil {
		return 0, err
	}
	if fence, err = kv.Update(ctx, subjects.KeyOwner, value, revision); err != nil {
		return 0, fmt.Errorf("fabric: taking over %s: %w", bucket, err)
	}
	return fence, nil
}

// Fence is the option by which a write to a bucket expects its owner's record to be
// of the revision that [TakeOver] returned.
func Fence(bucket string, fence uint64) jetstream.PublishOpt {
	return jetstream.WithExpectLastSequenceForSubject(fence, subjects.KVSubject(bucket, subjects.KeyOwner))
}

// Fenced says whether a write was refused because the owner's record has changed.
func Fenced(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence
}

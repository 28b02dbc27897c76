package fabric

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall/subjects"
)

// Last is a record of a bucket and its revision. One that is gone has no value, but a revision if it was there:
// whoever writes it again must expect that. Records that never expire can be gone: the store remembers
// by sequence what shall expire, also if it has lost the message and given its sequence to another.
//
// It asks the leader of the bucket. The newer API lets any replica answer: one that does not know yet what was
// acknowledged, or one that hangs.
func Last(ctx context.Context, js jetstream.JetStream, bucket, key string) (value []byte, revision uint64, err error) {
	leader, err := js.Conn().JetStream()
	if err != nil {
		return nil, 0, err
	}
	m, err := leader.GetLastMsg(subjects.KVStream(bucket), subjects.KVSubject(bucket, key), nats.Context(ctx))
	switch {
	case errors.Is(err, nats.ErrMsgNotFound):
		return nil, 0, nil
	case err != nil:
		return nil, 0, err
	case subjects.KVGone(m.Header):
		return nil, m.Sequence, nil
	}
	return append([]byte{}, m.Data...), m.Sequence, nil
}

// RecordAt is the record of a bucket with a revision, by its leader. It fails with [nats.ErrMsgNotFound].
func RecordAt(ctx context.Context, js jetstream.JetStream, bucket string, revision uint64) (*nats.RawStreamMsg, error) {
	leader, err := js.Conn().JetStream()
	if err != nil {
		return nil, err
	}
	return leader.GetMsg(subjects.KVStream(bucket), revision, nats.Context(ctx))
}

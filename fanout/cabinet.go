package fanout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// A cabinet is where the policies of a shard are stored: the bucket of its views, so
// that one sequence orders both. A record is written only over the revision that was
// read, whoever owns the shard.
type cabinet struct {
	js     jetstream.JetStream
	bucket string
	shard  int
}

func (f *Fanout) cabinet(shard int) cabinet {
	return cabinet{f.js, f.fabric.ViewsBucket(shard), shard}
}

// policy is nil for a user without one. The revision is what a write must expect, also
// of a record that cannot be read, for which err is [subjects.ErrMalformed].
func (c cabinet) policy(ctx context.Context, user string) (p *wire.Policy, revision uint64, err error) {
	data, revision, err := c.get(ctx, subjects.KeyPolicy(user))
	if err != nil || data == nil {
		return nil, revision, err
	}
	if p, err = decodePolicy(data); err != nil {
		return nil, revision, fmt.Errorf("fanout: policy of %q: %w", user, err)
	}
	return p, revision, nil
}

func (c cabinet) groups(ctx context.Context, user string) (groups []string, revision uint64, err error) {
	data, revision, err := c.get(ctx, subjects.KeyGroups(user))
	if err != nil || data == nil {
		return nil, revision, err
	}
	if groups, err = decodeGroups(data); err != nil {
		return nil, revision, fmt.Errorf("fanout: groups of %q: %w", user, err)
	}
	return groups, revision, nil
}

// get reads one record; data is nil if there is none.
func (c cabinet) get(ctx context.Context, key string) (data []byte, revision uint64, err error) {
	return fabric.Last(ctx, c.js, c.bucket, key)
}

// goneTTL is how long a record that was ended leaves a trace for readers who were away.
const goneTTL = time.Hour

// put writes a record over a revision; nil ends it.
func (c cabinet) put(ctx context.Context, key string, record proto.Message, revision uint64) (written uint64, err error) {
	m := &nats.Msg{Subject: subjects.KVSubject(c.bucket, key)}
	options := []jetstream.PublishOpt{jetstream.WithExpectLastSequencePerSubject(revision)}
	if record == nil {
		m.Header = subjects.KVPurge()
		options = append(options, jetstream.WithMsgTTL(goneTTL))
	} else if m.Data, err = subjects.Encode(record); err != nil {
		return 0, err
	}
	ack, err := c.js.PublishMsg(ctx, m, options...)
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

// overtaken says that somebody else has written the record since it was read, or is
// just doing so.
func overtaken(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) &&
		(api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

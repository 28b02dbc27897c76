package cohort

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall/cohort/machine"
	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/internal/feed"
	"github.com/rollcall-io/rollcall/subjects"
)

// writeTimeout is how long one call to the store may take.
const writeTimeout = 2 * time.Second

// markerTTL is how long a record that was ended leaves a trace.
const markerTTL = time.Hour

// A store holds the records of one group.
type store struct {
	js     jetstream.JetStream
	bucket string
	group  string
	hook   func(key string, stored bool) // of tests; nil otherwise
}

// openStore finds the bucket.
func openStore(ctx context.Context, nc *nats.Conn, bucket, group string) (*store, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("cohort: %w", err)
	}
	_, err = js.Stream(ctx, subjects.KVStream(bucket))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, fmt.Errorf("%w: no bucket %s", ErrNoGroup, bucket)
	}
	if err != nil {
		return nil, fmt.Errorf("cohort: bucket %s: %w", bucket, err)
	}
	return &store{js: js, bucket: bucket, group: group}, nil
}

// makeStore finds the bucket or makes it. One that is there may be replicated, and stays so.
func makeStore(ctx context.Context, nc *nats.Conn, bucket, group string) (*store, error) {
	s, err := openStore(ctx, nc, bucket, group)
	if !errors.Is(err, ErrNoGroup) {
		return s, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("cohort: %w", err)
	}
	if _, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
		Bucket: bucket, History: 1, LimitMarkerTTL: markerTTL, Storage: jetstream.FileStorage,
	}); err != nil && !errors.Is(err, jetstream.ErrBucketExists) {
		return nil, fmt.Errorf("cohort: making the bucket %s: %w", bucket, err)
	}
	return openStore(ctx, nc, bucket, group)
}

// A record is what is stored under a key.
type record struct {
	revision uint64
	value    []byte // nil if there is none, or it was ended
}

// get reads a record; one that is not there has no value, but a revision if it was ended.
func (s *store) get(ctx context.Context, key string) (record, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	value, revision, err := fabric.Last(ctx, s.js, s.bucket, key)
	if err != nil {
		return record{}, fmt.Errorf("cohort: reading %s: %w", key, err)
	}
	return record{revision, value}, nil
}

// put writes a record, whose last revision must be as expected. It fails with errConflict if it
// is another; after any other error the record may have been written all the same. A record
// with a TTL ends by itself.
func (s *store) put(ctx context.Context, key string, value any, expected uint64, ttl time.Duration) (revision uint64, err error) {
	data, err := json.Marshal(value)
	if err != nil {
		return 0, fmt.Errorf("cohort: encoding %s: %w", key, err)
	}
	options := []jetstream.PublishOpt{}
	if ttl > 0 {
		options = append(options, jetstream.WithMsgTTL(ttl))
	}
	return s.publish(ctx, &nats.Msg{Subject: subjects.KVSubject(s.bucket, key), Data: data}, expected, options...)
}

// end ends a record, if its revision is as expected. Its errors are those of put.
func (s *store) end(ctx context.Context, key, reason string, expected uint64) (revision uint64, err error) {
	msg := &nats.Msg{Subject: subjects.KVSubject(s.bucket, key), Header: subjects.CohortEnd(reason)}
	return s.publish(ctx, msg, expected, jetstream.WithMsgTTL(markerTTL))
}

func (s *store) publish(ctx context.Context, msg *nats.Msg, expected uint64, options ...jetstream.PublishOpt) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if s.hook != nil {
		s.hook(subjects.KVKey(s.bucket, msg.Subject), false)
		defer s.hook(subjects.KVKey(s.bucket, msg.Subject), true)
	}
	ack, err := s.js.PublishMsg(ctx, msg, append(options, jetstream.WithExpectLastSequencePerSubject(expected), jetstream.WithRetryAttempts(0))...)
	if conflicts(err) {
		return 0, fmt.Errorf("%w: %w", errConflict, err)
	}
	if err != nil {
		return 0, fmt.Errorf("cohort: writing %s: %w", msg.Subject, err)
	}
	return ack.Sequence, nil
}

// conflicts says whether a write was refused for the revision that it expected. A replicated
// stream refuses one too while another to the same subject is under way.
func conflicts(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) &&
		(api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

// follow reads the last record of these keys, and then every change.
func (s *store) follow(keys ...string) *feed.Reader {
	filter := make([]string, len(keys))
	for i, key := range keys {
		filter[i] = subjects.KVSubject(s.bucket, key)
	}
	return feed.New(s.js, feed.Config{Stream: subjects.KVStream(s.bucket), Subjects: filter})
}

// entry makes a message of the bucket an entry for a machine. With an error it is one as well: of a
// record that cannot be read.
func (s *store) entry(msg feed.Msg) (machine.Entry, error) {
	_, kind, id, err := subjects.ParseCohort(subjects.KVKey(s.bucket, msg.Subject))
	if err != nil {
		return machine.Entry{}, err
	}
	e := machine.Entry{Kind: kind, ID: id, Revision: msg.Seq, Time: msg.Time}
	if subjects.KVGone(msg.Header) {
		e.Reason = subjects.CohortEndReason(msg.Header)
		return e, nil
	}
	if e.Record, err = decode(kind, msg.Data); err != nil {
		e.Record, e.Reason = nil, machine.ReasonUnreadable
	}
	return e, err
}

func decode(kind subjects.CohortKind, data []byte) (any, error) {
	switch kind {
	case subjects.CohortGroupKind:
		return subjects.DecodeCohort[subjects.CohortGroup](data)
	case subjects.CohortLeaseKind:
		return subjects.DecodeCohort[subjects.CohortLease](data)
	case subjects.CohortPlanKind:
		return subjects.DecodeCohort[subjects.CohortPlan](data)
	case subjects.CohortOrdersKind:
		return subjects.DecodeCohort[subjects.CohortOrders](data)
	case subjects.CohortMemberKind:
		return subjects.DecodeCohort[subjects.CohortMember](data)
	}
	return subjects.DecodeCohort[subjects.CohortPart](data)
}

// settings reads what the members agree on.
func (s *store) settings(ctx context.Context) (*subjects.CohortGroup, error) {
	stored, err := s.get(ctx, subjects.KeyCohort(s.group, subjects.CohortGroupKind))
	if err != nil {
		return nil, err
	}
	if stored.value == nil {
		return nil, fmt.Errorf("%w: %q", ErrNoGroup, s.group)
	}
	return subjects.DecodeCohort[subjects.CohortGroup](stored.value)
}

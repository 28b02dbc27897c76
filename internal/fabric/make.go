package fabric

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall/subjects"
)

// Done is what was done to a stream or bucket.
type Done string

// What can be done.
const (
	Made    Done = "made"
	Changed Done = "changed"
	Kept    Done = "kept"
)

// markerTTL is how long a key that has ended leaves a trace: long enough for a
// watcher that reconnects.
const markerTTL = time.Hour

// groups are those whose members share shards out, each with a bucket for it, and the workers of
// applications, who share one. The members could make it themselves, and do where they may; under
// identities they may not.
var groups = [...]string{subjects.KeeperGroup, subjects.FanoutGroup, subjects.LedgerGroup, subjects.WorkersBucket}

// bucketOf is how nats.go would configure a bucket, which cannot say by itself that several
// messages may be written as one batch; see [Batched].
func bucketOf(name string, replicas int, metadata map[string]string) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: subjects.KVStream(name), Subjects: []string{subjects.KVSubject(name, ">")}, Metadata: metadata,
		Storage: jetstream.FileStorage, Replicas: replicas, AllowAtomicPublish: replicas > 1,
		MaxMsgsPerSubject: 1, MaxMsgs: -1, MaxBytes: -1, MaxMsgSize: -1, MaxConsumers: -1, Discard: jetstream.DiscardNew,
		AllowMsgTTL: true, SubjectDeleteMarkerTTL: markerTTL, Duplicates: 2 * time.Minute,
		AllowRollup: true, DenyDelete: true, AllowDirect: true,
	}
}

// A maker makes what is missing and reports what it did.
type maker struct {
	ctx context.Context
	js  jetstream.JetStream
	cfg Config
}

func (m maker) shard(names subjects.Names, shard int) error {
	metadata, err := metadataOf(names, shard, m.cfg)
	if err != nil {
		return err
	}
	// Interest parts and edge leases expire by themselves.
	for _, b := range []jetstream.StreamConfig{
		bucketOf(names.LeasesBucket(shard), m.cfg.Replicas, metadata),
		bucketOf(names.ViewsBucket(shard), m.cfg.Replicas, nil),
		bucketOf(names.InterestBucket(shard), m.cfg.Replicas, nil),
	} {
		if err := m.bucket(b); err != nil {
			return err
		}
	}
	// No direct reads: an edge that asks for its own last frame must get the
	// leader's answer.
	for _, s := range []jetstream.StreamConfig{
		{Name: names.BeatsStream(shard), Subjects: []string{names.BeatsSubjects(shard)}},
		{Name: names.LogStream(shard), Subjects: []string{names.LogSubjects(shard)}, Metadata: metadata},
	} {
		s.MaxAge, s.Replicas, s.Storage = m.cfg.Retention, m.cfg.Replicas, jetstream.FileStorage
		if m.cfg.archived() > 0 {
			s.MaxAge = 0 // the archiver purges
		}
		if err := m.stream(s); err != nil {
			return err
		}
	}
	return nil
}

// bucket leaves batches allowed where they were: whoever writes them goes on, also when one
// replica is enough again.
func (m maker) bucket(want jetstream.StreamConfig) error {
	found, err := m.look(want.Name)
	if err != nil {
		return fmt.Errorf("%s: %w", want.Name, err)
	}
	if found != nil && found.AllowAtomicPublish {
		want.AllowAtomicPublish = true
	}
	return m.make("bucket "+strings.TrimPrefix(want.Name, subjects.KVStream("")), want)
}

func (m maker) stream(want jetstream.StreamConfig) error { return m.make("stream "+want.Name, want) }

func (m maker) make(what string, want jetstream.StreamConfig) error {
	found, err := m.find(want.Name)
	if err == nil && !m.cfg.DryRun {
		_, err = m.js.CreateOrUpdateStream(m.ctx, want)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	m.report(what, found, func() bool { return like(*found, want) })
	return nil
}

// bucketOnce makes a bucket that is missing. One that is there stays as it is, but for the number of
// replicas.
func (m maker) bucketOnce(want jetstream.StreamConfig) error {
	found, err := m.look(want.Name)
	if err != nil {
		return fmt.Errorf("%s: %w", want.Name, err)
	}
	if found != nil {
		replicas := want.Replicas
		want = *found
		want.Replicas = replicas
	}
	return m.bucket(want)
}

// find looks only if somebody wants to hear of it.
func (m maker) find(name string) (*jetstream.StreamConfig, error) {
	if m.cfg.Report == nil && !m.cfg.DryRun {
		return nil, nil
	}
	return m.look(name)
}

// look tells how a stream is configured; nil if there is none.
func (m maker) look(name string) (*jetstream.StreamConfig, error) {
	stream, err := m.js.Stream(m.ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &stream.CachedInfo().Config, nil
}

func (m maker) report(what string, found *jetstream.StreamConfig, same func() bool) {
	if m.cfg.Report == nil {
		return
	}
	switch {
	case found == nil:
		m.cfg.Report(what, Made)
	case same():
		m.cfg.Report(what, Kept)
	default:
		m.cfg.Report(what, Changed)
	}
}

// like says whether a stream is as it is wanted.
func like(found, want jetstream.StreamConfig) bool {
	return found.MaxAge == want.MaxAge && slices.Equal(found.Subjects, want.Subjects) && found.Replicas == want.Replicas &&
		found.Storage == want.Storage && maps.Equal(ownMetadata(found), ownMetadata(want)) &&
		(found.MaxMsgsPerSubject == want.MaxMsgsPerSubject || want.MaxMsgsPerSubject == 0) &&
		found.SubjectDeleteMarkerTTL == want.SubjectDeleteMarkerTTL && found.AllowAtomicPublish == want.AllowAtomicPublish
}

// ownMetadata leaves out what the server adds.
func ownMetadata(c jetstream.StreamConfig) map[string]string {
	own := maps.Clone(c.Metadata)
	maps.DeleteFunc(own, func(key, _ string) bool { return strings.HasPrefix(key, "_nats.") })
	return own
}

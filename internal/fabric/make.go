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

func generations(names subjects.Names, group string, cfg Config) jetstream.KeyValueConfig {
	return jetstream.KeyValueConfig{
		Bucket: names.CohortBucket(group), History: 1, LimitMarkerTTL: markerTTL, Replicas: cfg.Replicas, Storage: jetstream.FileStorage,
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
	for _, b := range []jetstream.KeyValueConfig{
		{Bucket: names.LeasesBucket(shard), Metadata: metadata},
		{Bucket: names.ViewsBucket(shard)},
		{Bucket: names.InterestBucket(shard)},
	} {
		// Interest parts and edge leases expire by themselves.
		b.History, b.LimitMarkerTTL, b.Replicas, b.Storage = 1, markerTTL, m.cfg.Replicas, jetstream.FileStorage
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

func (m maker) stream(want jetstream.StreamConfig) error {
	found, err := m.find(want.Name)
	if err == nil && !m.cfg.DryRun {
		_, err = m.js.CreateOrUpdateStream(m.ctx, want)
	}
	if err != nil {
		return fmt.Errorf("stream %s: %w", want.Name, err)
	}
	m.report("stream "+want.Name, found, func() bool {
		return found.MaxAge == want.MaxAge && slices.Equal(found.Subjects, want.Subjects) && m.like(*found, want.Metadata)
	})
	return nil
}

// bucketOnce makes a bucket that is missing. One that is there stays as it is, but for the number of
// replicas.
func (m maker) bucketOnce(want jetstream.KeyValueConfig) error {
	found, err := m.look(subjects.KVStream(want.Bucket))
	if err == nil && !m.cfg.DryRun {
		switch {
		case found == nil:
			_, err = m.js.CreateOrUpdateKeyValue(m.ctx, want)
		case found.Replicas != want.Replicas:
			resized := *found
			resized.Replicas = want.Replicas
			_, err = m.js.UpdateStream(m.ctx, resized)
		}
	}
	if err != nil {
		return fmt.Errorf("bucket %s: %w", want.Bucket, err)
	}
	m.report("bucket "+want.Bucket, found, func() bool { return found.Replicas == want.Replicas })
	return nil
}

func (m maker) bucket(want jetstream.KeyValueConfig) error {
	found, err := m.find(subjects.KVStream(want.Bucket))
	if err == nil && !m.cfg.DryRun {
		_, err = m.js.CreateOrUpdateKeyValue(m.ctx, want)
	}
	if err != nil {
		return fmt.Errorf("bucket %s: %w", want.Bucket, err)
	}
	m.report("bucket "+want.Bucket, found, func() bool {
		return found.MaxMsgsPerSubject == int64(want.History) && found.SubjectDeleteMarkerTTL == want.LimitMarkerTTL &&
			m.like(*found, want.Metadata)
	})
	return nil
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

// like says whether a stream has the rest of what is wanted; the server adds metadata
// of its own.
func (m maker) like(found jetstream.StreamConfig, metadata map[string]string) bool {
	own := maps.Clone(found.Metadata)
	maps.DeleteFunc(own, func(key, _ string) bool { return strings.HasPrefix(key, "_nats.") })
	return found.Replicas == m.cfg.Replicas && found.Storage == jetstream.FileStorage && maps.Equal(own, metadata)
}

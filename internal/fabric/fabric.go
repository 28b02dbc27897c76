package fabric

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/internal/retry"
	"github.com/rollcall-io/rollcall/subjects"
)

// Errors of this package.
var (
	ErrShards  = errors.New("fabric: the number of shards is fixed when a fabric is created")
	ErrForeign = errors.New("fabric: a stream with our name does not belong to a fabric")
)

// Fabric is what every part needs to know to take part.
type Fabric struct {
	subjects.Names
	Params rollcall.Params
	// Archive is how long at least log and heartbeats are kept that are archived, in a
	// fabric that lets none of them expire before; 0 in one that does.
	Archive time.Duration
}

// Config describes a fabric to be made.
type Config struct {
	Prefix string          // default subjects.DefaultPrefix
	Shards int             // default: what exists, or subjects.DefaultShards
	Params rollcall.Params // default: what exists, or rollcall.Default()
	// Unchecked skips Params.Validate, for experiments with timing that must flap.
	Unchecked bool
	// Replicas of every stream and bucket, 1 to 5; default: what exists, or 1.
	Replicas int
	// Retention of the log and of the raw heartbeats; default: what exists, or
	// 48 h. A keeper that was away for longer starts from the edges' rosters.
	Retention time.Duration
	// Archive is whether log and heartbeats stay until they are archived, and so for ever
	// if nobody archives them; nil: what exists, or not.
	Archive *bool
	// DryRun changes nothing, and only reports what would be done.
	DryRun bool
	// Report hears of every stream and bucket; nil for nobody.
	Report func(what string, done Done)
}

// What a new fabric gets unless configured.
const (
	defaultReplicas  = 1
	defaultRetention = 48 * time.Hour
)

// Keys of the metadata of the first log stream, and of a copy at the first bucket of
// leases, which is looked at when that stream is lost.
const (
	metaShards  = "rollcall.shards"
	metaParams  = "rollcall.params"
	metaArchive = "rollcall.archive" // the retention of a fabric that is archived
)

// Ensure makes or updates the streams and buckets of a fabric.
func Ensure(ctx context.Context, js jetstream.JetStream, cfg Config) (Fabric, error) {
	cfg, err := withDefaults(ctx, js, cfg)
	if err != nil {
		return Fabric{}, err
	}
	names, err := subjects.New(cfg.Prefix, cfg.Shards)
	if err != nil {
		return Fabric{}, err
	}
	m := maker{ctx, js, cfg}
	for _, group := range groups {
		if err := m.bucketOnce(bucketOf(names.CohortBucket(group), cfg.Replicas, nil)); err != nil {
			return Fabric{}, fmt.Errorf("fabric: %w", err)
		}
	}
	// The stream with the metadata comes last, so that a fabric that can be found
	// is complete.
	for shard := cfg.Shards - 1; shard >= 0; shard-- {
		if err := m.shard(names, shard); err != nil {
			return Fabric{}, fmt.Errorf("fabric: shard %d: %w", shard, err)
		}
	}
	return Fabric{names, cfg.Params, cfg.archived()}, nil
}

// archived is the retention if it is the archiver's, else 0.
func (c Config) archived() time.Duration {
	if c.Archive != nil && *c.Archive {
		return c.Retention
	}
	return 0
}

func withDefaults(ctx context.Context, js jetstream.JetStream, cfg Config) (Config, error) {
	if cfg.Prefix == "" {
		cfg.Prefix = subjects.DefaultPrefix
	}
	base := Config{
		Shards: subjects.DefaultShards, Params: rollcall.Default(),
		Replicas: defaultReplicas, Retention: defaultRetention, Archive: new(bool),
	}
	existing, log, err := lookup(ctx, js, cfg.Prefix)
	if errors.Is(err, rollcall.ErrNoFabric) {
		if existing, log, err = lookupCopy(ctx, js, cfg.Prefix); err == nil {
			log.MaxAge = defaultRetention
		}
	}
	switch {
	case errors.Is(err, rollcall.ErrNoFabric):
	case err != nil:
		return cfg, err
	case cfg.Shards != 0 && cfg.Shards != existing.Shards():
		return cfg, fmt.Errorf("%w: %q has %d, not %d", ErrShards, cfg.Prefix, existing.Shards(), cfg.Shards)
	default:
		archive := existing.Archive > 0
		base = Config{
			Shards: existing.Shards(), Params: existing.Params, Replicas: log.Replicas, Archive: &archive,
			Retention: cmp.Or(existing.Archive, log.MaxAge),
		}
	}
	cfg.Shards = cmp.Or(cfg.Shards, base.Shards)
	cfg.Params = cmp.Or(cfg.Params, base.Params)
	cfg.Replicas = cmp.Or(cfg.Replicas, base.Replicas)
	cfg.Retention = cmp.Or(cfg.Retention, base.Retention)
	if cfg.Archive = cmp.Or(cfg.Archive, base.Archive); *cfg.Archive {
		cfg.Retention = cmp.Or(cfg.Retention, defaultRetention) // nothing was to expire before
	}
	if _, err := cfg.Params.Validate(); err != nil && !cfg.Unchecked {
		return cfg, err
	}
	return cfg, nil
}

// metadataOf is what the streams of a shard say of the fabric: the first ones all,
// the others nothing.
func metadataOf(names subjects.Names, shard int, cfg Config) (map[string]string, error) {
	if shard > 0 {
		return map[string]string{}, nil
	}
	params, err := json.Marshal(cfg.Params)
	metadata := map[string]string{metaShards: strconv.Itoa(names.Shards()), metaParams: string(params)}
	if retention := cfg.archived(); retention > 0 {
		metadata[metaArchive] = retention.String()
	}
	return metadata, err
}

// Lookup finds the fabric with the given prefix. It fails with [rollcall.ErrNoFabric] if
// there is none.
func Lookup(ctx context.Context, js jetstream.JetStream, prefix string) (Fabric, error) {
	f, _, err := lookup(ctx, js, prefix)
	return f, err
}

// lookup also tells how the first log stream is configured.
func lookup(ctx context.Context, js jetstream.JetStream, prefix string) (Fabric, jetstream.StreamConfig, error) {
	first, err := subjects.New(prefix, 1)
	if err != nil {
		return Fabric{}, jetstream.StreamConfig{}, err
	}
	return lookupAt(ctx, js, first, first.LogStream(0))
}

// lookupCopy finds a fabric that has lost its first log stream.
func lookupCopy(ctx context.Context, js jetstream.JetStream, prefix string) (Fabric, jetstream.StreamConfig, error) {
	first, err := subjects.New(prefix, 1)
	if err != nil {
		return Fabric{}, jetstream.StreamConfig{}, err
	}
	return lookupAt(ctx, js, first, subjects.KVStream(first.LeasesBucket(0)))
}

func lookupAt(ctx context.Context, js jetstream.JetStream, first subjects.Names, name string) (Fabric, jetstream.StreamConfig, error) {
	stream, err := js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return Fabric{}, jetstream.StreamConfig{}, fmt.Errorf("%w: no stream %s; start `rollcall up` on this server first", rollcall.ErrNoFabric, name)
	}
	if err != nil {
		return Fabric{}, jetstream.StreamConfig{}, fmt.Errorf("fabric: looking up %s: %w", name, err)
	}
	config := stream.CachedInfo().Config
	f, err := parse(first, name, config.Metadata)
	return f, config, err
}

// parse reads the metadata of a stream.
func parse(first subjects.Names, name string, metadata map[string]string) (Fabric, error) {
	shards, err := strconv.Atoi(metadata[metaShards])
	if err != nil {
		return Fabric{}, fmt.Errorf("%w: metadata %s of %s is %q", ErrForeign, metaShards, name, metadata[metaShards])
	}
	names, err := subjects.New(first.Prefix(), shards)
	if err != nil {
		return Fabric{}, fmt.Errorf("%w: metadata %s of %s: %w", ErrForeign, metaShards, name, err)
	}
	params := rollcall.Default()
	if err := json.Unmarshal([]byte(metadata[metaParams]), &params); err != nil {
		return Fabric{}, fmt.Errorf("%w: metadata %s of %s: %w", ErrForeign, metaParams, name, err)
	}
	var archive time.Duration
	if text, ok := metadata[metaArchive]; ok {
		if archive, err = time.ParseDuration(text); err != nil || archive <= 0 {
			return Fabric{}, fmt.Errorf("%w: metadata %s of %s is %q", ErrForeign, metaArchive, name, text)
		}
	}
	return Fabric{names, params, archive}, nil
}

// Await is [Lookup] for a part that starts: it waits for a store that is away, but
// not for a fabric that nobody has made.
func Await(ctx context.Context, js jetstream.JetStream, prefix string, log *slog.Logger) (Fabric, error) {
	const patience, first, last = 5 * time.Second, 50 * time.Millisecond, 2 * time.Second
	for attempt := 0; ; attempt++ {
		looking, cancel := context.WithTimeout(ctx, patience)
		found, err := Lookup(looking, js, prefix)
		cancel()
		switch {
		case err == nil, errors.Is(err, rollcall.ErrNoFabric), errors.Is(err, ErrForeign), errors.Is(err, subjects.ErrNames):
			return found, err
		}
		log.Warn("looking for the fabric", "prefix", prefix, "err", err)
		if !retry.Pause(ctx, retry.Backoff(attempt, first, last, rand.Int64N)) {
			return found, ctx.Err()
		}
	}
}

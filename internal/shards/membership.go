package shards

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/cohort"
	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/internal/feed"
	"github.com/rollcall-io/rollcall/internal/retry"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

const (
	firstPause = 100 * time.Millisecond
	lastPause  = 2 * time.Second
	// farewell is how long a goodbye may take.
	farewell = 5 * time.Second
)

// A membership is one call of Own that shares the shards with others.
type membership struct {
	cfg         Config
	names       subjects.Names
	generations fabric.Generations
	known       chan struct{} // closed when the records that were there before are read

	mu     sync.Mutex
	loaded bool
	seen   map[int]uint64  // the highest generation of each shard
	before map[string]bool // who owned alone before this process began
}

func newMembership(cfg Config, names subjects.Names) *membership {
	return &membership{
		cfg: cfg, names: names, generations: fabric.Generations{JetStream: cfg.JetStream, Names: names, Group: cfg.Group},
		known: make(chan struct{}), seen: make(map[int]uint64), before: make(map[string]bool),
	}
}

// own takes part until owning ends, and says goodbye unless ctx has ended too.
func (m *membership) own(ctx, owning context.Context, run Run) error {
	group, owning := errgroup.WithContext(owning)
	group.Go(func() error { return m.watch(owning) })
	group.Go(func() error { return m.takePart(ctx, owning, run) })
	return group.Wait()
}

func (m *membership) takePart(ctx, owning context.Context, run Run) error {
	select {
	case <-m.known:
	case <-owning.Done():
		return owning.Err()
	}
	member, err := m.join(ctx, owning)
	if err != nil {
		return err
	}
	err = member.Own(owning, func(ctx context.Context, g rollcall.Grant) error {
		claimed, err := m.claim(ctx, member, g)
		if err != nil {
			return err
		}
		err = run(ctx, claimed)
		m.cfg.Logger.Info("shard released", "group", m.cfg.Group, "shard", g.Shard, "generation", claimed.Generation)
		return err
	})
	if ctx.Err() == nil && member.Err() == nil {
		if failed := m.leave(ctx, member); failed != nil {
			return failed
		}
	}
	<-member.Done()
	if errors.Is(err, cohort.ErrReplaced) {
		return fmt.Errorf("%w: another %s runs under the id %q; give each an id of its own", err, m.cfg.Group, m.cfg.Member)
	}
	return err
}

// leave says goodbye for good: all runs have returned.
func (m *membership) leave(ctx context.Context, member *cohort.Member) error {
	ctx, cancel := context.WithTimeout(ctx, farewell)
	defer cancel()
	return member.Retire(ctx)
}

// join waits for a store that is away.
func (m *membership) join(ctx, owning context.Context) (*cohort.Member, error) {
	refusals := fabric.Refusals{Log: m.cfg.Logger, What: "joining the group " + m.cfg.Group}
	for attempt := 0; ; attempt++ {
		member, err := cohort.Join(ctx, m.cfg.Conn, cohort.Config{
			Group: m.cfg.Group, ID: m.cfg.Member, Partitions: m.names.Shards(), Prefix: m.names.Prefix(), Bucket: m.cfg.Group,
			Registerer: m.cfg.Registerer, Logger: m.cfg.Logger, Info: m.cfg.Holder,
		})
		if err == nil || errors.Is(err, cohort.ErrDiffers) || errors.Is(err, cohort.ErrConfig) {
			return member, err
		}
		if owning.Err() == nil {
			refusals.Note(err)
		}
		if !retry.Pause(owning, retry.Backoff(attempt, firstPause, lastPause, rand.Int64N)) {
			return nil, owning.Err()
		}
	}
}

// claim writes the record of a shard that the group has given us, and returns the grant by which
// the part is fenced.
func (m *membership) claim(ctx context.Context, member *cohort.Member, g rollcall.Grant) (rollcall.Grant, error) {
	for attempt := 0; ; attempt++ {
		last, revision, err := m.generations.Last(ctx, g.Shard, func(err error) {
			m.cfg.Logger.Warn("record of a generation cannot be read", "shard", g.Shard, "err", err)
		})
		if err != nil {
			return g, err
		}
		if err := m.saw(g.Shard, last); err != nil {
			return g, err
		}
		committed, err := member.Offset(g.Shard)
		if err != nil {
			return g, err
		}
		next := rollcall.NextGeneration(max(last.Generation, committed, g.Generation-1), time.Now())
		// The group knows after the record was read that the shard is ours: whoever is given it
		// later reads a later record. So nobody takes it back from a successor.
		if err := member.Commit(ctx, g.Shard, next); err != nil {
			return g, err
		}
		err = m.generations.Put(ctx, g.Shard, &wire.OwnerRecord{Generation: next, Holder: m.cfg.Holder, Member: m.cfg.Member}, revision)
		if err == nil {
			return rollcall.Grant{Shard: g.Shard, Generation: next}, nil
		}
		if !fabric.Fenced(err) || !retry.Pause(ctx, retry.Backoff(attempt, firstPause, lastPause, rand.Int64N)) {
			return g, err
		}
	}
}

// watch reads the records of all shards. It ends when somebody takes all of them over alone.
func (m *membership) watch(ctx context.Context) error {
	kv, err := m.open(ctx)
	if err != nil {
		return err
	}
	keys := make([]string, m.names.Shards())
	shards := make(map[string]int, len(keys))
	for shard := range keys {
		keys[shard] = subjects.KVSubject(kv.Bucket(), subjects.KeyShard(shard))
		shards[keys[shard]] = shard
	}
	for {
		reader := feed.New(m.cfg.JetStream, feed.Config{Stream: subjects.KVStream(kv.Bucket()), Subjects: keys})
		err := reader.Run(ctx, func(_ context.Context, b feed.Batch) error {
			for _, msg := range b.Msgs {
				var record wire.OwnerRecord
				if subjects.Decode(msg.Data, &record) != nil {
					continue // claim tells of it
				}
				if err := m.saw(shards[msg.Subject], &record); err != nil {
					return err
				}
			}
			if b.Pending == 0 {
				m.load()
			}
			return nil
		})
		if !errors.As(err, new(*feed.RollbackError)) {
			return err
		}
	}
}

func (m *membership) open(ctx context.Context) (jetstream.KeyValue, error) {
	for attempt := 0; ; attempt++ {
		kv, err := m.generations.Open(ctx)
		if err == nil {
			return kv, nil
		}
		if ctx.Err() == nil {
			m.cfg.Logger.Warn("opening the bucket of the group, trying again", "group", m.cfg.Group, "err", err)
		}
		if !retry.Pause(ctx, retry.Backoff(attempt, firstPause, lastPause, rand.Int64N)) {
			return nil, ctx.Err()
		}
	}
}

// load says that all records were read that were there before.
func (m *membership) load() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.loaded {
		m.loaded = true
		close(m.known)
	}
}

// saw takes a record, and fails if it is of somebody who owns all shards alone and began after
// this process. What the store has lost and shows again is of somebody who began before.
func (m *membership) saw(shard int, record *wire.OwnerRecord) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	newer := record.Generation > m.seen[shard]
	m.seen[shard] = max(m.seen[shard], record.Generation)
	switch alone := record.Holder != "" && record.Member == ""; {
	case !alone:
	case !m.loaded:
		m.before[record.Holder] = true
	case newer && !m.before[record.Holder]:
		return fmt.Errorf("%w: %s %d was taken over by %q, which owns all shards alone", rollcall.ErrNotOwner, m.cfg.Group, shard, record.Holder)
	}
	return nil
}

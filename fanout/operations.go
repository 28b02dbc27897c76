package fanout

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
)

// A share is the part of a request that concerns one shard.
type share struct {
	shard   *shard
	targets []string
}

// shares splits a request by shard, in the order of shards. It fails if one of
// them does not answer here: an answer is whole or none.
func (f *Fanout) shares(targets []string) ([]share, error) {
	byShard := make(map[int][]string)
	for _, t := range targets {
		n := f.fabric.Shard(t)
		byShard[n] = append(byShard[n], t)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var shares []share
	for _, n := range slices.Sorted(maps.Keys(byShard)) {
		sh := f.shards[n]
		if sh == nil {
			return nil, unavailable()
		}
		shares = append(shares, share{sh, byShard[n]})
	}
	return shares, nil
}

// everyShard is a share of each shard of the fabric, without targets.
func (f *Fanout) everyShard() ([]share, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cfg.Ownership == nil && len(f.shards) < f.fabric.Shards() || len(f.shards) == 0 {
		return nil, unavailable()
	}
	var shares []share
	for _, n := range slices.Sorted(maps.Keys(f.shards)) {
		shares = append(shares, share{shard: f.shards[n]})
	}
	return shares, nil
}

func unavailable() error {
	return subjects.Errorf(subjects.CodeUnavailable, "the owner of a shard is starting, try again")
}

func (f *Fanout) subscribe(ctx context.Context, viewer string, targets []string) ([]byte, error) {
	shares, err := f.shares(targets)
	if err != nil {
		return nil, err
	}
	said := f.ask(ctx, viewer, targets)
	plans, err := f.plan(viewer, shares, said)
	if err != nil {
		return nil, err
	}
	if err := storePlans(ctx, viewer, shares, plans); err != nil {
		return nil, err
	}
	reply := newReply()
	for i, s := range shares {
		s.shard.step(func(b *board, now time.Time) {
			reply.add(func(data []byte) []byte { return b.subscribe(data, viewer, plans[i], said, now) })
		})
	}
	data, err := reply.end(int(f.nc.MaxPayload()))
	if err != nil {
		// The views have grown since the plan; take back what it added.
		for i, s := range shares {
			s.shard.forget(viewer, slices.Collect(maps.Keys(plans[i].place)))
		}
		return nil, err
	}
	return data, nil
}

// plan checks the limits before anything is changed.
func (f *Fanout) plan(viewer string, shares []share, said verdicts) ([]plan, error) {
	plans := make([]plan, len(shares))
	size, added := 0, 0
	for i, s := range shares {
		s.shard.step(func(b *board, now time.Time) {
			plans[i] = b.plan(viewer, s.targets, now)
			size += b.size(viewer, s.targets, said, now)
		})
		added += len(plans[i].place)
	}
	if limit := int(f.nc.MaxPayload()); size > limit {
		return nil, tooLarge(size, limit)
	}
	if added == 0 {
		f.metrics.resyncs.Inc()
		return plans, nil
	}
	if total := f.targetsOf(viewer) + added; total > subjects.MaxTargets {
		return nil, subjects.Errorf(subjects.CodeTooManyTargets, "%d targets in all, the limit is %d", total, subjects.MaxTargets)
	}
	return plans, nil
}

// targetsOf is how many targets a viewer is subscribed to.
func (f *Fanout) targetsOf(viewer string) (total int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, sh := range f.shards {
		sh.mu.Lock()
		total += sh.board.positionOf(viewer, time.Now()).Targets
		sh.mu.Unlock()
	}
	return total
}

// storePlans stores the records of all shards at the same time.
func storePlans(ctx context.Context, viewer string, shares []share, plans []plan) error {
	waits := make([]func(context.Context) error, len(shares))
	for i, s := range shares {
		waits[i] = s.shard.store.begin(viewer, plans[i].writes)
	}
	var failed error
	for i, wait := range waits {
		failed = errors.Join(failed, shares[i].shard.stored(wait(ctx)))
	}
	return failed
}

// stored turns a failure of the store into a refusal, and ends a shard that has
// been taken over.
func (sh *shard) stored(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, rollcall.ErrNotOwner) {
		sh.lose(err)
	}
	sh.log.Warn("interest not stored", "err", err)
	return subjects.Errorf(subjects.CodeUnavailable, "the interest could not be stored, try again")
}

// forget removes targets and leaves the records to the next write.
func (sh *shard) forget(viewer string, targets []string) {
	var writes []partWrite
	sh.step(func(b *board, now time.Time) { writes = b.unsubscribe(viewer, targets, false, now) })
	sh.store.begin(viewer, writes)
}

func (f *Fanout) get(ctx context.Context, viewer string, targets []string) ([]byte, error) {
	shares, err := f.shares(targets)
	if err != nil {
		return nil, err
	}
	said := f.ask(ctx, viewer, targets)
	reply := newReply()
	for _, s := range shares {
		s.shard.step(func(b *board, now time.Time) {
			reply.add(func(data []byte) []byte { return b.get(data, viewer, s.targets, said, now) })
		})
	}
	return reply.end(int(f.nc.MaxPayload()))
}

func (f *Fanout) unsubscribe(ctx context.Context, viewer string, targets []string) ([]byte, error) {
	all := len(targets) == 0
	shares, err := f.shares(targets)
	if all {
		shares, err = f.everyShard()
	}
	if err != nil {
		return nil, err
	}
	reply := newReply()
	waits := make([]func(context.Context) error, len(shares))
	for i, s := range shares {
		var writes []partWrite
		s.shard.step(func(b *board, now time.Time) {
			writes = b.unsubscribe(viewer, s.targets, all, now)
			reply.add(func(data []byte) []byte { return b.stand(data, viewer, now) })
		})
		waits[i] = s.shard.store.begin(viewer, writes)
	}
	for i, wait := range waits {
		err = errors.Join(err, shares[i].shard.stored(wait(ctx)))
	}
	if err != nil {
		return nil, err
	}
	return reply.end(int(f.nc.MaxPayload()))
}

// refresh does not wait for the store: if a record is not rewritten in time, a
// takeover loses it, and the client sees that at its next refresh.
func (f *Fanout) refresh(ctx context.Context, viewer string) ([]byte, error) {
	shares, err := f.everyShard()
	if err != nil {
		return nil, err
	}
	reply := newReply()
	for _, s := range shares {
		var writes []partWrite
		s.shard.step(func(b *board, now time.Time) {
			reply.addKnown(func(data []byte) (out []byte, known bool) {
				out, writes, known = b.refresh(data, viewer, now)
				return out, known
			})
		})
		if len(writes) > 0 {
			wait := s.shard.store.begin(viewer, writes)
			f.background(func() { s.shard.storeLater(ctx, viewer, writes, wait) })
		}
	}
	return reply.end(int(f.nc.MaxPayload()))
}

// storeLater waits for the store and takes note of a failure, so that the next
// refresh tries again.
func (sh *shard) storeLater(ctx context.Context, viewer string, writes []partWrite, wait func(context.Context) error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if sh.stored(wait(ctx)) == nil {
		return
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.board.unwritten(viewer, writes)
}

package fanout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/internal/feed"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// perform does a job in shards of this fanout, for a request of its own or for another
// fanout's. It changes nothing of a viewer while another job does.
func (f *Fanout) perform(ctx context.Context, j job, shares []share) (outcome, error) {
	switch j.kind {
	case wire.PeerRequest_KIND_SURVEY:
		return f.survey(j, shares), nil
	case wire.PeerRequest_KIND_GET:
		return outcome{reply: get(j, shares)}, nil
	case wire.PeerRequest_KIND_INSPECT:
		return f.inspect(j, shares), nil
	case wire.PeerRequest_KIND_AWAIT:
		ctx, cancel := context.WithTimeout(ctx, partTimeout) // then the shard may have moved
		defer cancel()
		return outcome{}, await(ctx, shares)
	}
	turn := f.turns[f.placeOf(j.id)]
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
		return outcome{}, unavailable()
	}
	var r *reply
	var err error
	switch j.kind {
	case wire.PeerRequest_KIND_SUBSCRIBE:
		r, err = f.enter(ctx, j, shares)
	case wire.PeerRequest_KIND_UNSUBSCRIBE:
		r, err = quit(ctx, j, shares)
	case wire.PeerRequest_KIND_REFRESH:
		r = f.renew(j, shares)
	default:
		err = fmt.Errorf("fanout: a job of kind %d", j.kind)
	}
	return outcome{reply: r}, err
}

// survey finds out what subscribing would bring about.
func (f *Fanout) survey(j job, shares []share) outcome {
	o := outcome{held: f.held(j.id)}
	for _, s := range shares {
		s.shard.look(func(b *board, now time.Time) {
			o.added = b.unknown(o.added, j.id, s.targets)
			o.size += b.size(j.id, s.targets, j.said, now)
		})
	}
	return o
}

// held is how many targets a viewer is subscribed to in the shards that this fanout owns.
func (f *Fanout) held(viewer string) (total int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for n := range f.shards {
		if sh, _ := f.ownerLocked(n); sh != nil {
			sh.look(func(b *board, now time.Time) { total += b.positionOf(viewer, now).Targets })
		}
	}
	return total
}

// enter subscribes a viewer: the interest is stored first.
func (f *Fanout) enter(ctx context.Context, j job, shares []share) (*reply, error) {
	plans := make([]plan, len(shares))
	for i, s := range shares {
		s.shard.step(func(b *board, now time.Time) { plans[i] = b.plan(j.id, s.targets, now) })
	}
	if err := storePlans(ctx, j.id, shares, plans); err != nil {
		return nil, err
	}
	r := newReply()
	for i, s := range shares {
		s.shard.step(func(b *board, now time.Time) {
			r.add(s.number, func(data []byte) []byte { return b.subscribe(data, j.id, plans[i], j.said, now) })
		})
	}
	return r, nil
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
	if errors.Is(err, rollcall.ErrNotOwner) {
		sh.lose(err)
	} else {
		sh.refusals.Note(err)
	}
	if err == nil {
		return nil
	}
	return subjects.Errorf(subjects.CodeUnavailable, "the interest could not be stored, try again")
}

func get(j job, shares []share) *reply {
	r := newReply()
	for _, s := range shares {
		s.shard.step(func(b *board, now time.Time) {
			r.add(s.number, func(data []byte) []byte { return b.get(data, j.id, s.targets, j.said, now) })
		})
	}
	return r
}

// quit unsubscribes a viewer from the targets of each share, or from all of the
// shard if it names none.
func quit(ctx context.Context, j job, shares []share) (*reply, error) {
	r := newReply()
	waits := make([]func(context.Context) error, len(shares))
	for i, s := range shares {
		var writes []partWrite
		s.shard.step(func(b *board, now time.Time) {
			writes = b.unsubscribe(j.id, s.targets, len(s.targets) == 0, now)
			r.add(s.number, func(data []byte) []byte { return b.stand(data, j.id, now) })
		})
		waits[i] = s.shard.store.begin(j.id, writes)
	}
	var failed error
	for i, wait := range waits {
		failed = errors.Join(failed, shares[i].shard.stored(wait(ctx)))
	}
	return r, failed
}

// renew does not wait for the store: if a record is not rewritten in time, a
// takeover loses it, and the client sees that at its next refresh.
func (f *Fanout) renew(j job, shares []share) *reply {
	r := newReply()
	for _, s := range shares {
		var writes []partWrite
		s.shard.step(func(b *board, now time.Time) {
			r.addKnown(s.number, func(data []byte) (out []byte, known bool) {
				out, writes, known = b.refresh(data, j.id, now)
				return out, known
			})
		})
		if len(writes) > 0 {
			wait := s.shard.store.begin(j.id, writes)
			f.background(func(ctx context.Context) { s.shard.storeLater(ctx, j.id, writes, wait) })
		}
	}
	return r
}

// storeLater waits for the store and takes note of a failure, so that the next
// refresh tries again.
func (sh *shard) storeLater(ctx context.Context, viewer string, writes []partWrite, wait func(context.Context) error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if sh.stored(wait(ctx)) == nil {
		return
	}
	sh.look(func(b *board, _ time.Time) { b.unwritten(viewer, writes) })
}

// inspect tells what a change of a user's policy begins from.
func (f *Fanout) inspect(j job, shares []share) outcome {
	o := outcome{reads: make(map[int]uint64, len(shares))}
	for _, s := range shares {
		o.reads[s.number] = s.shard.reader.Load().Position()
		if s.number == f.fabric.Shard(j.id) {
			s.shard.look(func(b *board, _ time.Time) { o.view = b.known.subject(j.id).view })
		}
	}
	return o
}

// await waits until the buckets of views are read up to the revisions of the shares.
func await(ctx context.Context, shares []share) error {
	readers := make([]*feed.Reader, len(shares))
	for i, s := range shares {
		if s.lost {
			// A record has taken the place of one that was read and that the store has
			// lost: the reader would not see it.
			readers[i] = s.shard.reader.Load()
			readers[i].Lost()
		}
	}
	for i, s := range shares {
		if !s.shard.await(ctx, s.revision, readers[i]) {
			return unavailable()
		}
	}
	return nil
}

// await waits until the shard has read its bucket up to a revision, by another reader
// than the given one.
func (sh *shard) await(ctx context.Context, revision uint64, not *feed.Reader) bool {
	for {
		sh.mu.Lock()
		reached, progress := sh.board.health.reached, sh.progress
		sh.mu.Unlock()
		if reached >= revision && sh.reader.Load() != not {
			return true
		}
		select {
		case <-progress:
		case <-ctx.Done():
			return false
		}
	}
}

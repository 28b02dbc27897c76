package cohort

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"golang.org/x/sync/errgroup"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/internal/retry"
	"github.com/rollcall-io/rollcall/subjects"
)

// A holding is a partition whose record names this connection.
type holding struct {
	Partition
	conn  string
	asked bool // under the member's lock

	// writing holds a token for whoever writes the record, and so may use what follows. It is no
	// mutex because the store may take its time, and a commit need not wait for ever.
	writing  chan struct{}
	revision uint64
	offset   uint64
	over     bool // released, or found to be lost
}

func (h *holding) part(id string, offset uint64) subjects.CohortPart {
	return subjects.CohortPart{Owner: id, Conn: h.conn, Generation: h.Generation, Offset: offset}
}

// claimsAtOnce bounds the claims under way.
const claimsAtOnce = 32

// claim takes what plans give us, again and again until nothing is left to take.
func (m *Member) claim(ctx context.Context) error {
	for failed := 0; ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-m.claimNow:
		}
		if err := m.claimAll(ctx); err != nil && ctx.Err() == nil {
			m.log.Warn("claiming partitions, trying again", "err", err)
			if !retry.Pause(ctx, retry.Backoff(failed, firstPause, lastPause, rand.Int64N)) {
				return ctx.Err()
			}
			failed++
			wake(m.claimNow)
		} else {
			failed = 0
		}
	}
}

// claimAll claims what is ours by the present plan, and hands it over together.
func (m *Member) claimAll(ctx context.Context) error {
	claims := m.claimable()
	var group errgroup.Group
	group.SetLimit(claimsAtOnce)
	for _, h := range claims {
		group.Go(func() error {
			end := m.cfg.hooks.op(op{Claim: true, Partition: h.Number, Conn: h.conn, Generation: h.Generation})
			err := m.take(ctx, h)
			end(h.Offset, err)
			if errors.Is(err, rollcall.ErrNotOwner) {
				m.giveBack(h)
				return nil
			}
			return err
		})
	}
	err := group.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, h := range claims {
		gen, ours := m.oursLocked(h.Number)
		if h.revision == 0 || !ours || gen != h.Generation || h.conn != m.conn || m.released[h.Number] == gen {
			continue // not taken, or given to somebody else meanwhile
		}
		h.asked = m.shareLocked(h.Number).Next != ""
		m.held[h.Number] = h
		m.metrics.claims.Inc()
	}
	m.handOverLocked()
	return err
}

func (m *Member) claimable() (claims []*holding) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for n, share := range m.plan.Partitions {
		gen, ours := m.oursLocked(n)
		if ours && m.held[n] == nil && m.released[n] != gen {
			claims = append(claims, &holding{Partition: Partition{Number: n, Generation: gen, Why: share.Why}, conn: m.conn, writing: make(chan struct{}, 1)})
		}
	}
	return claims
}

// giveBack is about a partition whose record says that somebody newer owns it. Most likely a plan
// is under way that says so too. If not, the store has lost that plan, and the coordinator must give
// the partition anew.
func (m *Member) giveBack(h *holding) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.giveBackLocked(h)
}

func (m *Member) giveBackLocked(h *holding) {
	if gen, ours := m.oursLocked(h.Number); ours && gen == h.Generation {
		m.released[h.Number] = gen
		wake(m.beatNow)
	}
}

// take writes our generation into a partition's record. From then on nothing of the owner before
// is stored there. It fails with [rollcall.ErrNotOwner] if a newer owner has been there already.
func (m *Member) take(ctx context.Context, h *holding) error {
	key := subjects.KeyCohortPart(m.cfg.Group, h.Number)
	for attempt := 0; ; attempt++ {
		stored, err := m.store.get(ctx, key)
		if err != nil {
			return err
		}
		part := new(subjects.CohortPart)
		if stored.value != nil {
			if part, err = subjects.DecodeCohort[subjects.CohortPart](stored.value); err != nil {
				return fmt.Errorf("cohort: %s cannot be read, and so nobody can know what was committed: %w", key, err)
			}
		}
		if part.Generation > h.Generation || part.Generation == h.Generation && part.Conn != h.conn {
			return notOwner(h.Number)
		}
		revision, err := m.store.put(ctx, key, h.part(m.cfg.ID, part.Offset), stored.revision, 0)
		if err == nil {
			h.revision, h.offset, h.Offset = revision, part.Offset, part.Offset
			return nil
		}
		if !errors.Is(err, errConflict) || !retry.Pause(ctx, retry.Backoff(attempt, firstPause/10, lastPause, rand.Int64N)) {
			return err
		}
	}
}

// Commit stores that the work of a partition is done up to an offset, which must not be below the
// one committed before. It fails with [rollcall.ErrNotOwner], and stores nothing, if the partition
// belongs to somebody else by now. After any other error it may be stored or not; commit again.
func (m *Member) Commit(ctx context.Context, partition int, offset uint64) error {
	m.mu.Lock()
	h := m.held[partition]
	m.mu.Unlock()
	if h == nil {
		m.metrics.commits.WithLabelValues("not_owner").Inc()
		return notOwner(partition)
	}
	err := m.commit(ctx, h, offset)
	switch {
	case err == nil:
		m.metrics.commits.WithLabelValues("stored").Inc()
		m.Progress()
	case errors.Is(err, rollcall.ErrNotOwner):
		m.metrics.commits.WithLabelValues("not_owner").Inc()
		m.lose(h)
	default:
		m.metrics.commits.WithLabelValues("failed").Inc()
	}
	return err
}

func (m *Member) commit(ctx context.Context, h *holding, offset uint64) (err error) {
	select {
	case h.writing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-h.writing }()
	if h.over {
		return notOwner(h.Number)
	}
	end := m.cfg.hooks.op(op{Partition: h.Number, Conn: h.conn, Generation: h.Generation, Offset: offset})
	defer func() { end(offset, err) }()
	key := subjects.KeyCohortPart(m.cfg.Group, h.Number)
	for attempt := 0; ; attempt++ {
		if offset < h.offset {
			return fmt.Errorf("%w: %d after %d in partition %d", ErrBackwards, offset, h.offset, h.Number)
		}
		revision, err := m.store.put(ctx, key, h.part(m.cfg.ID, offset), h.revision, 0)
		if err == nil {
			h.revision, h.offset = revision, offset
			return nil
		}
		if !errors.Is(err, errConflict) {
			return err
		}
		if err := m.refresh(ctx, h, key); err != nil {
			return err
		}
		if attempt > 0 && !retry.Pause(ctx, retry.Backoff(attempt, firstPause/10, lastPause, rand.Int64N)) {
			return ctx.Err()
		}
	}
}

// refresh finds out why a partition's record is not of the revision that we know: a write of ours
// was not acknowledged, the store has lost one that was, or somebody else owns it.
func (m *Member) refresh(ctx context.Context, h *holding, key string) error {
	stored, err := m.store.get(ctx, key)
	if err != nil {
		return err
	}
	part := new(subjects.CohortPart)
	if stored.value != nil {
		if part, err = subjects.DecodeCohort[subjects.CohortPart](stored.value); err != nil {
			return err
		}
	}
	if part.Generation > h.Generation || part.Generation == h.Generation && part.Conn != h.conn {
		h.over = true
		return notOwner(h.Number)
	}
	h.revision, h.offset = stored.revision, max(h.offset, part.Offset)
	return nil
}

// lose forgets a partition that the store says is somebody else's.
func (m *Member) lose(h *holding) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held[h.Number] != h {
		return
	}
	m.log.Warn("commit refused: the partition belongs to somebody else", "partition", h.Number, "generation", h.Generation)
	delete(m.held, h.Number)
	m.giveBackLocked(h)
	m.handOverLocked()
}

// Release gives a partition up: one that was asked for goes to its next owner, any other is given
// again, with a higher generation. Call it when the work on it has ended and is committed. It
// waits for a commit that is under way. A partition that the member does not own is none to release.
func (m *Member) Release(partition int) {
	m.mu.Lock()
	h := m.held[partition]
	m.mu.Unlock()
	if h != nil {
		m.release(h.Number, h.Generation)
	}
}

// release gives a partition up that is held in this generation.
func (m *Member) release(partition int, generation uint64) {
	m.mu.Lock()
	h := m.held[partition]
	m.mu.Unlock()
	if h == nil || h.Generation != generation {
		return
	}
	h.writing <- struct{}{}
	h.over = true
	<-h.writing
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held[partition] != h {
		return
	}
	delete(m.held, partition)
	m.released[partition] = generation
	m.handOverLocked()
	wake(m.beatNow)
}

// asked says whether somebody else shall have a partition that is held by this grant.
func (m *Member) asked(g rollcall.Grant) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.held[g.Shard]
	return h != nil && h.Generation == g.Generation && h.asked
}

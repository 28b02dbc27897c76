package cohort

import (
	"context"
	"errors"
	"time"

	"github.com/rollcall-io/rollcall/subjects"
)

// tickRetry is the pause after a renewal of the lease that has failed.
const tickRetry = 250 * time.Millisecond

// tick renews the lease at every sweep, and sooner when a deadline is due. That is how time passes
// for the group: the machine takes it from what is stored. It ends when somebody else coordinates.
func (c *coordinator) tick(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	next, seen := time.Now().Add(c.timing.Sweep), uint64(0)
	for {
		timer.Reset(time.Until(next))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case d := <-c.wish:
			if due := time.Now().Add(max(d, time.Millisecond)); due.Before(next) {
				next = due
			}
		case <-timer.C:
			seen = c.kick(seen)
			switch err := c.renew(ctx); {
			case err == nil:
				next = time.Now().Add(c.timing.Sweep)
			case errors.Is(err, errDeposed):
				return err
			default:
				next = time.Now().Add(tickRetry)
			}
		}
	}
}

// renew writes the lease again.
func (c *coordinator) renew(ctx context.Context) error {
	revision, err := c.store.put(ctx, c.leaseKey(), c.record, c.revision, recordTTL(c.timing))
	if err == nil {
		c.revision = revision
		return nil
	}
	if !errors.Is(err, errConflict) {
		return err
	}
	return c.catchUp(ctx)
}

// catchUp learns the revision of a renewal whose acknowledgement was lost, or of one before that, if the
// store has lost the last ones.
func (c *coordinator) catchUp(ctx context.Context) error {
	stored, err := c.store.get(ctx, c.leaseKey())
	if err != nil {
		return err
	}
	if stored.value == nil {
		return errDeposed // it was away for so long that the lease has ended
	}
	lease, err := subjects.DecodeCohort[subjects.CohortLease](stored.value)
	if err != nil || lease.Conn != c.record.Conn {
		return errDeposed
	}
	c.suspectLoss(stored, c.revision)
	c.revision = stored.revision
	return nil
}

// suspectLoss has everything read again if a record is older than the one that was read or written: a
// reader alone does not notice a loss if the stream has grown past it before the reader is back.
func (c *coordinator) suspectLoss(stored record, known uint64) {
	if r := c.reader.Load(); r != nil && stored.revision < known {
		r.Lost()
	}
}

// kick rebuilds a reader that has not read the last renewal, nor anything else since it was looked
// at last. It returns the reader's position.
func (c *coordinator) kick(seen uint64) uint64 {
	r := c.reader.Load()
	if r == nil {
		return 0
	}
	position := r.Position()
	if position < c.revision && position == seen {
		r.Kick()
	}
	return position
}

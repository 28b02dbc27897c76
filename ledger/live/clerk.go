package live

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/rollcall-io/rollcall/internal/retry"
	"github.com/rollcall-io/rollcall/ledger/raw"
	"github.com/rollcall-io/rollcall/ledger/store"
)

// closing is how long a ledger that ends has for what it has read.
const closing = 5 * time.Second

// share is how much of the time transactions may take: one in share.
const share = 10

// A clerk keeps the books of a shard and stores them.
type clerk struct {
	*shard
	books      *books
	due        *time.Timer
	ready      bool       // a transaction may begin
	committing chan error // of the transaction under way; nil if there is none
	begun      time.Time

	known   figures // asked for last
	knownAt time.Time
}

func newClerk(s *shard, k *books) *clerk {
	return &clerk{shard: s, books: k, due: time.NewTimer(s.cfg.Interval)}
}

// work takes steps, stores, and answers, until ctx ends or somebody else has stored.
func (c *clerk) work(ctx context.Context, steps <-chan raw.Step) error {
	defer c.due.Stop()
	last, cancel := lingering(ctx, closing)
	defer func() {
		cancel()
		if c.committing != nil {
			<-c.committing // whoever opens the books again must see how it ended
		}
	}()
	for {
		full := c.books.waiting() >= c.cfg.Changes
		if c.committing == nil && c.books.changed && (c.ready || full) {
			if err := c.commit(last); err != nil {
				return err
			}
			continue
		}
		in := steps
		if full {
			in = nil // until the transaction under way has ended
		}
		select {
		case <-ctx.Done():
			return c.close(last, ctx.Err())
		case step := <-in:
			if err := c.read(ctx, step); err != nil {
				return err
			}
		case <-c.due.C:
			c.ready = true
		case err := <-c.committing:
			if err := c.done(err); err != nil {
				return err
			}
		case answer := <-c.asks:
			answer <- c.figures()
		}
	}
}

func (c *clerk) read(ctx context.Context, step raw.Step) error {
	if !c.books.opened && len(step.Msgs) > 0 {
		if err := c.books.open(c.books.settled(step.Msgs[0].Time.UnixMilli()), c.rows(ctx)); err != nil {
			return err
		}
	}
	c.books.read(step)
	if missed := c.books.missed; missed > 0 {
		c.books.missed = 0
		c.metrics.missed.WithLabelValues(c.label).Add(float64(missed))
		c.log.Error("messages had expired before they were read", "messages", missed)
	}
	return nil
}

// commit begins a transaction.
func (c *clerk) commit(ctx context.Context) error {
	c.ready, c.begun = false, time.Now()
	batch, err := c.books.batch(c.source)
	if err != nil {
		return err
	}
	c.committing = make(chan error, 1)
	go func() { c.committing <- c.apply(ctx, batch) }()
	return nil
}

// apply tries until the batch is stored, somebody else was faster, or ctx ends.
func (c *clerk) apply(ctx context.Context, b store.Batch) error {
	for attempt := 0; ; attempt++ {
		done, err := c.store.Apply(ctx, b)
		if errors.Is(err, store.ErrOvertaken) && c.ours(ctx, b) {
			err = nil // an attempt had succeeded although it failed
		}
		switch {
		case err == nil:
			c.metrics.count(c.label, b, done)
			if n, err := c.store.Forgets(ctx); err == nil && n != c.forgets {
				return errForgotten
			}
			return nil
		case errors.Is(err, store.ErrOvertaken):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		}
		c.metrics.failures.WithLabelValues(c.label).Inc()
		c.log.Warn("storing; trying again", "attempt", attempt+1, "err", err)
		if !retry.Pause(ctx, retry.Backoff(attempt, firstPause, lastPause, rand.Int64N)) {
			return ctx.Err()
		}
	}
}

func (c *clerk) ours(ctx context.Context, b store.Batch) bool {
	there, err := c.store.Checkpoint(ctx, b.Definition, b.Source)
	return err == nil && there.Revision == b.Checkpoint.Revision && bytes.Equal(there.Body, b.Checkpoint.Body)
}

// done takes the end of a transaction.
func (c *clerk) done(err error) error {
	c.committing = nil
	if err != nil {
		return err
	}
	took := time.Since(c.begun)
	c.reset = false // the checkpoint is of what was read again
	c.metrics.stores.Observe(took.Seconds())
	c.metrics.storedAt.WithLabelValues(c.label).SetToCurrentTime()
	c.due.Reset(max(c.cfg.Interval, share*took))
	return nil
}

// close stores what was read before ctx ended.
func (c *clerk) close(last context.Context, ended error) error {
	if c.committing != nil {
		if err := c.done(<-c.committing); err != nil {
			return err
		}
	}
	if c.books.changed {
		if err := c.commit(last); err != nil {
			return err
		}
		if err := c.done(<-c.committing); err != nil {
			return err
		}
	}
	return ended
}

// lingering ends a while after ctx.
func lingering(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	last, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		retry.Pause(last, d)
		cancel()
	})
	return last, func() { stop(); cancel() }
}

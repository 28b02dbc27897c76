package fanout

import (
	"context"
	"time"
)

// batch is how many messages are taken from the board at once: so few that the first of
// many are under way before the others are looked at. What is not taken stays in the
// streams, where the latest change of each target wins: a server that is slow to take
// messages delays and merges, and nothing piles up.
const batch = 64

// publishAll publishes what is due until ctx ends. It never holds the shard's lock
// while the connection may block.
func (sh *shard) publishAll(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-sh.wake:
		case <-timer.C:
		}
		// While more is due there is nothing to wait for. A reconnect wakes it.
		for ctx.Err() == nil && sh.fanout.nc.IsConnected() {
			next := sh.publishDue()
			if next.IsZero() {
				break
			}
			if wait := time.Until(next); wait > 0 {
				timer.Reset(wait)
				break
			}
		}
	}
}

// publishDue publishes up to a batch and returns when to go on.
func (sh *shard) publishDue() (next time.Time) {
	messages, next := sh.take()
	m := sh.fanout.metrics
	for _, message := range messages {
		if err := sh.fanout.nc.Publish(message.subject, message.data); err != nil {
			m.failed.Inc() // the viewer sees the gap
			continue
		}
		m.published(message, time.Now())
		end(message.spans)
	}
	return next
}

func (sh *shard) take() ([]message, time.Time) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	b, m := sh.board, sh.fanout.metrics
	messages, next := b.flush(time.Now(), batch)
	sh.traces.events(b, messages, time.Now())
	if len(b.questions) > 0 {
		signal(sh.asked)
	}
	for _, reason := range b.stalls {
		m.stalls.WithLabelValues(reason).Inc()
		sh.log.Warn("feed stalled", "reason", reason)
	}
	b.stalls = nil
	m.coalesced.Add(float64(b.merged))
	b.merged = 0
	m.streams.WithLabelValues(sh.label).Set(float64(len(b.streams)))
	m.interests.WithLabelValues(sh.label).Set(float64(b.interests))
	return messages, next
}

// reconnected tells every viewer where its stream stands: messages may have been
// lost with the old connection.
func (sh *shard) reconnected() {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.board.confirmAll(time.Now())
	sh.rouse()
}

// LongestHold is how long a change that the fanout has read may wait until its
// message is due, for a viewer of at most so many targets in the shard: every
// message holds up to 500 changes, and the next one is due after the window or when
// the stream's rate allows it, whichever is later. Whatever the viewer was told
// before is accounted for. Sending takes time in addition: a message for every viewer
// who waits.
func LongestHold(targets int, window time.Duration) time.Duration {
	messages := (targets + maxChanges - 1) / maxChanges
	refill := time.Second/bucketRate + time.Microsecond // see bucket.ready
	return time.Duration(messages) * max(window, refill)
}

package viewer

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall/subjects"
)

// A tender keeps a client right: it refreshes, resyncs what was lost, and says so
// when nothing can be known.
type tender struct {
	*Client
	connected bool
	downSince time.Time
	refreshAt time.Time
	refreshes int
	resyncAt  time.Time // zero for never
	whole     bool      // the next resync is of everything
	attempt   int       // resyncs that failed in a row
	takeovers int       // that were heard of
	trouble   trouble
}

// everyNth refresh is followed by a resync of everything. It repairs what no
// comparison shows, such as another client of the viewer that removed a target of
// ours and added one of its own.
const everyNth = 10

func (c *Client) tend(ctx context.Context) error {
	status := c.nc.StatusChanged(nats.CONNECTED, nats.RECONNECTING, nats.DISCONNECTED)
	defer c.nc.RemoveStatusListener(status)
	now := time.Now()
	t := &tender{Client: c, connected: c.nc.IsConnected(), downSince: now}
	t.refreshAt = now.Add(t.jittered(c.cfg.Refresh))
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-status:
		case <-c.wake:
		case <-timer.C:
		}
		t.work(ctx)
		timer.Reset(time.Until(t.next(time.Now())))
	}
}

// work does whatever is due.
func (t *tender) work(ctx context.Context) {
	now := time.Now()
	if !t.checkConnection(now) {
		return
	}
	takenOver := t.takenOver()
	if t.lost(now) && (takenOver || t.resyncAt.IsZero()) {
		if at := now.Add(rand.N(t.cfg.Spread + 1)); t.resyncAt.IsZero() || at.Before(t.resyncAt) {
			t.resyncAt = at
		}
	}
	switch {
	case !t.resyncAt.IsZero() && !now.Before(t.resyncAt):
		t.resync(ctx)
	case !now.Before(t.refreshAt):
		t.refresh(ctx)
	}
}

// checkConnection follows the connection and says whether it is up.
func (t *tender) checkConnection(now time.Time) bool {
	up := t.nc.IsConnected()
	switch {
	case up && !t.connected:
		// Messages may have been missed, and the fanout may be a new one.
		t.whole, t.resyncAt, t.attempt = true, time.Time{}, 0
	case !up && t.connected:
		t.downSince = now
	}
	t.connected = up
	if !up && now.Sub(t.downSince) >= t.cfg.Outage {
		t.offline(ReasonDisconnected)
	}
	return up
}

// offline shows everything as unknown. Saying it once is enough: every change of
// the state makes tend look again.
func (t *tender) offline(reason string) {
	t.whole = true // nothing but a whole resync ends it
	t.mu.Lock()
	said := t.reducer.Offline() == reason
	t.mu.Unlock()
	if !said {
		t.update(func(r *Reducer) { r.SetOffline(reason) })
	}
}

func (t *tender) lost(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.abandoned {
		t.abandoned, t.whole = false, true
	}
	return t.whole || len(t.reducer.Lost(now)) > 0
}

// takenOver says that a shard has got a new owner. Whom the one before has refused or not
// answered need not wait any longer.
func (t *tender) takenOver() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.takeovers
	t.takeovers = t.reducer.takeovers
	return t.takeovers > before
}

// next is when work has something to do if nothing happens.
func (t *tender) next(now time.Time) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.connected {
		if at := t.downSince.Add(t.cfg.Outage); at.After(now) {
			return at
		}
		return now.Add(t.cfg.Refresh)
	}
	next := t.refreshAt
	soonest := t.resyncAt
	if soonest.IsZero() { // otherwise a claim that has come true waits for that resync
		soonest = t.reducer.NextClaim()
	}
	if !soonest.IsZero() && soonest.Before(next) {
		next = soonest
	}
	return next
}

// refresh renews the interest and compares positions.
func (t *tender) refresh(ctx context.Context) {
	reply, err := t.ask(ctx, subjects.OpRefresh, nil)
	now := time.Now()
	t.note(err, now)
	if err != nil {
		// Again soon, so that a silent fanout is noticed.
		t.refreshAt = now.Add(min(t.jittered(5*time.Second), t.cfg.Refresh))
		return
	}
	t.refreshAt = now.Add(t.jittered(t.cfg.Refresh))
	t.update(func(r *Reducer) { r.Refreshed(reply, now) })
	if t.refreshes++; t.refreshes%everyNth == 0 {
		t.whole = true
	}
}

// note keeps account of failures.
func (t *tender) note(err error, now time.Time) {
	if err == nil || refused(err) {
		t.trouble.worked()
		return
	}
	t.trouble.failed(errors.Is(err, context.DeadlineExceeded), now)
	if t.trouble.silent(t.cfg.Outage, now) {
		t.offline(ReasonFanoutSilent)
	}
}

// A resync is one round of asking again for everything in some shards.
type resync struct {
	shards   map[int]bool // nil means all
	answered map[int]bool
}

// first lists the shards that an answer is the first from. It is nil-safe.
func (s *resync) first(reply subjects.Reply) map[int]bool {
	if s == nil {
		return nil
	}
	base := make(map[int]bool)
	for _, snapshot := range reply.Shards {
		n := snapshot.Shard
		if !s.answered[n] && (s.shards == nil || s.shards[n]) {
			s.answered[n], base[n] = true, true
		}
	}
	return base
}

// resync asks for all targets of the shards that have lost something.
func (t *tender) resync(ctx context.Context) {
	t.mu.Lock()
	round := &resync{answered: make(map[int]bool)}
	asked := t.reducer.Lost(time.Now())
	if t.whole {
		t.reducer.LoseAll()
		asked = t.reducer.Lost(time.Now())
	} else {
		round.shards = asked
	}
	targets := t.reducer.Members(round.shards)
	t.mu.Unlock()
	for part := range chunks(targets) {
		if err := t.subscribe(ctx, part, round); err != nil {
			t.failed(err, asked)
			return
		}
	}
	t.succeeded(round, asked)
}

func (t *tender) failed(err error, asked map[int]bool) {
	now := time.Now()
	t.note(err, now)
	t.update(func(r *Reducer) { r.Lose(asked) })
	t.resyncAt = now.Add(backoff(t.attempt))
	t.attempt++
	t.cfg.Logger.Debug("resync failed", "err", err, "attempt", t.attempt)
}

func (t *tender) succeeded(round *resync, asked map[int]bool) {
	for n := range round.answered {
		delete(asked, n)
	}
	t.trouble.worked()
	t.whole, t.resyncAt, t.attempt = false, time.Time{}, 0
	t.update(func(r *Reducer) {
		r.Forget(asked) // nothing of ours is there any more
		r.SetOffline("")
	})
}

// jittered is d give or take a fifth.
func (t *tender) jittered(d time.Duration) time.Duration {
	return d - d/5 + rand.N(2*d/5+1)
}

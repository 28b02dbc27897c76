package edge

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/internal/storeclock"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// pipeline is one shard of a node: the connections of its users, and what of them
// the log does not know yet. Its lock is held for moments only, never over I/O.
type pipeline struct {
	shard  int
	names  subjects.Names
	clock  *clock
	stats  *counters
	calls  *callbacks
	store  storeclock.Clock
	timing timing

	wake     chan struct{} // there may be something to say
	collect  chan struct{} // a renewal is due: publish the heartbeats
	finished chan struct{} // the writer has said everything

	beatsDropped atomic.Uint64

	mu        sync.Mutex
	endpoints endpoints
	roll      roll
	wheel     wheel
	grace     instant // nobody counts as dead before
	accrual   *accrual
	backlog   backlog
	told      account
	lastEpoch rollcall.Micros
	roster    roster
	beats     []beat // of those who are gone, or beat too often

	heir       bool // an earlier process has left connections, which a HELLO ends
	registered bool // a HELLO was emitted, and no LEAVE since
	renewing   bool // a renewal is due
	draining   bool
	closed     bool
}

// account is what the log says of the shard: how many connections, and the sum
// of their digests.
type account struct {
	count  uint64
	digest subjects.Digest
}

func (a *account) add(c *Conn)    { a.count++; a.digest += c.digest() }
func (a *account) remove(c *Conn) { a.count--; a.digest -= c.digest() }

func (c *Conn) digest() subjects.Digest {
	told := c.told.Value()
	return subjects.ConnDigest(c.User(), c.Device(), int64(c.epoch), told.state, told.activity)
}

// connect establishes a connection; one that the endpoint has already makes way.
func (p *pipeline) connect(user, device string, s State, session Session, number func() uint64) (*Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, ErrClosed
	}
	if old := p.endpoints.get(user, device); old != nil {
		p.supersedeLocked(old)
	}
	now := p.clock.refresh()
	c := newConn(p, user, device, s, session, number(), now)
	p.endpoints.add(c)
	p.roll.add(c)
	p.wheel.add(c, now+p.timing.interval)
	p.stats.connections.Add(1)
	p.backlog.push(change{conn: c, kind: wire.Kind_KIND_OPEN})
	p.notify()
	return c, nil
}

// changeLocked notes a new state. What is not emitted anyway needs no change of
// its own, and a return to what was emitted needs none any more.
func (p *pipeline) changeLocked(c *Conn, s status) {
	if flags := flagsOf(s); (flags^c.flags.Swap(flags))&subjects.FlagForeground != 0 {
		p.startOverLocked(c)
	}
	c.now = s
	pending := p.backlog.of(c)
	switch {
	case pending != nil && pending.kind == wire.Kind_KIND_OPEN:
	case s == c.told && pending != nil:
		p.backlog.drop(c)
	case s == c.told:
	case pending != nil:
		pending.at = p.clock.now()
	default:
		p.backlog.push(change{conn: c, kind: wire.Kind_KIND_STATE, at: p.clock.now()})
	}
	p.notify()
}

// closeLocked ends a connection, once.
func (p *pipeline) closeLocked(c *Conn, reason wire.Reason) {
	if c.phase.has(phaseGone) {
		return
	}
	now := p.clock.now()
	end := change{conn: c, kind: wire.Kind_KIND_CLOSE, at: now, reason: reason}
	end.seen = max(c.bury().at().instant(now), c.since)
	if reason == wire.Reason_REASON_CLOSED || reason == wire.Reason_REASON_LOGOUT {
		end.seen = now // a goodbye is a sign of life
	}
	p.endpoints.remove(c)
	p.wheel.remove(c)
	p.suspectLocked(c, false)
	p.saveLocked(c, now)
	p.accrual.forget(c)
	c.phase |= phaseGone
	p.stats.connections.Add(-1)
	p.endLocked(end)
	p.notify()
}

// endLocked notes a CLOSE. The log never hears of what began and ended unsaid.
func (p *pipeline) endLocked(end change) {
	pending := p.backlog.of(end.conn)
	switch {
	case pending == nil:
		p.backlog.push(end)
	case pending.kind == wire.Kind_KIND_OPEN:
		p.backlog.drop(end.conn)
		p.roll.remove(end.conn)
		p.stats.pairsDropped.Add(1)
	default:
		*pending = end
	}
}

// supersedeLocked ends a connection that is no longer its endpoint's current one.
func (p *pipeline) supersedeLocked(c *Conn) {
	if c.phase.has(phaseGone) {
		return
	}
	p.closeLocked(c, wire.Reason_REASON_REPLACED)
	p.stats.superseded.Add(1)
	p.calls.superseded(c)
}

// supersede ends the connections that a keeper names.
func (p *pipeline) supersede(numbers []uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range numbers {
		if c := p.roll.get(n); c != nil {
			p.supersedeLocked(c)
		}
	}
}

// drain ends every connection, and the lease when that is told.
func (p *pipeline) drain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed, p.draining = true, true
	for _, c := range slices.Collect(p.roll.from(0)) { // closing makes holes
		p.closeLocked(c, wire.Reason_REASON_DRAINED)
	}
	p.notify()
}

// shut refuses further connections.
func (p *pipeline) shut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
}

// renew makes a renewal due and has the heartbeats collected.
func (p *pipeline) renew() {
	p.reassure()
	signal(p.collect)
}

// reassure makes a renewal due out of turn.
func (p *pipeline) reassure() {
	p.mu.Lock()
	p.renewing = p.registered
	p.mu.Unlock()
	p.notify()
}

// inherit has the edge register at once, although it may hold nothing here yet:
// what the process before it held is gone, and should not wait for its lease to
// run out.
func (p *pipeline) inherit() {
	p.mu.Lock()
	p.heir = true
	p.mu.Unlock()
}

// resync has the roster sent.
func (p *pipeline) resync() {
	p.mu.Lock()
	p.roster.request()
	p.mu.Unlock()
	p.notify()
}

// unregister makes the edge introduce itself again, with its roster.
func (p *pipeline) unregister() {
	p.mu.Lock()
	p.registered = false
	p.mu.Unlock()
	p.notify()
}

func (p *pipeline) notify() { signal(p.wake) }

// signal wakes whoever waits on a channel with room for one signal.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// at converts an instant; the store's clock is known before anything is emitted.
func (p *pipeline) at(t instant) rollcall.Micros {
	at, _ := p.store.At(t)
	return at
}

// timing is what follows from the parameters.
type timing struct {
	resolution time.Duration // of the coarse clock
	interval   time.Duration // after which a connection is looked at, or suspect
	limit      time.Duration // after which it is dead
	early      time.Duration // how much of both is for stamps that are early
	stride     int32         // usual distance of heartbeats, ms
}

// timingOf the parameters. A stamp is up to two resolutions early before the loop
// counts as stalled, and rounded down to the millisecond; the limits leave room
// for it, so that silence is never found too early.
func timingOf(p rollcall.Params, resolution time.Duration) timing {
	early := 2*resolution + time.Millisecond
	shortest := time.Duration(float64(p.Heartbeat) * (1 - p.Jitter))
	return timing{
		resolution: resolution,
		interval:   p.Heartbeat + early,
		limit:      p.IdleTimeout + early,
		early:      early,
		stride:     int32(((shortest + p.Heartbeat) / 2).Milliseconds()),
	}
}

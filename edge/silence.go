package edge

import (
	"time"

	"github.com/rollcall-io/rollcall/subjects/wire"
)

// tick visits the connections that are due. A node that was stalled has not read
// its sockets either: as after a gap in the log, nobody counts as dead before one
// interval has passed.
func (p *pipeline) tick(now instant, stalled bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if stalled {
		p.grace = now + p.timing.interval
		p.accrual.resume(now)
	}
	p.wheel.advance(now, func(c *Conn) { p.visitLocked(c, now) })
}

func (p *pipeline) visitLocked(c *Conn, now instant) {
	last := sign(c.last.Load())
	silence := last.at().before(now)
	suspect := silence >= p.timing.interval
	if c.crowded() || suspect && p.accrual != nil {
		p.saveLocked(c, now)
	}
	limit := p.timing.limit
	if suspect {
		limit = p.accrual.limit(c, limit)
	}
	if silence >= limit && now >= p.grace && c.buryIf(last) {
		p.buryLocked(c, silence < p.timing.limit)
		return
	}
	p.suspectLocked(c, suspect)
	p.wheel.add(c, p.nextLook(now-silence, limit, suspect))
}

// nextLook is when to look again at a connection that was last heard of at an
// instant.
func (p *pipeline) nextLook(heard instant, limit time.Duration, suspect bool) instant {
	if suspect {
		return max(heard+limit, p.grace)
	}
	return heard + p.timing.interval
}

// buryLocked ends a connection whose idle timeout has run out, or that the detector gives
// up sooner.
func (p *pipeline) buryLocked(c *Conn, sooner bool) {
	p.closeLocked(c, wire.Reason_REASON_PING_TIMEOUT)
	p.stats.timeouts.Add(1)
	if sooner {
		p.stats.soonerTimeouts.Add(1)
	}
	p.calls.dead(c)
}

func (p *pipeline) suspectLocked(c *Conn, suspect bool) {
	switch {
	case suspect && !c.phase.has(phaseSuspect):
		c.phase |= phaseSuspect
		p.stats.suspects.Add(1)
	case !suspect && c.phase.has(phaseSuspect):
		c.phase &^= phaseSuspect
		p.stats.suspects.Add(-1)
	}
}

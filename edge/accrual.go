package edge

import (
	"time"

	"github.com/rollcall-io/rollcall/edge/phi"
)

// accrual remembers at which intervals the connections of a shard were heard of, if the
// node has a detector. Heartbeats come here when the rings are emptied, so that
// [Conn.Beat] knows nothing of it, and a node without a detector pays nothing.
type accrual struct {
	detector  phi.Detector
	early     time.Duration      // see timingOf
	histories map[uint64]history // by number of the connection
	resumed   instant            // the end of the last stall
}

type history struct {
	phi.History
	heard stamp
}

// newAccrual returns nil without a detector.
func (n *Node) newAccrual() *accrual {
	if n.config.Detector == nil {
		return nil
	}
	return &accrual{detector: n.detector, early: n.timing.early, histories: make(map[uint64]history)}
}

// hear takes a heartbeat. An interval in which the node was stalled says nothing of the
// device.
func (a *accrual) hear(c *Conn, at stamp, now instant) {
	if a == nil || c.phase.has(phaseGone) {
		return
	}
	h, known := a.histories[c.number]
	interval := h.heard.before(now) - at.before(now)
	if known && interval <= 0 {
		return // beats were concurrent
	}
	if known && h.heard.instant(now) >= a.resumed {
		a.detector.Observe(&h.History, interval)
	}
	h.heard = at
	a.histories[c.number] = h
}

// limit is the silence after which a connection counts as dead, at most the given one.
func (a *accrual) limit(c *Conn, fixed time.Duration) time.Duration {
	if a == nil {
		return fixed
	}
	return min(a.detector.Deadline(a.histories[c.number].History)+a.early, fixed)
}

func (a *accrual) resume(now instant) {
	if a != nil {
		a.resumed = now
	}
}

func (a *accrual) forget(c *Conn) {
	if a != nil {
		delete(a.histories, c.number)
	}
}

// startOverLocked forgets how a connection was heard of: a device that goes to the
// background is under other rules, and the fixed timeout holds until it is known again.
func (p *pipeline) startOverLocked(c *Conn) {
	if p.accrual != nil {
		p.saveLocked(c, p.clock.now()) // what was sent until now
		p.accrual.forget(c)
	}
}

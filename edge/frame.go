package edge

import (
	"google.golang.org/protobuf/proto"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// filler collects the entries of a frame.
type filler struct {
	entries  []*wire.Entry
	size     int
	limit    int // bytes
	reserved int // entries and, in proportion, bytes that are kept for others
}

const (
	// largestEntry is above the size of any entry: three ids, an activity, a client,
	// numbers.
	largestEntry = 3*rollcall.MaxID + subjects.MaxActivity + 4*subjects.MaxClient + 160
	// frameHead is above what a frame and its headers take beside the entries.
	frameHead = 512
)

func newFiller(maxPayload int64) *filler {
	limit := subjects.MaxFrameBytes
	if maxPayload > 0 {
		limit = min(limit, int(maxPayload))
	}
	return &filler{limit: limit - frameHead}
}

// full says that another entry may not fit. An empty frame always takes one.
func (f *filler) full() bool {
	if len(f.entries) == 0 {
		return false
	}
	share := f.limit - f.limit/subjects.MaxEntries*f.reserved
	return len(f.entries) >= subjects.MaxEntries-f.reserved || f.size+largestEntry > share
}

func (f *filler) add(e *wire.Entry) {
	const tagAndLength = 4
	f.entries = append(f.entries, e)
	f.size += proto.Size(e) + tagAndLength
}

// fill takes as much as a frame can hold out of what is to be said; nothing if
// there is nothing. What it takes counts as emitted.
func (p *pipeline) fill(maxPayload int64) []*wire.Entry {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := newFiller(maxPayload)
	p.helloLocked(f)
	p.renewalLocked(f)
	p.changesLocked(f)
	p.rosterLocked(f)
	p.farewellLocked(f)
	p.stats.entries.Add(uint64(len(f.entries)))
	return f.entries
}

// helloLocked registers the edge before it says anything else.
func (p *pipeline) helloLocked(f *filler) {
	if p.registered || p.backlog.len() == 0 && p.told.count == 0 && !p.heir {
		return
	}
	p.heir = false
	f.add(p.entryLocked(wire.Kind_KIND_HELLO))
	p.registered, p.renewing = true, false
	p.roster = roster{wanted: p.told.count > 0} // what was told of one before is void
}

// renewalLocked renews the lease, ahead of any backlog, or gives it up.
func (p *pipeline) renewalLocked(f *filler) {
	if !p.renewing {
		return
	}
	p.renewing = false
	if p.silentLocked() {
		p.leaveLocked(f)
		return
	}
	e := p.entryLocked(wire.Kind_KIND_RENEW)
	e.Count, e.Digest = p.told.count, uint64(p.told.digest)
	f.add(e)
	p.stats.renewals.Add(1)
}

// changesLocked tells the backlog, and leaves half of the frame to a roster.
func (p *pipeline) changesLocked(f *filler) {
	if p.roster.active() {
		f.reserved = subjects.MaxEntries / 2
		defer func() { f.reserved = 0 }()
	}
	for !f.full() {
		ch, ok := p.backlog.pop()
		if !ok {
			return
		}
		f.add(p.changeEntryLocked(ch))
	}
}

// farewellLocked gives the lease up at the end of a drain.
func (p *pipeline) farewellLocked(f *filler) {
	if p.draining && p.registered && p.silentLocked() && !f.full() {
		p.leaveLocked(f)
	}
}

func (p *pipeline) leaveLocked(f *filler) {
	f.add(p.entryLocked(wire.Kind_KIND_LEAVE))
	p.registered = false
}

// silentLocked says that the edge holds nothing here and has said so.
func (p *pipeline) silentLocked() bool {
	return p.told.count == 0 && p.backlog.len() == 0 && !p.roster.active()
}

func (p *pipeline) changeEntryLocked(ch change) *wire.Entry {
	c := ch.conn
	if ch.kind == wire.Kind_KIND_OPEN {
		p.pinLocked(c)
		c.phase |= phaseOpened
	} else {
		p.told.remove(c)
	}
	e := p.connEntry(c, ch.kind)
	if ch.kind == wire.Kind_KIND_CLOSE {
		p.roll.remove(c)
		e.At, e.Reason = int64(max(p.at(ch.at), c.epoch)), ch.reason
		e.Seen = int64(min(max(p.at(ch.seen), c.epoch), rollcall.Micros(e.At)))
		return e
	}
	c.told = c.now
	p.told.add(c)
	e.At = int64(c.epoch)
	if ch.kind == wire.Kind_KIND_OPEN {
		e.Origin = originOf(c)
	}
	if ch.kind == wire.Kind_KIND_STATE {
		e.At = int64(max(p.at(ch.at), c.epoch))
	}
	describe(e, c.told)
	return e
}

// pinLocked fixes the epoch. Epochs of a shard only grow, whatever the estimate of
// the store's clock does in between.
func (p *pipeline) pinLocked(c *Conn) {
	c.epoch = max(p.at(c.since), p.lastEpoch+1)
	p.lastEpoch = c.epoch
}

func describe(e *wire.Entry, s status) {
	told := s.Value()
	e.State, e.Activity = told.state, told.activity
}

func (p *pipeline) connEntry(c *Conn, kind wire.Kind) *wire.Entry {
	return &wire.Entry{Kind: kind, Conn: c.number, Epoch: int64(c.epoch), User: c.User(), Device: c.Device()}
}

func (p *pipeline) entryLocked(kind wire.Kind) *wire.Entry {
	return &wire.Entry{Kind: kind, At: int64(p.at(p.clock.now()))}
}

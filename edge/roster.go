package edge

import "github.com/rollcall-io/rollcall/subjects/wire"

// roster is how far the list of all connections is told. One that is wanted and
// not begun serves everyone who asks; one that is under way is told to its end,
// and then the next.
type roster struct {
	wanted bool
	begun  bool
	cursor uint64 // the last connection that was told
	last   uint64 // later ones are opened after the begin
}

func (r *roster) request() { r.wanted = true }

func (r *roster) active() bool { return r.wanted || r.begun }

// rosterLocked adds as much of the roster as fits. A connection is listed as it
// was emitted: whatever else is known of it follows in the backlog.
func (p *pipeline) rosterLocked(f *filler) {
	r := &p.roster
	if !p.registered {
		*r = roster{} // there is nothing to list
	}
	if !r.active() || f.full() {
		return
	}
	if !r.begun {
		*r = roster{begun: true, last: p.roll.last()}
		f.add(p.entryLocked(wire.Kind_KIND_ROSTER_BEGIN))
		p.stats.resyncs.Add(1)
	}
	for c := range p.roll.from(r.cursor) {
		if c.number > r.last {
			break
		}
		if f.full() {
			return
		}
		if c.phase.has(phaseOpened) {
			f.add(p.rosterEntryLocked(c))
		}
		r.cursor = c.number
	}
	if !f.full() {
		r.begun = false
		f.add(p.entryLocked(wire.Kind_KIND_ROSTER_END))
	}
}

func (p *pipeline) rosterEntryLocked(c *Conn) *wire.Entry {
	e := p.connEntry(c, wire.Kind_KIND_ROSTER)
	e.At = int64(p.at(p.clock.now()))
	describe(e, c.told)
	e.Origin = originOf(c)
	return e
}

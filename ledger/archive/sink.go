package archive

import (
	"fmt"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/interval"
	"github.com/rollcall-io/rollcall/ledger/raw"
	"github.com/rollcall-io/rollcall/subjects"
)

// A sink collects what the decoder of a shard says.
type sink struct {
	*batch
	shard     int
	device    func(string) string
	forgotten func(user string) bool
	origin    func() raw.Origin
	message   raw.Message // the one that is being read
	refusals  []refusal
	size      int // of the refusals, in bytes
}

var _ raw.Sink = (*sink)(nil)

func (s *sink) Event(e ledger.Event) {
	says := uint8(0)
	for _, flag := range []struct {
		on  bool
		bit uint8
	}{{e.Stated, saysState}, {e.Foreground, saysForeground}, {e.Active, saysActive}} {
		if flag.on {
			says |= flag.bit
		}
	}
	if told := s.origin().Told; told != 0 {
		e.At, says = told, says|saysAdopted
	}
	s.add(s.conn(&e), entry{at: e.At, sequence: e.Sequence, label: s.labelled(e.Activity), kind: e.Kind, says: says})
}

// Beat finds the connection by the mark that it has in this batch.
func (s *sink) Beat(c *raw.Conn, at int64, flags uint8) {
	const bits = 32
	if c.Mark>>bits != s.serial {
		e := c.Beat(at, flags)
		c.Mark = s.serial<<bits | uint64(s.conn(&e))
	}
	s.add(uint32(c.Mark), entry{at: at, kind: ledger.KindBeat, says: saysState | flags&(saysForeground|saysActive)})
}

// The flags of heartbeats are what entries say, which the compiler checks.
var (
	_ = [1]struct{}{}[saysForeground-subjects.FlagForeground]
	_ = [1]struct{}{}[saysActive-subjects.FlagActive]
)

func (s *sink) add(conn uint32, e entry) {
	if s.conns[conn].forgotten {
		return
	}
	o := s.origin()
	if e.at < interval.Earliest || e.at >= interval.Latest { // no directory is of that day
		s.refuse(refusal{
			Rule: ledger.RuleInput, Reason: fmt.Sprintf("a %s at %d ms is no time", kinds[e.kind], e.at), At: o.Stored, Raw: s.conns[conn].session,
		}, o)
		return
	}
	e.conn, e.origin = conn, s.from(origin{o.Beats, o.Seq, o.Stored})
	s.entries = append(s.entries, e)
}

// conn is the place of the connection of an event.
func (s *sink) conn(e *ledger.Event) uint32 {
	c := connection{user: e.User, device: e.Device, session: e.Session, epoch: e.Epoch, client: e.Client}
	at, ok := s.places[c]
	if !ok {
		at = uint32(len(s.conns))
		s.places[c] = at
		c.device, c.forgotten = s.device(c.device), s.forgotten(c.user)
		s.conns = append(s.conns, c)
	}
	return at
}

func (s *sink) Reject(r ledger.Rejected) {
	o := s.origin()
	row := refusal{At: r.At.UnixMilli(), Rule: r.Rule, Reason: r.Reason, Source: r.Source, Raw: r.Raw}
	if m := s.message; o.Seq == m.Seq && o.Beats == m.Beats {
		row.Message = m.Data
	}
	s.refuse(row, o)
}

func (s *sink) refuse(row refusal, o raw.Origin) {
	row.StoredAt, row.Shard, row.Stream, row.Position = o.Stored, int64(s.shard), streamOf(o.Beats), int64(o.Seq)
	s.refusals = append(s.refusals, row)
	s.size += len(row.Raw) + len(row.Message)
}

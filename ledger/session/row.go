package session

import (
	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/interval"
)

// row is the session as it is known now; false if it never began.
func (b *Builder) row(s *session) (ledger.Session, bool) {
	now := b.peek(s)
	s.below(interval.Latest, 0, func(e entry) {
		if epoch := s.epochs[e.epoch]; !b.usual(&now, e.kind, e.at, e.seq, e.says, epoch) {
			b.apply(&now, e, epoch)
		}
	})
	b.expire(&now, b.floor)
	row, _, _ := b.judge(s, &now, false)
	return row, now.begun
}

// peek is a copy of the state.
func (b *Builder) peek(s *session) state {
	if s.packed != nil {
		return b.unpack(s.packed)
	}
	return s.state.clone()
}

// judge makes the row of a state, the row as it was claimed, and the rule that the
// whole session breaks. Unless it is certain, a doubt is a benefit.
func (b *Builder) judge(s *session, folded *state, certain bool) (row, claims ledger.Session, rule string) {
	c := folded.clone()
	b.complete(&c)
	row = ledger.Session{
		ID: s.ID, User: s.User, Device: s.Device, Client: *s.client, Epoch: c.epoch,
		Start: c.start, End: c.start, Ended: c.ended, Revision: c.events,
	}
	switch n := len(c.connected); {
	case c.ended == ledger.KindClose || c.ended == ledger.KindLogout:
		row.End = c.end
	case n > 0:
		row.End = c.connected[n-1].To
	}
	claims = row
	claims.Intervals = c.measures(b.measures, false)
	if !c.begun {
		return row, claims, ""
	}
	if b.limit > 0 && row.End-row.Start > b.limit {
		return row, claims, ledger.RuleLimit
	}
	row.Intervals = c.measures(b.measures, true)
	if c.broken || certain && c.doubt {
		rule = ledger.RuleNesting
	}
	return row, claims, rule
}

// complete ends everything that is open where connected time ends, as if nothing
// followed.
func (r rules) complete(s *state) {
	if s.running {
		s.connected = add(s.connected, interval.Interval{From: s.run.From, To: s.run.To + r.grace})
	}
	if n := len(s.connected); n > 0 {
		end := s.connected[n-1].To
		if s.foreground {
			s.claimed = add(s.claimed, interval.Interval{From: s.since, To: end})
		}
		r.keepLabel(s, end)
	}
	s.inputs = add(s.inputs, s.active)
}

// measures are the sets by name: what is certain, or what was claimed.
func (s *state) measures(labels []ledger.Measure, certain bool) map[ledger.Measure][]interval.Interval {
	m := make(map[ledger.Measure][]interval.Interval, 3)
	foreground, active := s.claimed, s.inputs
	if !s.told {
		foreground = s.connected
	}
	if certain {
		foreground = interval.Intersect(nil, foreground, s.connected)
		active = interval.Intersect(nil, active, foreground)
	}
	put(m, ledger.Connected, s.connected)
	put(m, ledger.Foreground, foreground)
	put(m, ledger.Active, active)
	for i, set := range s.labels {
		put(m, labels[i], interval.Intersect(nil, set, s.connected))
	}
	return m
}

func put(m map[ledger.Measure][]interval.Interval, measure ledger.Measure, set []interval.Interval) {
	if len(set) > 0 {
		m[measure] = set
	}
}

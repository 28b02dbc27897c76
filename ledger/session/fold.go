package session

import (
	"slices"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/interval"
)

// A state is what the events of a session so far come to, in the order in which they
// happened.
type state struct {
	events uint64 // distinct ones, also those that were refused
	epoch  int64  // the newest
	seq    uint64 // the last in it

	begun bool
	start int64
	last  int64 // the last event that counted
	ended ledger.Kind
	end   int64 // of a close or logout, as received

	running bool              // the newest stretch may go on
	run     interval.Interval // from its first sign of life to its last

	told       bool // the foreground was ever spoken of
	foreground bool
	since      int64 // when foreground began
	active     interval.Interval
	label      uint8
	labelled   int64 // since when

	doubt  bool // a word came where it is not known yet whether the session was connected
	broken bool // one came where it was not

	sets
}

// Sets are what is certain of each measure; foreground, active and labels as claimed.
type sets struct {
	connected, claimed, inputs []interval.Interval
	labels                     [][]interval.Interval
}

// rules are a definition in the fold's units.
type rules struct {
	cap, grace, idle int64 // ms; a cap of zero is none
	limit, horizon   int64
	labels           int
}

// usual applies an event if it is what nearly all are, a heartbeat that says what the
// one before said, and does what apply would do. It returns false for others.
func (r *rules) usual(s *state, kind ledger.Kind, at int64, seq uint64, says uint8, epoch int64) bool {
	const active = saysState | saysForeground | saysActive
	switch {
	case kind != ledger.KindBeat || seq != 0 || s.ended != 0 || !s.running || s.doubt || epoch > s.epoch:
		return false
	case r.cap > 0 && at-s.run.To > r.cap || at-s.last > r.horizon:
		return false
	case says == active && s.told && s.foreground && at <= s.active.To && !s.active.Empty():
		s.active.To = at + r.idle
	case says == saysState|saysForeground && s.told && s.foreground && s.active.Empty():
	case says == saysState && s.told && !s.foreground && s.active.Empty():
	case says != 0:
		return false
	}
	s.events++
	s.run.To, s.last = at, at
	return true
}

// apply takes the next event. It returns the rule that the event breaks, if any.
func (r rules) apply(s *state, e entry, epoch int64) (broken string) {
	s.events++
	r.expire(s, e.at)
	if epoch > s.epoch {
		s.advance(e, epoch)
	}
	if s.ended != 0 && e.rank() != 2 {
		return r.afterEnd(s, e)
	}
	if e.seq != 0 && epoch == s.epoch {
		if e.seq == s.seq {
			return "" // the same event, told with another time
		}
		if e.seq < s.seq {
			return ledger.RuleSequence
		}
		s.seq = e.seq
	}
	switch e.kind {
	case ledger.KindClose, ledger.KindTimeout, ledger.KindLogout:
		return r.close(s, e, epoch)
	case ledger.KindOpen, ledger.KindBeat:
		r.live(s, e.at)
	}
	s.last = e.at
	r.words(s, e)
	return ""
}

// advance begins an epoch: a session that had ended goes on.
func (s *state) advance(e entry, epoch int64) {
	s.epoch, s.seq = epoch, 0
	if e.rank() != 2 {
		s.ended, s.end = 0, 0
	}
}

// expire ends a session that was silent for so long that it may have been forgotten.
func (r rules) expire(s *state, now int64) bool {
	if s.begun && s.ended == 0 && now-s.last > r.horizon {
		s.ended = ledger.KindTimeout
		return true
	}
	return false
}

// live is a sign of life.
func (r rules) live(s *state, at int64) {
	switch {
	case !s.begun:
		s.begun, s.start = true, at
		if !s.told {
			s.foreground, s.since = true, at
		}
		s.broken = s.broken || s.doubt
		s.run, s.running = interval.Interval{From: at, To: at}, true
	case s.running && (r.cap == 0 || at-s.run.To <= r.cap):
		s.run.To = at
	default:
		if s.running {
			r.stop(s, s.run.To+r.grace)
		}
		s.rest(at)
		s.run, s.running = interval.Interval{From: at, To: at}, true
	}
	s.doubt = false
}

// stop ends a stretch.
func (r rules) stop(s *state, end int64) {
	s.connected = add(s.connected, interval.Interval{From: s.run.From, To: end})
	s.running = false
	s.broken = s.broken || s.doubt
	s.doubt = false
}

// rest has the foreground begin again where connected time does: silence claims nothing.
func (s *state) rest(at int64) {
	n := len(s.connected)
	if !s.foreground || n == 0 || s.since >= s.connected[n-1].To {
		return
	}
	s.claimed = add(s.claimed, interval.Interval{From: s.since, To: s.connected[n-1].To})
	s.since = at
}

func (r rules) close(s *state, e entry, epoch int64) string {
	switch {
	case epoch < s.epoch || s.ended != 0:
		return "" // of an epoch that is over, or once more: the earliest counts
	case !s.begun:
		s.ended, s.end = e.kind, e.at
		return ledger.RuleOrder
	}
	s.ended, s.last = e.kind, e.at
	if e.kind == ledger.KindTimeout {
		return "" // the stretch may go on with a higher epoch
	}
	s.end = e.at
	if !s.running {
		return ""
	}
	if r.cap == 0 {
		s.run.To, s.doubt = e.at, false
	}
	r.stop(s, min(s.run.To+r.grace, e.at))
	return ""
}

// afterEnd is an event of a session that has ended. It changes nothing but what is
// known of claims.
func (r rules) afterEnd(s *state, e entry) string {
	if !s.begun {
		return ledger.RuleOrder
	}
	on, said := e.foreground()
	if e.kind != ledger.KindBeat && said && (on || s.foreground && s.told) {
		if s.foreground {
			s.claimed = add(s.claimed, interval.Interval{From: s.since, To: e.at})
		}
		s.broken = true
	}
	return ledger.RuleClosed
}

// words is what a device says of app and user.
func (r rules) words(s *state, e entry) {
	if on, said := e.foreground(); said {
		r.screen(s, e.at, on)
	}
	if on, said := e.active(); said {
		r.input(s, e.at, on)
	}
	if e.says&saysLabel != 0 && e.label != s.label {
		r.relabel(s, e.at, e.label)
	}
}

// uncertain says that nothing proves yet that the session is connected at an instant.
func (r rules) uncertain(s *state, at int64) bool {
	return !s.running || at > s.run.To+r.grace
}

func (r rules) screen(s *state, at int64, on bool) {
	if !s.told && on {
		s.foreground, s.claimed = false, nil // it was not there before
	}
	s.doubt = s.doubt || (on || s.foreground) && r.uncertain(s, at)
	switch {
	case s.foreground && !on:
		s.claimed = add(s.claimed, interval.Interval{From: s.since, To: at})
	case !s.foreground && on:
		s.since = at
	}
	s.foreground, s.told = on, true
}

func (r rules) input(s *state, at int64, on bool) {
	now := s.active
	if !on {
		now.To = min(now.To, at)
		s.inputs, s.active = add(s.inputs, now), interval.Interval{}
		return
	}
	s.doubt = s.doubt || r.uncertain(s, at)
	s.broken = s.broken || s.told && !s.foreground
	if !now.Empty() && at <= now.To {
		s.active.To = at + r.idle
		return
	}
	s.inputs = add(s.inputs, now)
	s.active = interval.Interval{From: at, To: at + r.idle}
}

func (r rules) relabel(s *state, at int64, label uint8) {
	r.keepLabel(s, at)
	s.label, s.labelled = label, at
}

func (r rules) keepLabel(s *state, until int64) {
	if s.label == 0 {
		return
	}
	if s.labels == nil {
		s.labels = make([][]interval.Interval, r.labels)
	}
	own := &s.labels[s.label-1]
	*own = add(*own, interval.Interval{From: s.labelled, To: until})
}

// add appends to a set an interval that does not start before the last one.
func add(set []interval.Interval, i interval.Interval) []interval.Interval {
	switch n := len(set); {
	case i.Empty():
	case n > 0 && i.From <= set[n-1].To:
		set[n-1].To = max(set[n-1].To, i.To)
	default:
		set = append(set, i)
	}
	return set
}

// clone shares nothing that a fold changes.
func (s *state) clone() state {
	c := *s
	c.connected, c.claimed, c.inputs = slices.Clone(s.connected), slices.Clone(s.claimed), slices.Clone(s.inputs)
	c.labels = slices.Clone(s.labels)
	for i := range c.labels {
		c.labels[i] = slices.Clone(c.labels[i])
	}
	return c
}

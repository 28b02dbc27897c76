package session

import (
	"slices"
	"time"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/interval"
)

// Advance says that time has come to watermark: an event from before watermark −
// lateness is refused from now on. It hands out final rows and refusals, though not
// all at once: it looks at the sessions whenever an eighth of the lateness has passed.
func (b *Builder) Advance(watermark int64) {
	if watermark <= b.watermark {
		return
	}
	b.watermark, b.floor = watermark, max(b.floor, watermark-b.lateness)
	if b.floor-b.swept > b.lateness/8 {
		b.sweep()
	}
}

// Flush says that no event comes any more: every session is final as it is known.
// A session that is still open is handed out as such.
func (b *Builder) Flush() {
	b.floor, b.swept = interval.Latest, interval.Latest
	for _, s := range b.sorted() {
		b.foldBelow(s, b.floor)
		b.forget(s)
	}
	clear(b.sessions)
	b.dirty = nil
}

// sorted makes what is handed out the same in every run.
func (b *Builder) sorted() []*session {
	list := make([]*session, 0, len(b.sessions))
	for _, s := range b.sessions {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b *session) int {
		return a.Compare(b.SessionKey)
	})
	return list
}

func (b *Builder) sweep() {
	b.swept = b.floor
	for k, s := range b.sessions {
		if b.settle(s) {
			b.forget(s)
			delete(b.sessions, k)
		}
	}
	// A caller that never publishes must not have it grow.
	b.dirty = slices.DeleteFunc(b.dirty, func(s *session) bool { return s.gone || !s.dirty })
}

// foldBelow applies the events before an instant for good.
func (b *Builder) foldBelow(s *session, instant int64) {
	if s.empty() || s.first() >= instant {
		return
	}
	b.thaw(s)
	s.drop(s.below(instant, b.foldBeats(s, instant), func(e entry) {
		if !b.usual(s.state, e.kind, e.at, e.seq, e.says, s.epochs[e.epoch]) {
			b.fold(s, e)
		}
	}))
}

// foldBeats does so for the usual heartbeats at the head of the list, and says how
// many they are.
func (b *Builder) foldBeats(s *session, instant int64) (n int) {
	if len(s.others) > 0 {
		instant = min(instant, s.others[0].at)
	}
	for ; n < len(s.beats); n++ {
		p := s.beats[n]
		if p.at() >= instant || !b.usual(s.state, ledger.KindBeat, p.at(), 0, uint8(p), s.epochs[p.epoch()]) {
			break
		}
	}
	return n
}

// settle makes final what is below the floor. done says that the session can be
// forgotten.
func (b *Builder) settle(s *session) (done bool) {
	b.foldBelow(s, b.floor)
	switch {
	case !s.empty():
		return false
	case s.packed != nil:
		start, last := packedSpan(s.packed)
		return b.floor-max(start, last) > b.horizon
	case !s.state.begun && s.state.ended == 0:
		// Words about a session that never was, or a handle that nobody used.
		return b.floor-s.state.last > b.horizon
	}
	b.expire(s.state, b.floor)
	if s.state.ended != 0 && b.floor > s.state.last {
		b.finish(s, b.beyond(s.state))
		b.pack(s)
	}
	return false
}

// beyond says that no sign of life can prolong the last stretch any more.
func (b *Builder) beyond(s *state) bool { return b.cap > 0 && b.floor-s.run.To > b.cap }

// forget gives the last word on a session, unless it was given.
func (b *Builder) forget(s *session) {
	if s.packed != nil {
		if now := b.unpack(s.packed); now.doubt && !b.beyond(&now) {
			b.thaw(s)
		}
	}
	if s.packed == nil {
		b.finish(s, true)
	}
	s.gone = true
}

// fold applies an event for good.
func (b *Builder) fold(s *session, e entry) {
	epoch := s.epochs[e.epoch]
	rule := b.apply(s.state, e, epoch)
	if rule == "" {
		return
	}
	b.refuse(rule, reasons[rule], b.event(s, e))
}

var reasons = map[string]string{
	ledger.RuleClosed:   "the session had ended",
	ledger.RuleSequence: "an event with a higher sequence happened before",
	ledger.RuleOrder:    "the session ended before it began",
}

// event makes of an entry what it was made of, as far as that was kept:
// clients are kept by session, and labels that nobody counts not at all.
func (b *Builder) event(s *session, e entry) ledger.Event {
	event := ledger.Event{
		At: e.at, User: s.User, Device: s.Device, Session: s.ID, Epoch: s.epochs[e.epoch], Sequence: e.seq, Kind: e.kind,
		Stated: e.says&saysState != 0, Foreground: e.says&saysForeground != 0, Active: e.says&saysActive != 0,
	}
	if e.label > 0 {
		event.Activity = string(b.measures[e.label-1])
	}
	return event
}

// Forget drops the sessions of users, without a word on them.
func (b *Builder) Forget(gone func(user string) bool) {
	for k, s := range b.sessions {
		if gone(k.User) {
			s.gone = true
			delete(b.sessions, k)
		}
	}
	b.dirty = slices.DeleteFunc(b.dirty, func(s *session) bool { return s.gone })
}

// finish hands out a final row and says what is wrong with it.
func (b *Builder) finish(s *session, certain bool) {
	row, claims, rule := b.judge(s, s.state, certain)
	if rule != "" {
		whole := claims
		b.reject(ledger.Rejected{Rule: rule, Reason: wholes[rule], At: time.UnixMilli(whole.End).UTC(), Whole: &whole})
	}
	if s.state.begun || s.shown {
		s.shown = true
		b.session(row, true)
	}
	s.dirty = false
}

var wholes = map[string]string{
	ledger.RuleLimit:   "the session is longer than the limit",
	ledger.RuleNesting: "foreground or active time was claimed where the session was not connected, or not in the foreground",
}

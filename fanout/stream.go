package fanout

import (
	"slices"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// A stream is what one viewer hears of one shard. It outlives its last target by
// the interest's TTL, so that a viewer that comes back is told no lower version.
type stream struct {
	viewer  string
	watches map[string]*watch // by target
	parts   []part            // how the interest is stored

	seq     uint64 // of the last message
	counter uint64 // of the last change told; see board.version

	pending    []*watch  // changed since they were told, oldest first
	announceAt time.Time // the position is due with the next seq; zero for never
	confirmAt  time.Time // the position is due with the same seq
	sightAt    time.Time // the application is to be asked about all; zero for never
	doubtAt    time.Time // the same about doubts
	doubts     []string
	sentAt     time.Time
	tokens     bucket
	deadline   time.Time // when the interest ends, or the stream if it has no targets
	task       task
}

// A watch is one viewer's interest in one target.
type watch struct {
	stream *stream
	target *target
	slot   int // in target.watches; -1 when the watch has ended
	part   int

	// verdict is what the application said last, if it decides.
	verdict wire.Granularity
	// told is the last look that anybody who listens to the stream may have, and
	// count its version.
	told  look
	count uint64
	// pending is set while the watch is in stream.pending; owed says that told
	// went out in an answer only, so that whoever did not ask has not got it.
	pending, owed bool
}

// A target is a user whom somebody watches.
type target struct {
	subject
	watches    []*watch
	flip       task // when it looks different by itself
	rest       task // of a review that is under way
	unreviewed int  // the watches below are still to be reviewed
}

func (t *target) add(w *watch) {
	w.target, w.slot = t, len(t.watches)
	t.watches = append(t.watches, w)
}

func (t *target) remove(w *watch) {
	last := t.watches[len(t.watches)-1]
	t.watches[w.slot], last.slot = last, w.slot
	t.watches[len(t.watches)-1] = nil
	t.watches = t.watches[:len(t.watches)-1]
	w.slot = -1
}

// wait adds a watch to what is to be told.
func (s *stream) wait(w *watch) {
	if !w.pending {
		w.pending = true
		s.pending = append(s.pending, w)
	}
}

// due is when the stream has something to do.
func (s *stream) due(now time.Time, window time.Duration) time.Time {
	at := s.deadline
	for _, t := range []time.Time{s.announceAt, s.confirmAt, s.sightAt, s.doubtAt, s.tellAt(now, window)} {
		if !t.IsZero() && t.Before(at) {
			at = t
		}
	}
	return at
}

// tellAt is when pending changes may be told, zero if there are none: the first
// after a quiet time at once, the others a window after the message before, and
// never above the stream's rate.
func (s *stream) tellAt(now time.Time, window time.Duration) time.Time {
	if len(s.pending) == 0 {
		return time.Time{}
	}
	at := s.tokens.ready(now)
	if next := s.sentAt.Add(window); next.After(at) {
		at = next
	}
	return at
}

func reached(at, now time.Time) bool { return !at.IsZero() && !at.After(now) }

// A message is ready to be published to a viewer.
type message struct {
	viewer   string
	data     []byte
	told     int               // changes in it
	observed []rollcall.Micros // of their states, for the metrics
}

// Limits of a message.
const (
	maxChanges = 500
	// usualViewBytes is the room for a position or a view with ids of usual length.
	usualViewBytes = 192
	// confirmAfter is how long after the last message of a burst its position is
	// repeated, so that its loss is noticed.
	confirmAfter = 2 * time.Second
)

// tell writes the next message of a stream with as many of the pending changes as
// it holds, if any of them is still one.
func (b *board) tell(s *stream, now time.Time) {
	m := message{viewer: s.viewer, data: make([]byte, 0, usualViewBytes*(1+min(len(s.pending), maxChanges)))}
	position := b.position(s)
	position.Seq++
	m.data = append(m.data, '{')
	m.data = appendPosition(m.data, position)
	limit := b.maxPayload - maxViewBytes
	done := 0
	// At least one, whatever the limit: what never went out would be due for ever.
	for ; done < len(s.pending) && m.told < maxChanges && (m.told == 0 || len(m.data) < limit); done++ {
		b.tellOne(&m, s.pending[done], now)
	}
	s.pending = slices.Delete(s.pending, 0, done)
	if m.told == 0 {
		return
	}
	m.data = append(m.data, "]}"...)
	s.seq, s.sentAt, s.confirmAt = position.Seq, now, now.Add(confirmAfter)
	s.tokens.take(now)
	b.out = append(b.out, m)
}

// announce says where a stream stands under the next seq. It never holds changes:
// a viewer that sees the position repeated without having seen the message itself
// then knows that it lost changes, or nothing, by whether the position is new.
func (b *board) announce(s *stream, now time.Time) {
	s.seq++
	b.confirm(s)
	s.announceAt, s.confirmAt = time.Time{}, now.Add(confirmAfter)
}

func (b *board) tellOne(m *message, w *watch, now time.Time) {
	w.pending = false
	if w.slot < 0 {
		return
	}
	l := b.news(w, now)
	if l == w.told && !w.owed {
		return // it changed and changed back
	}
	if l != w.told {
		b.count(w, l)
	}
	w.owed = false
	if m.told == 0 {
		m.data = append(m.data, `,"changes":[`...)
	} else {
		m.data = append(m.data, ',')
	}
	m.data = appendView(m.data, w.target.id, l, b.version(w.count))
	if v := w.target.view; v != nil {
		m.observed = append(m.observed, v.Observed)
	}
	m.told++
}

// count makes l what the viewer has been told, under the next version.
func (b *board) count(w *watch, l look) {
	w.stream.counter++
	w.told, w.count = l, w.stream.counter
}

// confirm repeats the position of a stream.
func (b *board) confirm(s *stream) {
	s.confirmAt = time.Time{}
	data := appendPosition([]byte{'{'}, b.position(s))
	b.out = append(b.out, message{viewer: s.viewer, data: append(data, '}')})
}

func (b *board) position(s *stream) subjects.Position {
	return subjects.Position{
		Shard: b.shard, Generation: b.generation, Seq: s.seq, Feed: b.feed, Reason: b.reason, Targets: len(s.watches),
	}
}

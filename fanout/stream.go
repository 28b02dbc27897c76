package fanout

import (
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// A stream is what one viewer hears of one shard. It outlives its last target by
// the interest's TTL, so that a viewer that comes back is told no lower version.
type stream struct {
	viewer  string
	subject string            // of its messages
	watches map[string]*watch // by target
	parts   []part            // how the interest is stored

	seq     uint64 // of the last message
	counter uint64 // of the last change told; see board.version

	pending    []*watch  // changed since they were told, oldest first
	draft      *draft    // of the message that tells them; nil if nothing of it is written
	planned    bool      // to be written ahead
	unsteady   uint8     // messages that are not written ahead
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

// A watch is one viewer's interest in one target. There are very many.
type watch struct {
	stream *stream
	target *target
	// told is the last look that anybody who listens to the stream may have, and
	// count its version.
	told  *text
	count uint64
	slot  int32 // in target.watches; -1 when the watch has ended
	part  int32
	// verdict is what the application said last, if it decides.
	verdict wire.Granularity
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

	texts [sights]*text // what it looked like when somebody looked
	fresh uint8         // those that it still looks like, a bit for each
}

func (t *target) add(w *watch) {
	w.target, w.slot = t, int32(len(t.watches))
	t.watches = append(t.watches, w)
}

func (t *target) remove(w *watch) {
	last := t.watches[len(t.watches)-1]
	t.watches[w.slot], last.slot = last, w.slot
	t.watches[len(t.watches)-1] = nil
	t.watches = t.watches[:len(t.watches)-1]
	w.slot = -1
}

// text is what the target looks like at a sight. It is remembered until the target
// changes, or looks different by itself.
func (t *target) text(at sight, now time.Time) *text {
	bit := uint8(1) << at
	if t.fresh&bit != 0 && !t.flipped(now) {
		return t.texts[at]
	}
	if l := t.show(at, rollcall.MicrosOf(now)); t.texts[at] == nil || t.texts[at].look != l {
		t.texts[at] = newText(t.id, l)
	}
	if !t.flipped(now) {
		t.fresh |= bit
	}
	return t.texts[at]
}

// flipped says that the target looks different by itself and was not reviewed since.
func (t *target) flipped(now time.Time) bool { return t.flip.index > 0 && !t.flip.at.After(now) }

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
	subject  string
	data     []byte
	told     int               // changes in it
	observed []rollcall.Micros // of their states, for the metrics
	draft    *draft            // whose memory it is, if any
	spans    []trace.Span      // of the traces that it is in
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

// tell sends the next message of a stream with as many of the pending changes as it
// holds, if any of them is still one.
func (b *board) tell(s *stream, now time.Time) {
	if s.draft != nil && !b.trusts(s.draft, now) {
		b.scrap(s)
	}
	d := b.write(s, len(s.pending), now)
	s.draft = nil
	s.settle(d)
	if s.unsteady > 0 {
		s.unsteady--
	}
	if len(s.pending) > 0 {
		b.drafts.plan(s, now.Add(draftAfter))
	}
	told := d.last(s).told
	if told == 0 {
		b.drafts.putBack(d)
		return
	}
	s.seq++
	s.sentAt, s.confirmAt = now, now.Add(confirmAfter)
	s.tokens.take(now)
	b.out = append(b.out, message{viewer: s.viewer, subject: s.subject, data: d.message(b.position(s)), told: int(told), observed: d.observed, draft: d})
}

// settle takes note that what a draft says is told.
func (s *stream) settle(d *draft) {
	s.counter = d.last(s).counter
	for i, l := range d.lines {
		w := s.pending[i]
		w.pending = false
		if l.text == nil {
			continue
		}
		if w.owed = false; w.told != l.text {
			w.told, w.count = l.text, l.counter
		}
	}
	s.pending = slices.Delete(s.pending, 0, len(d.lines))
}

// announce says where a stream stands under the next seq. It never holds changes:
// a viewer that sees the position repeated without having seen the message itself
// then knows that it lost changes, or nothing, by whether the position is new.
func (b *board) announce(s *stream, now time.Time) {
	s.seq++
	b.confirm(s)
	s.announceAt, s.confirmAt = time.Time{}, now.Add(confirmAfter)
}

// confirm repeats the position of a stream.
func (b *board) confirm(s *stream) {
	s.confirmAt = time.Time{}
	data := appendPosition([]byte{'{'}, b.position(s))
	b.out = append(b.out, message{viewer: s.viewer, subject: s.subject, data: append(data, '}')})
}

func (b *board) position(s *stream) subjects.Position {
	return subjects.Position{
		Shard: b.shard, Generation: b.generation, Seq: s.seq, Feed: b.feed, Reason: b.reason, Targets: len(s.watches),
	}
}

package fanout

import (
	"slices"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
)

// A draft is the next message of a stream, as far as it is written. While the stream's
// window runs there is time to write; when the message falls due, a position and some
// bookkeeping are all that is left, so the last of many viewers hears sooner.
//
// Nobody can tell a message that was written ahead from one that was not: whatever
// would have it say something else cuts the draft where it would, or scraps it.
// Nothing is told, and no version is taken, before the message goes out.
type draft struct {
	data     []byte            // room for the position, and the changes with a comma after each
	lines    []line            // for the first of the stream's pending watches, one each
	observed []rollcall.Micros // of the changes; zero if never
	until    time.Time         // when a target looks different by itself; zero for never
	size     int               // as counted in drafts.size
}

// A line is what a draft says of a pending watch.
type line struct {
	text    *text  // nil if there is nothing to tell
	counter uint64 // of the stream, from the line on
	end     int32  // of data
	told    int32  // changes up to the line
}

// Limits of what is written ahead.
const (
	// positionRoom is more than a position usually takes.
	positionRoom = 256
	// draftAfter is for how long a stream's changes are gathered before they are
	// written.
	draftAfter = 50 * time.Millisecond
	// draftStep is how many lines are written before others get the shard: about a
	// tenth of a millisecond.
	draftStep = 256
	// maxDrafts is how many bytes the drafts of a shard take before no more are
	// begun.
	maxDrafts = 16 << 20
	// maxSpare is how many drafts are kept to be used again, and maxSpareBytes how
	// large they are at most.
	maxSpare, maxSpareBytes = 256, 16 << 10
	// steadyAfter is how many messages of a stream are not written ahead after a draft
	// was written in vain: a viewer whose targets flap is told of them by a draft
	// once, not once for each change.
	steadyAfter = 16
)

// last is the last line; before the first, where the stream stands.
func (d *draft) last(s *stream) line {
	if len(d.lines) == 0 {
		return line{counter: s.counter, end: positionRoom}
	}
	return d.lines[len(d.lines)-1]
}

// full says that the message holds no further change.
func (d *draft) full(maxPayload int) bool {
	told := len(d.observed)
	// At least one, whatever the limit: what never went out would be due for ever.
	return told >= maxChanges || told > 0 && len(d.data) >= maxPayload-maxViewBytes
}

// message completes the draft. The position, which is known only now, is put before
// the changes.
func (d *draft) message(p subjects.Position) []byte {
	var room [positionRoom]byte
	head := append(room[:0], '{')
	head = appendPosition(head, p)
	head = append(head, `,"changes":[`...)
	d.data[len(d.data)-1] = ']'
	d.data = append(d.data, '}')
	if len(head) > positionRoom {
		return slices.Concat(head, d.data[positionRoom:])
	}
	begin := positionRoom - len(head)
	copy(d.data[begin:], head)
	return d.data[begin:]
}

// write goes on with the draft of a stream for a number of lines.
func (b *board) write(s *stream, lines int, now time.Time) *draft {
	if s.draft == nil {
		s.draft = b.drafts.take(len(s.pending))
	}
	d := s.draft
	for ; lines > 0 && len(d.lines) < len(s.pending) && !d.full(b.maxPayload); lines-- {
		w, l := s.pending[len(d.lines)], d.last(s)
		if l.text = b.due(w, now); l.text != nil {
			count := w.count
			if l.text != w.told {
				l.counter++
				count = l.counter
			}
			d.data = append(l.text.append(d.data, b.version(count)), ',')
			d.observed = append(d.observed, w.target.observed())
			l.end, l.told = int32(len(d.data)), l.told+1
		}
		d.heed(w.target)
		d.lines = append(d.lines, l)
	}
	b.drafts.count(d)
	return d
}

// due is what is to be told of a pending watch, nil if it changed and changed back.
func (b *board) due(w *watch, now time.Time) *text {
	if w.slot < 0 {
		return nil
	}
	t := b.news(w, now)
	if t == w.told && !w.owed {
		return nil
	}
	return t
}

// tells says whether any of the pending changes of a stream is still one.
func (b *board) tells(s *stream, now time.Time) bool {
	return slices.ContainsFunc(s.pending, func(w *watch) bool { return b.due(w, now) != nil })
}

// observed is when the keeper saw the target's state begin, zero if it never did.
func (t *target) observed() rollcall.Micros {
	if t.view == nil {
		return 0
	}
	return t.view.Observed
}

// trusts says that a draft says what would be written now. Changes of what is known
// cut it when they are reviewed, and until then none is trusted.
func (b *board) trusts(d *draft, now time.Time) bool {
	return b.reviewing == 0 && !reached(d.until, now)
}

// heed notes until when what is said of a target holds.
func (d *draft) heed(t *target) {
	if t.flip.index > 0 {
		d.until = earlier(d.until, t.flip.at)
	}
}

// amend cuts the draft if it says something else of a pending watch than is due now. The
// same may hold for a shorter time than it did.
func (b *board) amend(w *watch, now time.Time) {
	i, d := w.drafted()
	switch {
	case d == nil:
	case d.lines[i].text != b.due(w, now):
		b.cut(w)
	default:
		d.heed(w.target)
	}
}

// cut takes a pending watch and what follows it out of the draft.
func (b *board) cut(w *watch) {
	i, d := w.drafted()
	if d == nil {
		return
	}
	clear(d.lines[i:])
	d.lines = d.lines[:i]
	last := d.last(w.stream)
	d.data, d.observed = d.data[:last.end], d.observed[:last.told]
	w.stream.unsteady = steadyAfter
}

// drafted finds a pending watch in the draft; d is nil if it is not there.
func (w *watch) drafted() (i int, d *draft) {
	d = w.stream.draft
	if d == nil {
		return 0, nil
	}
	i = slices.Index(w.stream.pending[:len(d.lines)], w)
	if i < 0 {
		return 0, nil
	}
	return i, d
}

// scrap throws the draft of a stream away.
func (b *board) scrap(s *stream) {
	b.drafts.putBack(s.draft)
	s.draft = nil
}

// writeAhead writes a step of what will be told, where it is time to.
func (b *board) writeAhead(now time.Time) {
	for lines := draftStep; lines > 0 && reached(b.drafts.next(), now); lines-- {
		s := b.drafts.queue[0].stream
		if len(s.pending) == 0 || s.unsteady > 0 || b.reviewing > 0 || b.drafts.size >= maxDrafts {
			b.drafts.done()
			continue
		}
		before := 0
		if s.draft != nil {
			before = len(s.draft.lines)
		}
		d := b.write(s, lines, now)
		lines -= len(d.lines) - before
		if len(d.lines) == len(s.pending) || d.full(b.maxPayload) {
			b.drafts.done()
		}
	}
}

// Drafts are those of a shard, and what is to be written.
type drafts struct {
	size  int // of all, in bytes
	queue []appointment
	spare []*draft
}

// An appointment is when a stream's draft is to be written.
type appointment struct {
	stream *stream
	at     time.Time
}

// plan has a stream's pending changes written ahead at an instant.
func (q *drafts) plan(s *stream, at time.Time) {
	if !s.planned && s.unsteady == 0 {
		s.planned = true
		q.queue = append(q.queue, appointment{s, at})
	}
}

// next is when there is something to write; zero for never.
func (q *drafts) next() time.Time {
	if len(q.queue) == 0 {
		return time.Time{}
	}
	return q.queue[0].at
}

// done takes the first appointment off.
func (q *drafts) done() {
	q.queue[0].stream.planned = false
	q.queue[0] = appointment{}
	q.queue = q.queue[1:]
}

// take is an empty draft with room for some changes.
func (q *drafts) take(changes int) *draft {
	if n := len(q.spare); n > 0 {
		d := q.spare[n-1]
		q.spare[n-1], q.spare = nil, q.spare[:n-1]
		return d
	}
	changes = min(changes, maxChanges)
	return &draft{
		data:     make([]byte, positionRoom, positionRoom+usualViewBytes*changes),
		lines:    make([]line, 0, changes),
		observed: make([]rollcall.Micros, 0, changes),
	}
}

// putBack takes a draft, or nil, that is not needed any more.
func (q *drafts) putBack(d *draft) {
	if d == nil {
		return
	}
	q.size -= d.size
	if len(q.spare) == maxSpare || cap(d.data) > maxSpareBytes {
		return
	}
	clear(d.lines)
	*d = draft{data: d.data[:positionRoom], lines: d.lines[:0], observed: d.observed[:0]}
	q.spare = append(q.spare, d)
}

// count notes how large a draft is by now.
func (q *drafts) count(d *draft) {
	const lineBytes, observedBytes = 24, 8
	size := cap(d.data) + lineBytes*cap(d.lines) + observedBytes*cap(d.observed)
	q.size += size - d.size
	d.size = size
}

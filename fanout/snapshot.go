package fanout

import (
	"time"

	"github.com/rollcall-io/rollcall/subjects/wire"
)

// get appends the views of targets without subscribing to them.
func (b *board) get(data []byte, viewer string, targets []string, said verdicts, now time.Time) []byte {
	s := b.streams[viewer]
	if s != nil {
		b.hear(s, said, now)
	}
	data = b.snapshot(data, viewer, s, targets, said, now)
	if s != nil {
		b.retime(s, now)
	}
	return data
}

// snapshot appends a position and the views of the visible targets. s is nil for a
// viewer without a stream.
func (b *board) snapshot(data []byte, viewer string, s *stream, targets []string, said verdicts, now time.Time) []byte {
	data = append(data, '{')
	data = appendPosition(data, b.positionOf(viewer, now))
	first := true
	for _, id := range targets {
		l, count := b.answer(viewer, s, id, said[id], now)
		if !l.visible() {
			continue
		}
		if first {
			data = append(data, `,"views":[`...)
		} else {
			data = append(data, ',')
		}
		first = false
		data = appendView(data, id, l, b.version(count))
	}
	if !first {
		data = append(data, ']')
	}
	return append(data, '}')
}

// answer is what a viewer is told of a target in an answer, and its count. The
// same content and version must not go out for different things: a change that
// waits in the stream is counted here and told there all the same, because the
// viewer may have several clients and only one of them gets the answer.
func (b *board) answer(viewer string, s *stream, id string, verdict wire.Granularity, now time.Time) (look, uint64) {
	if s == nil {
		return b.look(viewer, id, verdict, now), b.floor(now)
	}
	w := s.watches[id]
	if w == nil {
		return b.look(viewer, id, verdict, now), s.counter
	}
	l := b.news(w, now)
	if l != w.told {
		b.count(w, l)
		w.owed = true
		s.wait(w)
	}
	return l, w.count
}

// size is how long the views of targets are in an answer, with some room.
func (b *board) size(viewer string, targets []string, said verdicts, now time.Time) int {
	var scratch []byte
	n := maxViewBytes // position
	for _, id := range targets {
		if l := b.look(viewer, id, said[id], now); l.visible() {
			scratch = appendView(scratch[:0], id, l, b.version(b.floor(now)))
			n += len(scratch) + 1
		}
	}
	return n
}

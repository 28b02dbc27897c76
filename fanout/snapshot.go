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
	separator := `,"views":[`
	for _, id := range targets {
		with, visible := b.answer(append(data, separator...), viewer, s, id, said[id], now)
		if visible {
			data, separator = with, ","
		}
	}
	if separator == "," {
		data = append(data, ']')
	}
	return append(data, '}')
}

// answer appends what a viewer is told of a target in an answer, if it sees any of it.
func (b *board) answer(data []byte, viewer string, s *stream, id string, verdict wire.Granularity, now time.Time) (out []byte, visible bool) {
	counter := b.floor(now)
	if s != nil {
		if w := s.watches[id]; w != nil {
			b.catchUp(w, now)
			return w.told.append(data, b.version(w.count)), w.told.visible()
		}
		counter = s.counter
	}
	l := b.look(viewer, id, verdict, now)
	return appendView(data, id, l, b.version(counter)), l.visible()
}

// catchUp makes what a watch looks like now what its viewer was told, for an answer.
// The same content and version must not go out for different things: a change that waits
// in the stream is counted here and told there all the same, because the viewer may
// have several clients and only one of them gets the answer.
func (b *board) catchUp(w *watch, now time.Time) {
	t := b.news(w, now)
	if t == w.told {
		return
	}
	s := w.stream
	b.scrap(s) // its versions are those that follow now
	s.counter++
	w.told, w.count, w.owed = t, s.counter, true
	b.wait(w, now)
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

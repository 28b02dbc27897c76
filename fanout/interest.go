package fanout

import (
	"maps"
	"slices"
	"time"

	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// maxPart is how many targets one record of an interest holds: a change of few
// targets rewrites little.
const maxPart = 256

// A part is one stored record of an interest.
type part struct {
	targets int
	written time.Time
}

// A plan is what subscribing will change. Requests of one viewer come one after
// the other, so it stays valid while the records are stored.
type plan struct {
	targets []string
	place   map[string]int // the part of each target that is new
	writes  []partWrite
	parts   []part
}

// A partWrite is a record to be stored.
type partWrite struct {
	part    int
	targets []string
}

// plan says what subscribing to targets will change. Records with less than half
// of their time left are rewritten too. Whoever asks is there: the interest does not
// end before the records are stored.
func (b *board) plan(viewer string, targets []string, now time.Time) plan {
	p := plan{targets: targets, place: make(map[string]int)}
	s := b.streams[viewer]
	var watches map[string]*watch
	if s != nil {
		watches, p.parts = s.watches, slices.Clone(s.parts)
		s.deadline = now.Add(b.ttl)
		b.retime(s, now)
	}
	touched := p.stale(now, b.ttl)
	for _, t := range targets {
		if _, known := watches[t]; known {
			continue
		}
		n := p.room()
		p.place[t], touched[n] = n, true
		p.parts[n].targets++
	}
	p.collect(touched, watches)
	for _, w := range p.writes {
		p.parts[w.part].written = now
	}
	return p
}

// unknown appends those of the targets that a viewer is not subscribed to.
func (b *board) unknown(added []string, viewer string, targets []string) []string {
	s := b.streams[viewer]
	if s == nil {
		return append(added, targets...)
	}
	for _, id := range targets {
		if s.watches[id] == nil {
			added = append(added, id)
		}
	}
	return added
}

func (p *plan) stale(now time.Time, ttl time.Duration) map[int]bool {
	stale := make(map[int]bool)
	for n, part := range p.parts {
		if part.targets > 0 && now.Sub(part.written) >= ttl/2 {
			stale[n] = true
		}
	}
	return stale
}

// room finds a part that is not full.
func (p *plan) room() int {
	for n, part := range p.parts {
		if part.targets < maxPart {
			return n
		}
	}
	p.parts = append(p.parts, part{})
	return len(p.parts) - 1
}

// collect lists the targets of every touched part.
func (p *plan) collect(touched map[int]bool, watches map[string]*watch) {
	if len(touched) == 0 {
		return
	}
	contents := make(map[int][]string, len(touched))
	for id, w := range watches {
		if touched[int(w.part)] {
			contents[int(w.part)] = append(contents[int(w.part)], id)
		}
	}
	for _, id := range p.targets {
		if n, isNew := p.place[id]; isNew {
			contents[n] = append(contents[n], id)
		}
	}
	for n := range touched {
		slices.Sort(contents[n])
		p.writes = append(p.writes, partWrite{n, contents[n]})
	}
	slices.SortFunc(p.writes, func(a, b partWrite) int { return a.part - b.part })
}

// subscribe registers the targets of a plan and appends the snapshot, in one step,
// so that a later change is either in the snapshot or becomes an event.
func (b *board) subscribe(data []byte, viewer string, p plan, said verdicts, now time.Time) []byte {
	s := b.stream(viewer, now)
	s.deadline, s.parts = now.Add(b.ttl), p.parts
	if len(p.place) > 0 {
		b.scrap(s)
		s.counter++ // nothing told under an earlier interest is as new
	}
	for _, id := range p.targets {
		if s.watches[id] == nil {
			b.watch(s, id, p.place[id], said[id], now)
		}
	}
	b.hear(s, said, now)
	data = b.snapshot(data, viewer, s, p.targets, said, now)
	b.retime(s, now)
	return data
}

func (b *board) watch(s *stream, id string, part int, verdict wire.Granularity, now time.Time) {
	t := b.targets[id]
	if t == nil {
		t = &target{subject: b.known.subject(id)}
		b.targets[id] = t
		b.awaitFlip(t, now)
	}
	w := &watch{stream: s, part: int32(part), verdict: verdict, count: s.counter}
	t.add(w)
	w.told = b.watched(w, now)
	s.watches[id] = w
	b.interests++
}

// restore registers a stored part of an interest at a takeover.
func (b *board) restore(viewer string, n int, targets []string, written, now time.Time) {
	s := b.stream(viewer, now)
	s.deadline = now.Add(b.ttl)
	for len(s.parts) <= n {
		s.parts = append(s.parts, part{})
	}
	s.parts[n].written = written
	if b.asks {
		s.sightAt = now.Add(sightRetry)
	}
	for _, id := range targets {
		if s.watches[id] == nil {
			b.watch(s, id, n, wire.Granularity_GRANULARITY_UNSPECIFIED, now)
			s.parts[n].targets++
		}
	}
	b.retime(s, now)
}

// unsubscribe removes targets, or all if none is named, and returns the records
// to be stored. Others who share the viewer's id hear of it by the position.
func (b *board) unsubscribe(viewer string, targets []string, all bool, now time.Time) []partWrite {
	s := b.streams[viewer]
	if s == nil {
		return nil
	}
	var ended []*watch
	if all {
		ended = slices.Collect(maps.Values(s.watches))
	}
	for _, id := range targets {
		if w := s.watches[id]; w != nil {
			ended = append(ended, w)
		}
	}
	if len(ended) == 0 {
		return nil
	}
	p := plan{parts: s.parts}
	touched := make(map[int]bool)
	for _, w := range ended {
		b.end(w)
		touched[int(w.part)] = true
		s.parts[w.part].targets--
	}
	p.collect(touched, s.watches)
	for _, w := range p.writes {
		s.parts[w.part].written = now
	}
	if len(s.watches) == 0 {
		b.empty(s)
		s.deadline = now.Add(b.ttl)
	}
	// The seq moves at once, so that the answer tells whoever asked what the
	// others hear next.
	s.seq++
	s.confirmAt = now
	b.retime(s, now)
	return p.writes
}

// refresh keeps an interest alive and appends where the stream stands; known is
// false if the viewer has no stream here.
func (b *board) refresh(data []byte, viewer string, now time.Time) (out []byte, writes []partWrite, known bool) {
	s := b.streams[viewer]
	if s == nil {
		return data, nil, false
	}
	if len(s.watches) > 0 {
		p := b.plan(viewer, nil, now)
		writes, s.parts = p.writes, p.parts
	}
	return b.stand(data, viewer, now), writes, true
}

// stand appends a snapshot without views.
func (b *board) stand(data []byte, viewer string, now time.Time) []byte {
	data = append(data, '{')
	data = appendPosition(data, b.positionOf(viewer, now))
	return append(data, '}')
}

func (b *board) positionOf(viewer string, now time.Time) subjects.Position {
	if s := b.streams[viewer]; s != nil {
		return b.position(s)
	}
	return b.position(&stream{seq: b.floor(now)})
}

// unwritten takes note that records were not stored.
func (b *board) unwritten(viewer string, writes []partWrite) {
	s := b.streams[viewer]
	if s == nil {
		return
	}
	for _, w := range writes {
		if w.part < len(s.parts) {
			s.parts[w.part].written = time.Time{}
		}
	}
}

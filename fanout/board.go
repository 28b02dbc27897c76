package fanout

import (
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
)

// A board is the state of one shard: who is how, who watches whom, and what they
// were told. It does no I/O and reads no clock; package-internal tests drive it
// directly. Its methods are not safe for concurrent use: the shard's lock makes
// each of them one step.
type board struct {
	boardConfig
	views     map[string]View
	loading   map[string]View // what is read of the bucket until it is complete
	targets   map[string]*target
	streams   map[string]*stream
	agenda    agenda
	health    health
	feed      subjects.Feed // as announced
	reason    string
	floor     uint64 // no stream starts below: what forgotten streams reached
	out       []message
	merged    int      // changes that were merged into pending ones
	interests int      // watches of all streams
	stalls    []string // reasons of stalls since the last look
}

type boardConfig struct {
	shard      int
	generation uint64
	policy     Policy
	window     time.Duration
	ttl        time.Duration // of an interest
	outage     time.Duration
	maxPayload int
}

func newBoard(cfg boardConfig, now time.Time) *board {
	return &board{
		boardConfig: cfg,
		loading:     make(map[string]View),
		targets:     make(map[string]*target),
		streams:     make(map[string]*stream),
		health:      newHealth(cfg.outage, now),
		feed:        subjects.FeedLive,
	}
}

// versionShift leaves room for four million changes to one viewer.
const versionShift = 22

func (b *board) version(count uint64) uint64 { return b.generation<<versionShift + count }

// look is what a viewer may know of a target. Now is cut to the minute, so that
// the end of "recently" does not tell the second.
func (b *board) look(viewer, target string, now time.Time) look {
	v, exists := b.views[target]
	if !exists {
		return look{}
	}
	return trim(v, b.policy.Sight(viewer, target), cutMinute(rollcall.MicrosOf(now)))
}

// news is what a watch looks like now: what was told, unless it says something else
// by now. Who left and came back before anybody was told did nothing that the
// viewer could see, though the keeper observed it at another minute.
func (b *board) news(w *watch, now time.Time) look {
	l := b.look(w.stream.viewer, w.target.id, now)
	same := l
	same.observed = w.told.observed
	if same == w.told {
		return w.told
	}
	return l
}

// apply takes a record into account.
func (b *board) apply(c change, now time.Time) {
	views := b.views
	if b.loading != nil {
		views = b.loading
	}
	if c.view == nil {
		delete(views, c.user)
	} else {
		views[c.user] = *c.view
	}
	if t := b.targets[c.user]; t != nil && b.loading == nil {
		b.review(t, now)
	}
}

// reload begins to read the bucket anew. What is known stays until all is read.
func (b *board) reload() {
	b.loading = make(map[string]View)
	b.health.rollBack()
}

// loaded says that everything that the bucket held has been read.
func (b *board) loaded(now time.Time) {
	if b.loading == nil {
		return
	}
	b.views, b.loading = b.loading, nil
	for _, t := range b.targets {
		b.review(t, now)
	}
}

func (b *board) ready() bool { return b.views != nil }

// review tells whoever watches a target, if it looks different to them now.
func (b *board) review(t *target, now time.Time) {
	for _, w := range t.watches {
		switch {
		case w.pending:
			b.merged++
		case b.news(w, now) != w.told:
			w.stream.wait(w)
			b.retime(w.stream, now)
		}
	}
	b.awaitFlip(t, now)
}

// awaitFlip comes back to a target when "recently" ends.
func (b *board) awaitFlip(t *target, now time.Time) {
	var at time.Time
	if stale := staleAt(b.views[t.id], rollcall.MicrosOf(now)); stale != 0 {
		at = stale.Time()
	}
	if t.flip.run == nil {
		t.flip.run = func(now time.Time) { b.review(t, now) }
	}
	b.agenda.set(&t.flip, at)
}

// pulse takes a pulse of the shard's keeper into account.
func (b *board) pulse(generation, revision uint64, now time.Time) {
	b.health.pulse(generation, revision, now)
	b.checkFeed(now)
}

// reach says up to which revision the bucket has been read.
func (b *board) reach(revision uint64, now time.Time) {
	b.health.reach(revision, now)
	b.checkFeed(now)
}

// checkFeed announces a stall, or its end, with one message to each stream.
func (b *board) checkFeed(now time.Time) {
	feed, reason := b.health.state(now)
	if feed == b.feed && reason == b.reason {
		return
	}
	b.feed, b.reason = feed, reason
	if reason != "" {
		b.stalls = append(b.stalls, reason)
	}
	b.announceAll(now)
}

// pace is the distance of messages that go to every stream of a shard.
const pace = 100 * time.Microsecond

// announceAll sends every stream its position with the next seq.
func (b *board) announceAll(now time.Time) {
	at := now
	for _, s := range b.streams {
		// A position that is still to be repeated must not tell of a feed that was
		// not announced: it would pass for the announcement.
		if len(s.watches) > 0 || !s.confirmAt.IsZero() {
			s.announceAt, at = at, at.Add(pace)
			b.retime(s, now)
		}
	}
}

// confirmAll repeats every stream's position: messages may have been lost.
func (b *board) confirmAll(now time.Time) {
	at := now
	for _, s := range b.streams {
		if len(s.watches) > 0 {
			s.confirmAt, at = at, at.Add(pace)
			b.retime(s, now)
		}
	}
}

// flush does what is due and returns at most about limit messages; next is when to
// come back, zero if only something else can give work.
func (b *board) flush(now time.Time, limit int) (messages []message, next time.Time) {
	b.checkFeed(now)
	b.out = nil
	for len(b.out) < limit {
		t := b.agenda.pop(now)
		if t == nil {
			break
		}
		t.run(now)
	}
	next = b.agenda.next()
	if change := b.health.next(now); next.IsZero() || !change.IsZero() && change.Before(next) {
		next = change
	}
	return b.out, next
}

func (b *board) retime(s *stream, now time.Time) { b.agenda.set(&s.task, s.due(now, b.window)) }

// serve does what is due for a stream.
func (b *board) serve(s *stream, now time.Time) {
	if reached(s.deadline, now) {
		b.expire(s, now)
		return
	}
	switch {
	case reached(s.announceAt, now):
		b.announce(s, now)
	case reached(s.tellAt(now, b.window), now):
		b.tell(s, now)
	case reached(s.confirmAt, now) && (len(s.pending) > 0 || !s.announceAt.IsZero()):
		// A message with the next seq comes anyway. Repeating the seq with a
		// position that has not been announced would pass for the announcement.
		s.confirmAt = now.Add(confirmAfter)
	case reached(s.confirmAt, now):
		b.confirm(s)
	}
	b.retime(s, now)
}

// expire ends an interest that was not refreshed, or forgets a stream that has had
// no targets for as long.
func (b *board) expire(s *stream, now time.Time) {
	if len(s.watches) == 0 {
		b.floor = max(b.floor, s.seq, s.counter)
		delete(b.streams, s.viewer)
		return
	}
	for _, w := range s.watches {
		b.end(w)
	}
	b.empty(s)
	// A client that was only late sees by the seq that it has missed something.
	s.seq++
	s.deadline = now.Add(b.ttl)
	b.retime(s, now)
}

// stream finds or makes the stream of a viewer.
func (b *board) stream(viewer string) *stream {
	s := b.streams[viewer]
	if s == nil {
		s = &stream{viewer: viewer, watches: make(map[string]*watch), seq: b.floor, counter: b.floor}
		s.task.run = func(now time.Time) { b.serve(s, now) }
		b.streams[viewer] = s
	}
	return s
}

// end takes a watch away from its target and stream.
func (b *board) end(w *watch) {
	w.target.remove(w)
	delete(w.stream.watches, w.target.id)
	b.interests--
	if len(w.target.watches) == 0 {
		b.agenda.set(&w.target.flip, time.Time{})
		delete(b.targets, w.target.id)
	}
}

// empty forgets what a stream without targets had to say.
func (b *board) empty(s *stream) {
	clear(s.pending)
	s.pending, s.parts, s.announceAt, s.confirmAt = nil, nil, time.Time{}, time.Time{}
}

package fanout

import (
	"hash/fnv"
	"maps"
	"math/bits"
	"slices"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// A board is the state of one shard: who is how, who may know it, who watches whom,
// and what they were told. It does no I/O and reads no clock; package-internal tests drive it
// directly. Its methods are not safe for concurrent use: the shard's lock makes
// each of them one step.
type board struct {
	boardConfig
	known     *records // what the bucket holds; nil until it is read
	loading   *records // what is read of it until that is complete
	targets   map[string]*target
	streams   map[string]*stream
	agenda    agenda
	health    health
	feed      subjects.Feed // as announced
	reason    string
	began     time.Time // see floor
	forgotten uint64    // what forgotten streams reached
	out       []message // of the last flush
	drafts    drafts
	reviewing int // targets whose review is under way
	questions []question
	reviewed  int      // watches in this flush
	merged    int      // changes that were merged into pending ones
	interests int      // watches of all streams
	stalls    []string // reasons of stalls since the last look
}

type boardConfig struct {
	shard      int
	generation uint64
	address    func(viewer string) string // the subject of a viewer's events; nil in tests that publish nothing
	defaults   Defaults
	asks       bool // an application decides who may know what
	window     time.Duration
	ttl        time.Duration // of an interest
	sightTTL   time.Duration // of what the application said
	outage     time.Duration
	maxPayload int
}

func newBoard(cfg boardConfig, now time.Time) *board {
	return &board{
		boardConfig: cfg,
		loading:     newRecords(),
		targets:     make(map[string]*target),
		streams:     make(map[string]*stream),
		health:      newHealth(cfg.outage, now),
		feed:        subjects.FeedLive,
		began:       now,
	}
}

// versionShift leaves room for four million changes to one viewer.
const versionShift = 22

func (b *board) version(count uint64) uint64 { return b.generation<<versionShift + count }

// floor is where a stream starts that begins now: above all that a forgotten one of
// the same viewer has reached. It counts time rather than what forgotten streams did
// reach, which would tell of what others were told. At four thousand a second it
// outruns every stream, and the seconds that generations count outrun it.
func (b *board) floor(now time.Time) uint64 {
	return max(uint64(now.Sub(b.began).Microseconds())>>8, b.forgotten)
}

// Records are what the bucket of views holds: one sequence, so that a block that came
// before a change is seen before it.
type records struct {
	views    map[string]View
	policies map[string][]byte   // compiled when somebody looks
	groups   map[string][]string // sorted
}

func newRecords() *records {
	return &records{views: make(map[string]View), policies: make(map[string][]byte), groups: make(map[string][]string)}
}

func (r *records) apply(c change) {
	switch c.kind {
	case subjects.KindView:
		put(r.views, c.user, c.view)
	case subjects.KindPolicy:
		put(r.policies, c.user, c.policy)
	case subjects.KindGroups:
		put(r.groups, c.user, c.groups)
	}
}

// put stores a value; nil takes it away.
func put[V any](m map[string]V, key string, v *V) {
	if v == nil {
		delete(m, key)
		return
	}
	m[key] = *v
}

// subject is all that is known of a user.
func (r *records) subject(id string) subject {
	s := subject{id: id, groups: r.groups[id]}
	if v, exists := r.views[id]; exists {
		s.view = &v
	}
	if data, exists := r.policies[id]; exists {
		w, err := decodePolicy(data)
		if err != nil {
			panic(err) // it was decoded when it was read
		}
		s.policy = compile(w)
	}
	return s
}

// subject is all that is known of a target; of one that is watched it is kept.
func (b *board) subject(id string) subject {
	if t := b.targets[id]; t != nil {
		return t.subject
	}
	return b.known.subject(id)
}

// beholder is who looks. The verdict counts only if an application decides.
func (b *board) beholder(viewer string, verdict wire.Granularity) beholder {
	return beholder{id: viewer, groups: b.known.groups[viewer], asked: b.asks, verdict: verdict}
}

// look is what a viewer who does not watch a target may know of it.
func (b *board) look(viewer, target string, verdict wire.Granularity, now time.Time) look {
	return see(b.subject(target), b.beholder(viewer, verdict), b.defaults, rollcall.MicrosOf(now))
}

// watched is what a watch looks like now: see, by way of what the target remembers.
func (b *board) watched(w *watch, now time.Time) *text {
	by := beholder{id: w.stream.viewer, asked: b.asks, verdict: w.verdict}
	if len(w.target.groups) > 0 {
		by.groups = b.known.groups[by.id]
	}
	return w.target.text(w.target.sight(&by, b.defaults), now)
}

// news is what a watch looks like now: what was told, unless that differs by now.
func (b *board) news(w *watch, now time.Time) *text {
	if t := b.watched(w, now); t != w.told && t.differs(&w.told.look) {
		return t
	}
	return w.told
}

// apply takes a record into account.
func (b *board) apply(c change, now time.Time) {
	if b.loading != nil {
		b.loading.apply(c)
		return
	}
	b.known.apply(c)
	if t := b.targets[c.user]; t != nil {
		t.subject = b.known.subject(c.user)
		b.review(t, now)
	}
	if s := b.streams[c.user]; s != nil && c.kind == subjects.KindGroups {
		// The groups of a viewer count for all that it watches.
		for _, id := range slices.Sorted(maps.Keys(s.watches)) {
			b.check(s.watches[id], now)
		}
	}
}

// reload begins to read the bucket anew. What is known stays until all is read.
func (b *board) reload() {
	b.loading = newRecords()
	b.health.rollBack()
}

// loaded says that everything that the bucket held has been read.
func (b *board) loaded(now time.Time) {
	if b.loading == nil {
		return
	}
	b.known, b.loading = b.loading, nil
	for _, id := range slices.Sorted(maps.Keys(b.targets)) {
		t := b.targets[id]
		t.subject = b.known.subject(id)
		b.review(t, now)
	}
}

func (b *board) ready() bool { return b.known != nil }

// Reviews go in steps, so that a target whom very many watch leaves room for others:
// reviewStep watches a step, and at most reviewLimit in one flush.
const (
	reviewStep  = 512
	reviewLimit = 4096
)

// review tells whoever watches a target, if it looks different to them now.
func (b *board) review(t *target, now time.Time) {
	t.fresh = 0
	b.unreviewed(t, len(t.watches))
	b.awaitFlip(t, now)
	b.reviewSome(t, now)
}

// reviewSome goes on with a review, from the last watch to the first: one that ends
// meanwhile moves the last into its place, which is then looked at twice at worst,
// and one that begins knows what there is to see.
func (b *board) reviewSome(t *target, now time.Time) {
	n := min(t.unreviewed, len(t.watches))
	for end := max(0, n-reviewStep); n > end; {
		n--
		b.check(t.watches[n], now)
		b.reviewed++
	}
	b.unreviewed(t, n)
	var next time.Time
	if n > 0 {
		next = now
		if t.rest.run == nil {
			t.rest.run = func(now time.Time) { b.reviewSome(t, now) }
		}
	}
	b.agenda.set(&t.rest, next)
}

// unreviewed says how many watches of a target are still to be reviewed.
func (b *board) unreviewed(t *target, n int) {
	switch {
	case t.unreviewed == 0 && n > 0:
		b.reviewing++
	case t.unreviewed > 0 && n == 0:
		b.reviewing--
	}
	t.unreviewed = n
}

// check lets a watch wait to be told, if its target looks different now.
func (b *board) check(w *watch, now time.Time) {
	switch {
	case w.pending:
		b.merged++
		b.amend(w, now)
	case b.news(w, now) != w.told:
		b.wait(w, now)
	}
}

// wait adds a watch to what its stream is to tell.
func (b *board) wait(w *watch, now time.Time) {
	if w.pending {
		return
	}
	s := w.stream
	w.pending = true
	s.pending = append(s.pending, w)
	if len(s.pending) == 1 { // more of them are not due sooner
		b.retime(s, now)
	}
	b.drafts.plan(s, now.Add(draftAfter))
}

// awaitFlip comes back to a target when it looks different by itself: when "recently"
// ends, or what it says of itself.
func (b *board) awaitFlip(t *target, now time.Time) {
	s, instant := t.subject, rollcall.MicrosOf(now)
	flip := s.policy.next(instant)
	if shown := s.policy.shown(s.view, instant); shown != nil {
		if stale := staleAt(*shown, instant); stale != 0 && (flip == 0 || stale < flip) {
			flip = stale
		}
	}
	var at time.Time
	if flip != 0 {
		at = flip.Time()
	}
	if t.flip.run == nil {
		t.flip.first, t.flip.run = t.id, func(now time.Time) { b.review(t, now) }
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

// Messages that go to every stream of a shard are spread if there are many: pace is
// their distance on average.
const (
	pace      = 100 * time.Microsecond
	unhurried = 1024 // streams that need no spreading
)

// moment is how long such a message waits. Each viewer has a place of its own, among
// places whose number doubles now and then: who else is there must not show in it.
func (b *board) moment(viewer string) time.Duration {
	if len(b.streams) <= unhurried {
		return 0
	}
	h := fnv.New32a()
	h.Write([]byte(viewer))
	places := uint32(1) << bits.Len(uint(len(b.streams)-1))
	return time.Duration(h.Sum32()%places) * pace
}

// announceAll sends every stream its position with the next seq.
func (b *board) announceAll(now time.Time) {
	for viewer, s := range b.streams {
		// A position that is still to be repeated must not tell of a feed that was
		// not announced: it would pass for the announcement.
		if len(s.watches) > 0 || !s.confirmAt.IsZero() {
			s.announceAt = now.Add(b.moment(viewer))
			b.retime(s, now)
		}
	}
}

// confirmAll repeats every stream's position: messages may have been lost.
func (b *board) confirmAll(now time.Time) {
	for viewer, s := range b.streams {
		if len(s.watches) > 0 {
			s.confirmAt = now.Add(b.moment(viewer))
			b.retime(s, now)
		}
	}
}

// flush does what is due and returns at most about limit messages, which stay valid
// until the next flush; if nothing is due it writes ahead. next is when to come back,
// zero if only something else can give work.
func (b *board) flush(now time.Time, limit int) (messages []message, next time.Time) {
	b.checkFeed(now)
	for i, m := range b.out {
		b.drafts.putBack(m.draft)
		b.out[i] = message{}
	}
	b.out, b.reviewed = b.out[:0], 0
	for len(b.out) < limit && b.reviewed < reviewLimit {
		t := b.agenda.pop(now)
		if t == nil {
			break
		}
		t.run(now)
	}
	next = earlier(b.agenda.next(), b.health.next(now))
	if len(b.out) == 0 && !reached(next, now) {
		b.writeAhead(now)
	}
	return b.out, earlier(next, b.drafts.next())
}

// earlier is the first of two instants; zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func (b *board) retime(s *stream, now time.Time) { b.agenda.set(&s.task, s.due(now, b.window)) }

// serve does what is due for a stream.
func (b *board) serve(s *stream, now time.Time) {
	if reached(s.deadline, now) {
		b.expire(s, now)
		return
	}
	if reached(s.sightAt, now) || reached(s.doubtAt, now) {
		b.question(s, now)
	}
	switch {
	case reached(s.announceAt, now):
		b.announce(s, now)
	case reached(s.tellAt(now, b.window), now):
		b.tell(s, now)
	case reached(s.confirmAt, now) && (!s.announceAt.IsZero() || b.tells(s, now)):
		// A message with the next seq comes anyway. Repeating the seq with a
		// position that has not been announced would pass for the announcement.
		// What changed and changed back is nothing to tell, nor to wait for.
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
		b.forgotten = max(b.forgotten, s.seq, s.counter) // a safeguard; see floor
		delete(b.streams, s.viewer)
		return
	}
	b.scrap(s)
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
func (b *board) stream(viewer string, now time.Time) *stream {
	s := b.streams[viewer]
	if s == nil {
		floor := b.floor(now)
		s = &stream{viewer: viewer, watches: make(map[string]*watch), seq: floor, counter: floor}
		if b.address != nil {
			s.subject = b.address(viewer)
		}
		s.task.run = func(now time.Time) { b.serve(s, now) }
		b.streams[viewer] = s
	}
	return s
}

// end takes a watch away from its target and stream.
func (b *board) end(w *watch) {
	w.target.remove(w)
	if w.pending {
		b.cut(w)
	}
	delete(w.stream.watches, w.target.id)
	b.interests--
	if len(w.target.watches) == 0 {
		b.agenda.set(&w.target.flip, time.Time{})
		b.agenda.set(&w.target.rest, time.Time{})
		b.unreviewed(w.target, 0)
		delete(b.targets, w.target.id)
	}
}

// empty forgets what a stream without targets had to say.
func (b *board) empty(s *stream) {
	b.scrap(s)
	clear(s.pending)
	s.pending, s.parts, s.doubts = nil, nil, nil
	s.announceAt, s.confirmAt, s.sightAt, s.doubtAt = time.Time{}, time.Time{}, time.Time{}, time.Time{}
}

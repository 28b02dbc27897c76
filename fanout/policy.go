package fanout

import (
	"fmt"
	"slices"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// Defaults is how much may be known by relation of users whose policy leaves it open.
type Defaults struct {
	Contact, Member, Everyone rollcall.Granularity
}

// Open shows everyone everything, as long as users say nothing else.
var Open = Defaults{rollcall.Exact, rollcall.Exact, rollcall.Exact}

// of is how much may be known under a rule that leaves it open.
func (d Defaults) of(r Rule) rollcall.Granularity {
	switch r {
	case RuleContact:
		return d.Contact
	case RuleMember:
		return d.Member
	case RuleEveryone:
		return d.Everyone
	}
	return rollcall.Absent
}

// A subject is all that is known of a target.
type subject struct {
	id     string
	view   *View // nil for a user who never was online
	policy *policy
	groups []string
}

// A beholder is who looks at it.
type beholder struct {
	id     string
	groups []string
	// asked says that an application decides how much may be known, and verdict
	// what it said; unspecified as long as it has said nothing.
	asked   bool
	verdict wire.Granularity
}

// see is what a beholder may know of a subject, as a pure function.
func see(s subject, by beholder, d Defaults, now rollcall.Micros) look {
	return s.show(s.sight(&by, d), now)
}

// A sight is how much a beholder may know of a subject: a granularity, or one of the
// others below. All who have the same sight of a subject see the same of it.
type sight uint8

const (
	// self is of users who look at themselves.
	self = sight(rollcall.Exact) + 1 + iota
	// veiled is of those who may not know whether there is such a user, or must not
	// find out by the answer.
	veiled
	sights // how many there are
)

// show is what a subject looks like at a sight.
func (s *subject) show(at sight, now rollcall.Micros) look {
	switch at {
	case self:
		return s.self(now)
	case veiled:
		return look{status: codeUnknown}
	}
	g, view := rollcall.Granularity(at), s.policy.shown(s.view, now)
	if view == nil {
		return look{}
	}
	l := trim(*view, g, cutMinute(now))
	if g == rollcall.Exact && l.status == codeOnline {
		l.availability, l.text = s.policy.says(now)
	}
	return l
}

// self is what users see of themselves: what is, and what they said.
func (s *subject) self(now rollcall.Micros) look {
	if s.view == nil {
		return look{}
	}
	l := trimExact(*s.view)
	if l.status == codeOnline {
		l.availability, l.text = s.policy.says(now)
		if s.policy.covered(now) {
			l.availability = rollcall.Invisible
		}
	}
	return l
}

// sight is how much a beholder may know.
func (s *subject) sight(by *beholder, d Defaults) sight {
	if s.id == by.id {
		return self
	}
	if by.asked && by.verdict == wire.Granularity_GRANULARITY_UNSPECIFIED {
		return veiled // the application that decides has not answered
	}
	g := s.granularity(by, d)
	if g == rollcall.Hidden && (s.policy != nil || by.asked) {
		return veiled
	}
	if g > rollcall.Exact {
		return sight(rollcall.Absent) // of the future
	}
	return sight(g)
}

func (s *subject) granularity(by *beholder, d Defaults) rollcall.Granularity {
	switch {
	case by.asked && s.policy.blocked(by.id):
		return rollcall.Absent
	case by.asked:
		return granularityOf(by.verdict, rollcall.Absent)
	}
	rule, stored := s.policy.rule(by.id, s.shares(by))
	return granularityOf(stored, d.of(rule))
}

// shares says whether the two have a group in common.
func (s *subject) shares(by *beholder) bool {
	return slices.ContainsFunc(by.groups, func(g string) bool { return contains(s.groups, g) })
}

// A policy is a stored policy, ready to be asked. The nil policy is that of a user
// who has said nothing. Its lists are sorted.
type policy struct {
	contact, member, everyone wire.Granularity
	contacts, blocks, viewers []string
	overrides                 []wire.Granularity // by the index of viewers
	statuses                  []status           // the one that counts first
	cover                     *cover
}

type status struct {
	availability rollcall.Availability
	text         string
	until        rollcall.Micros // 0 for no end
}

// A cover is how a user looks to everyone else while, and after, it appears offline.
type cover struct {
	since, until rollcall.Micros // until is 0 while no end is known
	view         *View           // nil for a user whom nobody had seen before
}

func (p *policy) blocked(viewer string) bool { return p != nil && contains(p.blocks, viewer) }

// says is what the user says of itself now.
func (p *policy) says(now rollcall.Micros) (rollcall.Availability, string) {
	if p == nil {
		return 0, ""
	}
	for _, s := range p.statuses {
		if s.availability != rollcall.Invisible && open(s.until, now) {
			return s.availability, s.text
		}
	}
	return 0, ""
}

// covered says that the user appears offline now.
func (p *policy) covered(now rollcall.Micros) bool {
	return p != nil && p.cover != nil && open(p.cover.until, now)
}

// shown is what everyone else sees of a view, nil for nothing. After a cover, a user
// who left under it still is as it was before, and one who stayed comes online with
// its end: what happened under it would tell that somebody was there.
func (p *policy) shown(v *View, now rollcall.Micros) *View {
	if v == nil || p == nil || p.cover == nil {
		return v
	}
	c := p.cover
	switch {
	case open(c.until, now), v.State == rollcall.Offline && v.Observed <= c.until:
		return c.view
	case v.Observed < c.until || v.State == rollcall.Offline && v.Seen < c.until:
		// It was seen to be online after the cover, whenever it last gave a sign.
		later := *v
		later.Observed, later.Seen = max(v.Observed, c.until), max(v.Seen, c.until)
		return &later
	}
	return v
}

// next is when the policy shows something else by itself, zero if never.
func (p *policy) next(now rollcall.Micros) (next rollcall.Micros) {
	if p == nil {
		return 0
	}
	ends := []rollcall.Micros{0}
	if p.cover != nil {
		ends[0] = p.cover.until
	}
	for _, s := range p.statuses {
		ends = append(ends, s.until)
	}
	for _, end := range ends {
		if end > now && (next == 0 || end < next) {
			next = end
		}
	}
	return next
}

// open says that what ends at an instant has not ended; zero is no end.
func open(until, now rollcall.Micros) bool { return until == 0 || now < until }

func contains(sorted []string, id string) bool {
	_, found := slices.BinarySearch(sorted, id)
	return found
}

// granularityOf reads a stored granularity.
func granularityOf(g wire.Granularity, otherwise rollcall.Granularity) rollcall.Granularity {
	if g == wire.Granularity_GRANULARITY_UNSPECIFIED {
		return otherwise
	}
	return rollcall.Granularity(g - wire.Granularity_GRANULARITY_ABSENT)
}

// storedGranularity is the inverse.
func storedGranularity(g rollcall.Granularity) wire.Granularity {
	return wire.Granularity(g) + wire.Granularity_GRANULARITY_ABSENT
}

// decodePolicy reads a record. What it cannot understand it refuses, since half a
// policy could show more than the whole.
func decodePolicy(b []byte) (*wire.Policy, error) {
	w := new(wire.Policy)
	if err := subjects.Decode(b, w); err != nil {
		return nil, err
	}
	if len(w.Viewers) != len(w.Granularities) {
		return nil, fmt.Errorf("%w: %d overrides for %d viewers", subjects.ErrMalformed, len(w.Granularities), len(w.Viewers))
	}
	granularities := append([]wire.Granularity{w.Contact, w.Member, w.Everyone}, w.Granularities...)
	for _, g := range granularities {
		if g < 0 || g > wire.Granularity_GRANULARITY_EXACT {
			return nil, fmt.Errorf("%w: granularity %d", subjects.ErrMalformed, g)
		}
	}
	for _, list := range [][]string{w.Contacts, w.Blocks, w.Viewers} {
		if !slices.IsSorted(list) {
			return nil, fmt.Errorf("%w: a list is not sorted", subjects.ErrMalformed)
		}
	}
	for _, s := range w.Statuses {
		if s.Availability < 0 || int(s.Availability) > int(rollcall.Invisible) || len(s.Text) > subjects.MaxStatusText {
			return nil, fmt.Errorf("%w: status", subjects.ErrMalformed)
		}
	}
	if c := w.Cover; c != nil && (c.Observed < 0 || rollcall.Micros(c.Observed) >= latest || c.Seen < 0 || rollcall.Micros(c.Seen) >= latest) {
		return nil, fmt.Errorf("%w: cover", subjects.ErrMalformed)
	}
	return w, nil
}

// compile makes a record ready to be asked.
func compile(w *wire.Policy) *policy {
	if w == nil {
		return nil
	}
	p := &policy{
		contact: w.Contact, member: w.Member, everyone: w.Everyone,
		contacts: w.Contacts, blocks: w.Blocks, viewers: w.Viewers, overrides: w.Granularities,
	}
	for _, s := range w.Statuses {
		p.statuses = append(p.statuses, status{rollcall.Availability(s.Availability), s.Text, rollcall.Micros(s.Until)})
	}
	if c := w.Cover; c != nil {
		p.cover = &cover{since: rollcall.Micros(c.Since), until: rollcall.Micros(c.Until)}
		if c.Observed != 0 {
			p.cover.view = &View{Observed: rollcall.Micros(c.Observed), Seen: rollcall.Micros(c.Seen)}
		}
	}
	return p
}

// timeOf is a stored instant, zero for none.
func timeOf(m int64) time.Time {
	if m == 0 {
		return time.Time{}
	}
	return rollcall.Micros(m).Time()
}

package fanout

import (
	"slices"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// A Rule of policies decides what one user may know of another.
type Rule string

// The rules, in the order in which they count.
const (
	RuleSelf     Rule = "self"
	RuleBlocked  Rule = "blocked"
	RuleOverride Rule = "override"
	RuleContact  Rule = "contact"
	RuleMember   Rule = "member"
	RuleEveryone Rule = "everyone"
)

// A Decision is which rule of a user's policy counts for a viewer, where policies decide and no
// application does.
type Decision struct {
	Rule        Rule
	Granularity rollcall.Granularity // means nothing if Default is set
	Default     bool                 // the policy leaves it to the fabric
}

// A Stored policy is what the buckets hold of a user's, for people who look into it.
type Stored struct {
	subjects.Policy
	// Covered is since when the user appears offline to everyone else; zero if it does not.
	Covered time.Time

	compiled *policy
}

// ReadPolicy reads the record of a user's policy, nil for none. It fails for one that cannot be
// read, which shows the user to nobody else.
func ReadPolicy(user string, record []byte, groups []string, now time.Time) (Stored, error) {
	d := dossier{groups: groups}
	var err error
	if record != nil {
		if d.policy, err = decodePolicy(record); err != nil {
			d.policy, _ = decodePolicy(closed)
		}
	}
	at := rollcall.MicrosOf(now)
	s := Stored{Policy: d.document(user, at), compiled: compile(d.policy)}
	if s.compiled.covered(at) {
		s.Covered = s.compiled.cover.since.Time()
	}
	return s, err
}

// Decide says which rule counts for a viewer who belongs to these groups.
func (s Stored) Decide(viewer string, groups []string) Decision {
	if s.User == viewer {
		return Decision{Rule: RuleSelf, Granularity: rollcall.Exact}
	}
	both := subject{groups: s.Groups}
	rule, stored := s.compiled.rule(viewer, both.shares(&beholder{groups: groups}))
	return Decision{
		Rule: rule, Granularity: granularityOf(stored, rollcall.Absent),
		Default: stored == wire.Granularity_GRANULARITY_UNSPECIFIED && rule != RuleOverride,
	}
}

// rule is which rule counts for somebody else, and what it says. The nil policy has no lists.
func (p *policy) rule(viewer string, member bool) (Rule, wire.Granularity) {
	var none policy
	if p == nil {
		p = &none
	}
	if contains(p.blocks, viewer) {
		return RuleBlocked, wire.Granularity_GRANULARITY_ABSENT
	}
	if i, found := slices.BinarySearch(p.viewers, viewer); found {
		return RuleOverride, p.overrides[i]
	}
	switch {
	case contains(p.contacts, viewer):
		return RuleContact, p.contact
	case member:
		return RuleMember, p.member
	}
	return RuleEveryone, p.everyone
}

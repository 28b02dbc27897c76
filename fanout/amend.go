package fanout

import (
	"cmp"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// A dossier is what is stored of a user's policy.
type dossier struct {
	policy *wire.Policy
	groups []string // sorted
}

// amend carries out an operation on a copy. view is what is known of the user now,
// for the moment at which it begins to appear offline. The error is an
// [*subjects.Error].
func (d dossier) amend(op subjects.PolicyOp, r subjects.PolicyRequest, view *View, now rollcall.Micros) (dossier, error) {
	p := &wire.Policy{}
	if d.policy != nil {
		p = proto.CloneOf(d.policy)
	}
	changed := dossier{p, slices.Clone(d.groups)}
	var err error
	switch op {
	case subjects.PolicySet:
		relate(p, r)
	case subjects.PolicyAllow:
		err = override(p, r.Users, storedGranularity(*r.Granularity))
	case subjects.PolicyReset:
		err = override(p, r.Users, wire.Granularity_GRANULARITY_UNSPECIFIED)
	case subjects.PolicyBlock:
		p.Blocks, err = with(p.Blocks, r.Users, subjects.MaxPolicyUsers, "blocks")
	case subjects.PolicyUnblock:
		p.Blocks = without(p.Blocks, r.Users)
	case subjects.PolicyContact:
		p.Contacts, err = with(p.Contacts, r.Users, subjects.MaxPolicyUsers, "contacts")
	case subjects.PolicyUncontact:
		p.Contacts = without(p.Contacts, r.Users)
	case subjects.PolicyStatus:
		err = say(p, *r.Status, now)
	case subjects.PolicyClear:
		p.Statuses = slices.DeleteFunc(p.Statuses, func(s *wire.Policy_ManualStatus) bool {
			return r.Priority == nil || int(s.Priority) == *r.Priority
		})
	case subjects.PolicyJoin:
		changed.groups, err = with(changed.groups, r.Groups, subjects.MaxGroups, "groups")
	case subjects.PolicyLeave:
		changed.groups = without(changed.groups, r.Groups)
	case subjects.PolicyForget:
		// How it appeared stays, as long as there is anything to see: the end of a cover
		// must not show what was under it.
		cover := p.Cover
		p = &wire.Policy{}
		if changed = (dossier{policy: p}); view != nil {
			p.Cover = cover
		}
	}
	if err != nil {
		return d, err
	}
	expireStatuses(p, now)
	coverUp(p, compile(d.policy), view, now)
	if proto.Size(p) == 0 {
		changed.policy = nil
	}
	return changed, nil
}

func relate(p *wire.Policy, r subjects.PolicyRequest) {
	for _, relation := range []struct {
		name string
		to   *rollcall.Granularity
		at   *wire.Granularity
	}{
		{subjects.RelationContact, r.Contact, &p.Contact},
		{subjects.RelationMember, r.Member, &p.Member},
		{subjects.RelationEveryone, r.Everyone, &p.Everyone},
	} {
		if slices.Contains(r.Default, relation.name) {
			*relation.at = wire.Granularity_GRANULARITY_UNSPECIFIED
		}
		if relation.to != nil {
			*relation.at = storedGranularity(*relation.to)
		}
	}
}

// override sets what viewers may know whatever their relation; unspecified takes
// that back.
func override(p *wire.Policy, viewers []string, g wire.Granularity) error {
	all := make(map[string]wire.Granularity, len(p.Viewers)+len(viewers))
	for i, v := range p.Viewers {
		all[v] = p.Granularities[i]
	}
	for _, v := range viewers {
		all[v] = g
		if g == wire.Granularity_GRANULARITY_UNSPECIFIED {
			delete(all, v)
		}
	}
	if len(all) > subjects.MaxPolicyUsers {
		return tooMany("overrides", len(all), subjects.MaxPolicyUsers)
	}
	p.Viewers, p.Granularities = nil, nil
	for v := range all {
		p.Viewers = append(p.Viewers, v)
	}
	slices.Sort(p.Viewers)
	for _, v := range p.Viewers {
		p.Granularities = append(p.Granularities, all[v])
	}
	return nil
}

// with adds ids to a sorted list.
func with(list, ids []string, limit int, name string) ([]string, error) {
	list = append(list, ids...)
	slices.Sort(list)
	if list = slices.Compact(list); len(list) > limit {
		return nil, tooMany(name, len(list), limit)
	}
	return list, nil
}

// without removes ids from a sorted list.
func without(list, ids []string) []string {
	gone := slices.Sorted(slices.Values(ids))
	return slices.DeleteFunc(list, func(id string) bool { return contains(gone, id) })
}

func tooMany(name string, n, limit int) error {
	return subjects.Errorf(subjects.CodeTooMany, "%d %s in all, the limit is %d", n, name, limit)
}

// say sets the status of a priority.
func say(p *wire.Policy, s subjects.ManualStatus, now rollcall.Micros) error {
	stored := &wire.Policy_ManualStatus{
		Priority: int32(s.Priority), Availability: wire.Policy_ManualStatus_Availability(s.Availability), Text: s.Text,
	}
	if !s.Until.IsZero() {
		if stored.Until = s.Until.UnixMicro(); !open(rollcall.Micros(stored.Until), now) {
			return subjects.Errorf(subjects.CodeInvalidRequest, "until %s has passed", s.Until.Format("2006-01-02T15:04:05Z07:00"))
		}
	}
	p.Statuses = slices.DeleteFunc(p.Statuses, func(old *wire.Policy_ManualStatus) bool { return old.Priority == stored.Priority })
	expireStatuses(p, now)
	if len(p.Statuses) == subjects.MaxStatuses {
		return tooMany("statuses", len(p.Statuses)+1, subjects.MaxStatuses)
	}
	p.Statuses = append(p.Statuses, stored)
	slices.SortFunc(p.Statuses, func(a, b *wire.Policy_ManualStatus) int { return cmp.Compare(b.Priority, a.Priority) })
	return nil
}

func expireStatuses(p *wire.Policy, now rollcall.Micros) {
	p.Statuses = slices.DeleteFunc(p.Statuses, func(s *wire.Policy_ManualStatus) bool { return !open(rollcall.Micros(s.Until), now) })
}

// coverUp begins, moves or ends the cover. Appearing offline counts whatever its
// priority: who hides must not be given away by a calendar.
func coverUp(p *wire.Policy, before *policy, view *View, now rollcall.Micros) {
	hides, until := false, rollcall.Micros(0)
	for _, s := range p.Statuses {
		if rollcall.Availability(s.Availability) != rollcall.Invisible {
			continue
		}
		end := rollcall.Micros(s.Until)
		if !hides || until != 0 && (end == 0 || end > until) {
			until = end
		}
		hides = true
	}
	switch covered := before.covered(now); {
	case hides && covered:
		p.Cover.Until = int64(until)
	case hides:
		p.Cover = &wire.Policy_Cover{Since: int64(now), Until: int64(until)}
		if seen := before.shown(view, now); seen != nil {
			p.Cover.Observed, p.Cover.Seen = int64(seen.Observed), int64(seen.Seen)
			if seen.State != rollcall.Offline {
				p.Cover.Observed, p.Cover.Seen = int64(now), int64(now)
			}
		}
	case covered && p.Cover != nil:
		p.Cover.Until = int64(now)
	}
}

// document is the policy as its user reads it.
func (d dossier) document(user string, now rollcall.Micros) subjects.Policy {
	p := subjects.Policy{User: user, Groups: d.groups}
	w := d.policy
	if w == nil {
		return p
	}
	relation := func(g wire.Granularity) *rollcall.Granularity {
		if g == wire.Granularity_GRANULARITY_UNSPECIFIED {
			return nil
		}
		return new(granularityOf(g, 0))
	}
	p.Relations = subjects.Relations{Contact: relation(w.Contact), Member: relation(w.Member), Everyone: relation(w.Everyone)}
	p.Contacts, p.Blocks = w.Contacts, w.Blocks
	for i, v := range w.Viewers {
		if p.Overrides == nil {
			p.Overrides = make(map[string]rollcall.Granularity, len(w.Viewers))
		}
		p.Overrides[v] = granularityOf(w.Granularities[i], 0)
	}
	for _, s := range w.Statuses {
		if open(rollcall.Micros(s.Until), now) {
			p.Statuses = append(p.Statuses, subjects.ManualStatus{
				Availability: rollcall.Availability(s.Availability), Text: s.Text, Priority: int(s.Priority), Until: timeOf(s.Until),
			})
		}
	}
	return p
}

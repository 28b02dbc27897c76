package subjects

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rollcall-io/rollcall"
)

// PolicyOp is an operation on the policy of a user. Each is idempotent and answers
// with the [Policy] as it is afterwards.
type PolicyOp string

// The operations. A viewer may carry out those of [UserPolicyOps] on its own policy;
// all others are the application's.
const (
	PolicyGet       PolicyOp = "get"
	PolicySet       PolicyOp = "set"       // Contact, Member, Everyone: by relation
	PolicyAllow     PolicyOp = "allow"     // Users, Granularity: by viewer, whatever the relation
	PolicyReset     PolicyOp = "reset"     // Users: takes allow back
	PolicyBlock     PolicyOp = "block"     // Users: they see nothing, whatever else is said
	PolicyUnblock   PolicyOp = "unblock"   // Users
	PolicyContact   PolicyOp = "contact"   // Users: adds contacts
	PolicyUncontact PolicyOp = "uncontact" // Users: removes contacts
	PolicyStatus    PolicyOp = "status"    // Status: what the user says of itself
	PolicyClear     PolicyOp = "clear"     // Priority: ends the status of that priority
	PolicyJoin      PolicyOp = "join"      // Groups
	PolicyLeave     PolicyOp = "leave"     // Groups
	PolicyForget    PolicyOp = "forget"    // everything back to the default
)

// UserPolicyOps are the operations by which a user shows more or less of itself.
// Joining a group is not among them: it would show more of others.
var UserPolicyOps = [...]PolicyOp{
	PolicyGet, PolicySet, PolicyAllow, PolicyReset, PolicyBlock, PolicyUnblock, PolicyContact, PolicyUncontact, PolicyStatus, PolicyClear,
}

// PolicyOps lists every operation.
var PolicyOps = append(UserPolicyOps[:len(UserPolicyOps):len(UserPolicyOps)], PolicyJoin, PolicyLeave, PolicyForget)

// Limits of a policy.
const (
	MaxPolicyUsers = 10_000 // in each of contacts, blocks and overrides
	MaxGroups      = 256
	MaxStatuses    = 8
	MaxStatusText  = 128 // bytes
	MaxPriority    = 1000
)

// Relations is how much may be known by relation, the closest relation counting. A
// nil granularity is the fabric's default.
type Relations struct {
	// Contact is for those among the user's contacts.
	Contact *rollcall.Granularity `json:"contact,omitempty"`
	// Member is for those who share a group with the user.
	Member *rollcall.Granularity `json:"member,omitempty"`
	// Everyone is for all others.
	Everyone *rollcall.Granularity `json:"everyone,omitempty"`
}

// ManualStatus is what a user says of itself. Of several the one with the highest
// priority counts, until it ends: a meeting from a calendar may give way to what the
// user typed.
type ManualStatus struct {
	Availability rollcall.Availability `json:"availability"`
	Text         string                `json:"text,omitempty"`
	Priority     int                   `json:"priority"`
	// Until is when it ends; never if zero.
	Until time.Time `json:"until,omitzero"`
}

// Policy is who may know what of a user, as the user and its application see it.
// A block comes before an override, an override before the relation.
type Policy struct {
	User string `json:"user"`
	Relations
	Contacts  []string                        `json:"contacts,omitempty"`
	Blocks    []string                        `json:"blocks,omitempty"`
	Overrides map[string]rollcall.Granularity `json:"overrides,omitempty"`
	Groups    []string                        `json:"groups,omitempty"`
	// Statuses are those that have not ended, the one that counts first.
	Statuses []ManualStatus `json:"statuses,omitempty"`
}

// PolicyRequest is the body of every operation on a policy; which fields count
// depends on the operation, and others are refused.
type PolicyRequest struct {
	Relations
	Users       []string              `json:"users,omitempty"`
	Granularity *rollcall.Granularity `json:"granularity,omitempty"`
	Groups      []string              `json:"groups,omitempty"`
	Status      *ManualStatus         `json:"status,omitempty"`
	Priority    *int                  `json:"priority,omitempty"`
	// Default names relations that go back to the fabric's default.
	Default []string `json:"default,omitempty"`
}

// Names of the relations in [PolicyRequest.Default].
const (
	RelationContact  = "contact"
	RelationMember   = "member"
	RelationEveryone = "everyone"
)

// policyFields is what each operation takes.
var policyFields = map[PolicyOp]struct {
	users, groups, granularity, status, relations, priority bool
}{
	PolicyGet:       {},
	PolicySet:       {relations: true},
	PolicyAllow:     {users: true, granularity: true},
	PolicyReset:     {users: true},
	PolicyBlock:     {users: true},
	PolicyUnblock:   {users: true},
	PolicyContact:   {users: true},
	PolicyUncontact: {users: true},
	PolicyStatus:    {status: true},
	PolicyClear:     {priority: true},
	PolicyJoin:      {groups: true},
	PolicyLeave:     {groups: true},
	PolicyForget:    {},
}

// DecodePolicyRequest reads and checks the body of an operation. A field that the
// operation does not take is refused rather than ignored: whoever misspells a
// restriction must not believe that it holds. So are null and an empty list. The error
// is an [*Error].
func DecodePolicyRequest(op PolicyOp, b []byte) (PolicyRequest, error) {
	var r PolicyRequest
	if len(bytes.TrimSpace(b)) > 0 {
		if err := decodeStrictly(b, &r); err != nil {
			return PolicyRequest{}, Errorf(CodeInvalidRequest, "%v", err)
		}
	}
	for name, list := range map[string][]string{"users": r.Users, "groups": r.Groups, "default": r.Default} {
		if list != nil && len(list) == 0 {
			return PolicyRequest{}, Errorf(CodeInvalidRequest, "%s is empty", name)
		}
	}
	takes := policyFields[op]
	given := map[string]bool{
		"contact, member, everyone or default": len(r.Default) > 0 || r.Contact != nil || r.Member != nil || r.Everyone != nil,
		"users":                                len(r.Users) > 0, "groups": len(r.Groups) > 0, "granularity": r.Granularity != nil, "status": r.Status != nil, "priority": r.Priority != nil,
	}
	for _, field := range []struct {
		name         string
		taken, needs bool
	}{
		{"contact, member, everyone or default", takes.relations, true},
		{"users", takes.users, true}, {"groups", takes.groups, true}, {"granularity", takes.granularity, true},
		{"status", takes.status, true}, {"priority", takes.priority, false},
	} {
		switch {
		case given[field.name] && !field.taken:
			return PolicyRequest{}, Errorf(CodeInvalidRequest, "%s takes no %s", op, field.name)
		case !given[field.name] && field.taken && field.needs:
			return PolicyRequest{}, Errorf(CodeInvalidRequest, "%s needs %s", op, field.name)
		}
	}
	return r, r.check()
}

func (r PolicyRequest) check() error {
	for _, list := range []struct {
		name  string
		ids   []string
		limit int
	}{{"user", r.Users, MaxPolicyUsers}, {"group", r.Groups, MaxGroups}} {
		if len(list.ids) > list.limit {
			return Errorf(CodeTooMany, "%d %ss, the limit is %d", len(list.ids), list.name, list.limit)
		}
		for i, id := range list.ids {
			if err := rollcall.CheckID(id); err != nil {
				return Errorf(CodeInvalidID, "%s %d: %v", list.name, i, err)
			}
		}
	}
	for _, name := range r.Default {
		if name != RelationContact && name != RelationMember && name != RelationEveryone {
			return Errorf(CodeInvalidRequest, "default: no relation %q", name)
		}
	}
	if r.Priority != nil {
		return checkPriority(*r.Priority)
	}
	if r.Status != nil {
		return r.Status.check()
	}
	return nil
}

func checkPriority(p int) error {
	if p < 0 || p > MaxPriority {
		return Errorf(CodeInvalidRequest, "priority %d is not in [0, %d]", p, MaxPriority)
	}
	return nil
}

func (s ManualStatus) check() error {
	switch {
	case len(s.Text) > MaxStatusText:
		return Errorf(CodeInvalidRequest, "status text of %d bytes, the limit is %d", len(s.Text), MaxStatusText)
	case !utf8.ValidString(s.Text):
		return Errorf(CodeInvalidRequest, "status text is not UTF-8")
	case !s.Until.IsZero() && (s.Until.Before(time.Unix(0, 0)) || s.Until.Year() > 9999):
		return Errorf(CodeInvalidRequest, "until %s is out of range", s.Until)
	}
	for _, c := range s.Text {
		if unicode.IsControl(c) {
			return Errorf(CodeInvalidRequest, "status text with a control character")
		}
	}
	return checkPriority(s.Priority)
}

// DecodePolicy reads an answer.
func DecodePolicy(b []byte) (Policy, error) {
	var p Policy
	err := decodeJSON(b, &p)
	return p, err
}

func decodeStrictly(b []byte, into any) error {
	if err := decodeJSON(b, into); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if name := nullField(b, into); name != "" {
		return fmt.Errorf("%w: %s is null", ErrMalformed, name)
	}
	return nil
}

// SightQuestion is what the fanout asks an application that keeps its own social
// graph: how much may Viewer know of each of Targets?
type SightQuestion struct {
	Viewer  string   `json:"viewer"`
	Targets []string `json:"targets"`
}

// SightAnswer has one granularity for each target of the question, in its order.
type SightAnswer struct {
	Sights []rollcall.Granularity `json:"sights"`
}

// SightChange says that answers have changed: those about Target, those to Viewer,
// or, if both are named, those to Viewer about Target.
type SightChange struct {
	Viewer string `json:"viewer,omitempty"`
	Target string `json:"target,omitempty"`
}

// DecodeSightQuestion reads a question to the application.
func DecodeSightQuestion(b []byte) (SightQuestion, error) {
	var q SightQuestion
	err := decodeJSON(b, &q)
	return q, err
}

// DecodeSightAnswer reads the application's answer.
func DecodeSightAnswer(b []byte) (SightAnswer, error) {
	var a SightAnswer
	err := decodeJSON(b, &a)
	return a, err
}

// DecodeSightChange reads a change; one that names nobody is refused.
func DecodeSightChange(b []byte) (SightChange, error) {
	var c SightChange
	if err := decodeStrictly(b, &c); err != nil {
		return SightChange{}, err
	}
	if c.Viewer == "" && c.Target == "" {
		return SightChange{}, fmt.Errorf("%w: neither viewer nor target", ErrMalformed)
	}
	for _, id := range []string{c.Viewer, c.Target} {
		if err := rollcall.CheckID(id); id != "" && err != nil {
			return SightChange{}, fmt.Errorf("%w: %w", ErrMalformed, err)
		}
	}
	return c, nil
}

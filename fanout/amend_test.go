package fanout

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
)

// A subjectUnderTest is a user whose policy changes.
type subjectUnderTest struct {
	t   *testing.T
	now rollcall.Micros
	dossier
	view *View
}

func newSubject(t *testing.T, v *View) *subjectUnderTest {
	return &subjectUnderTest{t: t, now: rollcall.MicrosOf(time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)), view: v}
}

func (s *subjectUnderTest) do(op subjects.PolicyOp, r subjects.PolicyRequest) {
	s.t.Helper()
	changed, err := s.amend(op, r, s.view, s.now)
	if err != nil {
		s.t.Fatalf("%s: %v", op, err)
	}
	s.dossier = changed
}

func (s *subjectUnderTest) says(a rollcall.Availability, text string, priority int, ends time.Duration) {
	s.t.Helper()
	status := &subjects.ManualStatus{Availability: a, Text: text, Priority: priority}
	if ends > 0 {
		status.Until = s.now.Add(ends).Time()
	}
	s.do(subjects.PolicyStatus, subjects.PolicyRequest{Status: status})
}

func (s *subjectUnderTest) pass(d time.Duration) { s.now = s.now.Add(d) }

// seen is how the user looks to a viewer, in short.
func (s *subjectUnderTest) seen(viewer string, groups ...string) string {
	l := see(subject{"bob", s.view, compile(s.policy), s.groups}, beholder{id: viewer, groups: groups}, Open, s.now)
	parts := []string{string(l.statusName())}
	for _, part := range []string{l.stateName(), l.availabilityName(), l.text} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	if !l.seen.IsZero() {
		parts = append(parts, l.seen.Time().Format("15:04"))
	}
	if !l.visible() {
		return "absent"
	}
	return strings.Join(parts, " ")
}

func (s *subjectUnderTest) want(viewer, want string) {
	s.t.Helper()
	if got := s.seen(viewer); got != want {
		s.t.Errorf("at %s %s sees %q, want %q", s.now.Time().Format("15:04"), viewer, got, want)
	}
}

func (s *subjectUnderTest) online()  { s.view = &View{State: rollcall.Active, Observed: s.now} }
func (s *subjectUnderTest) offline() { s.view = &View{Observed: s.now, Seen: s.now} }

func granularity(g rollcall.Granularity) *rollcall.Granularity { return &g }

func TestWhatARelationMaySee(t *testing.T) {
	for _, row := range []struct {
		name   string
		op     subjects.PolicyOp
		r      subjects.PolicyRequest
		viewer string
		want   string
	}{
		{"a contact", subjects.PolicyGet, subjects.PolicyRequest{}, "carl", "online active"},
		{"a member", subjects.PolicyGet, subjects.PolicyRequest{}, "mia", "online"},
		{"everyone else", subjects.PolicyGet, subjects.PolicyRequest{}, "eve", "absent"},
		{"oneself", subjects.PolicyGet, subjects.PolicyRequest{}, "bob", "online active"},
		{"a blocked contact", subjects.PolicyBlock, users("carl"), "carl", "absent"},
		{"a blocked viewer with an override", subjects.PolicyBlock, users("olga"), "olga", "absent"},
		{"an override", subjects.PolicyGet, subjects.PolicyRequest{}, "olga", "unknown"},
		{"an override taken back", subjects.PolicyReset, users("olga"), "olga", "absent"},
		{"an override of a contact", subjects.PolicyAllow, subjects.PolicyRequest{Users: []string{"carl"}, Granularity: granularity(rollcall.Coarse)}, "carl", "online"},
		{"a contact removed", subjects.PolicyUncontact, users("carl"), "carl", "absent"},
		{"a contact who is a member", subjects.PolicyContact, users("mia"), "mia", "online active"},
		{"the group left", subjects.PolicyLeave, subjects.PolicyRequest{Groups: []string{"chess"}}, "mia", "absent"},
		{"a relation set", subjects.PolicySet, relations(nil, nil, granularity(rollcall.Coarse)), "eve", "online"},
		{"a relation back at the default", subjects.PolicySet, subjects.PolicyRequest{Default: []string{"everyone"}}, "eve", "online active"},
		{"hidden from contacts", subjects.PolicySet, relations(granularity(rollcall.Hidden), nil, nil), "carl", "unknown"},
		{"all forgotten", subjects.PolicyForget, subjects.PolicyRequest{}, "eve", "online active"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newSubject(t, nil)
			s.online()
			s.do(subjects.PolicySet, relations(granularity(rollcall.Exact), granularity(rollcall.Coarse), granularity(rollcall.Absent)))
			s.do(subjects.PolicyContact, users("carl"))
			s.do(subjects.PolicyJoin, subjects.PolicyRequest{Groups: []string{"chess", "tennis"}})
			s.do(subjects.PolicyAllow, subjects.PolicyRequest{Users: []string{"olga"}, Granularity: granularity(rollcall.Hidden)})
			for range 2 { // every operation is idempotent
				s.do(row.op, row.r)
				if got := s.seen(row.viewer, map[string][]string{"mia": {"chess"}, "eve": {"go"}}[row.viewer]...); got != row.want {
					t.Errorf("sees %q, want %q", got, row.want)
				}
			}
		})
	}
}

func users(ids ...string) subjects.PolicyRequest { return subjects.PolicyRequest{Users: ids} }

func relations(contact, member, everyone *rollcall.Granularity) subjects.PolicyRequest {
	return subjects.PolicyRequest{Relations: subjects.Relations{Contact: contact, Member: member, Everyone: everyone}}
}

func TestTheHighestPriorityCounts(t *testing.T) {
	s := newSubject(t, nil)
	s.online()
	s.says(rollcall.Away, "lunch", 0, 0)
	s.want("carl", "online active away lunch")
	s.says(rollcall.DoNotDisturb, "meeting", 10, time.Hour)
	s.want("carl", "online active dnd meeting")
	s.says(rollcall.Away, "back soon", 5, 30*time.Minute)
	s.want("carl", "online active dnd meeting")
	s.pass(time.Hour) // both have ended
	s.want("carl", "online active away lunch")
	s.says(rollcall.Available, "hello", 0, 0) // replaces the one of its priority
	s.want("carl", "online active hello")
	s.do(subjects.PolicyClear, subjects.PolicyRequest{})
	s.want("carl", "online active")
	s.says(rollcall.Away, "gone", 0, 0)
	s.offline() // what users say counts while they are online
	s.want("carl", "offline 11:00")
}

func TestWhoAppearsOfflineLooksOffline(t *testing.T) {
	s := newSubject(t, nil)
	s.online()
	s.pass(time.Minute) // 10:01
	s.says(rollcall.Invisible, "", 0, 2*time.Hour)
	s.want("carl", "offline 10:01")
	s.want("bob", "online active invisible")
	s.pass(30 * time.Minute)
	s.says(rollcall.DoNotDisturb, "meeting", 100, 0) // a calendar must not give the user away
	s.want("carl", "offline 10:01")
	s.want("bob", "online active invisible meeting")
	s.do(subjects.PolicyClear, subjects.PolicyRequest{Priority: new(100)})
	s.offline() // at 10:31
	s.want("carl", "offline 10:01")
	s.pass(10 * time.Minute)
	s.online()
	s.want("carl", "offline 10:01")
	s.pass(10 * time.Minute)
	s.offline()
	s.pass(3 * time.Hour) // the cover has ended by itself, at 12:01
	s.want("carl", "offline 10:01")
	s.online()
	s.want("carl", "online active")
	s.pass(time.Hour)
	s.offline()
	s.want("carl", "offline 14:51")
}

func TestAfterTheCoverLastSeenNeverGoesBack(t *testing.T) {
	s := newSubject(t, nil)
	s.online()
	s.says(rollcall.Invisible, "", 0, 0)
	s.pass(time.Hour)
	s.view.Seen = s.now // the last sign of life is from under the cover
	s.pass(time.Minute)
	s.do(subjects.PolicyClear, subjects.PolicyRequest{})
	s.want("carl", "online active")
	s.pass(time.Minute)
	s.view = &View{Observed: s.now, Seen: s.view.Seen}
	s.want("carl", "offline 11:01")
	// And again: it looks as it did before.
	s.says(rollcall.Invisible, "", 0, 0)
	s.want("carl", "offline 11:01")
	s.pass(time.Hour)
	s.online()
	s.want("carl", "offline 11:01")
}

func TestWhoAppearsOfflineAndNeverWasSeenStaysUnseen(t *testing.T) {
	s := newSubject(t, nil)
	s.says(rollcall.Invisible, "", 0, 0)
	s.want("carl", "absent")
	s.online()
	s.want("carl", "absent")
	s.want("bob", "online active invisible")
	s.pass(time.Hour)
	s.offline()
	s.do(subjects.PolicyClear, subjects.PolicyRequest{})
	s.want("carl", "absent")
}

func TestAWordFromTheApplication(t *testing.T) {
	s := newSubject(t, nil)
	s.online()
	s.do(subjects.PolicyBlock, users("carl"))
	for _, row := range []struct {
		viewer  string
		verdict rollcall.Granularity
		silent  bool
		exists  bool
		want    look
	}{
		{"anna", rollcall.Coarse, false, true, look{status: codeOnline}},
		{"anna", rollcall.Absent, false, true, look{}},
		{"anna", rollcall.Hidden, false, true, look{status: codeUnknown}},
		{"anna", rollcall.Exact, false, false, look{}},
		{"anna", 0, true, true, look{status: codeUnknown}},
		{"anna", 0, true, false, look{status: codeUnknown}}, // silence must not tell who exists
		{"carl", rollcall.Exact, false, true, look{}},
		{"carl", 0, true, true, look{status: codeUnknown}}, // nor whom somebody blocked
		{"bob", 0, true, true, look{status: codeOnline, state: rollcall.Active, observed: subjects.MinuteOf(s.now)}},
	} {
		by := beholder{id: row.viewer, asked: true, verdict: storedGranularity(row.verdict)}
		if row.silent {
			by.verdict = 0
		}
		target := subject{id: "bob", policy: compile(s.policy)}
		if row.exists {
			target.view = s.view
		}
		if got := see(target, by, Open, s.now); got != row.want {
			t.Errorf("%+v: sees %+v", row, got)
		}
	}
}

func TestAPolicyIsBounded(t *testing.T) {
	var many []string
	for i := range subjects.MaxPolicyUsers {
		many = append(many, fmt.Sprint("user-", i))
	}
	s := newSubject(t, nil)
	for _, op := range []subjects.PolicyOp{subjects.PolicyContact, subjects.PolicyBlock, subjects.PolicyAllow} {
		r := subjects.PolicyRequest{Users: many, Granularity: granularity(rollcall.Coarse)}
		s.do(op, r)
		s.do(op, r) // the same again is no more
		r.Users = []string{"one more"}
		if _, err := s.amend(op, r, nil, s.now); !strings.HasPrefix(fmt.Sprint(err), string(subjects.CodeTooMany)) {
			t.Errorf("%s: %v", op, err)
		}
	}
	for i := range subjects.MaxGroups {
		s.do(subjects.PolicyJoin, subjects.PolicyRequest{Groups: []string{fmt.Sprint("group-", i)}})
	}
	if _, err := s.amend(subjects.PolicyJoin, subjects.PolicyRequest{Groups: []string{"one more"}}, nil, s.now); err == nil {
		t.Error("one group too many")
	}
	for i := range subjects.MaxStatuses {
		s.says(rollcall.Away, "", i, time.Minute)
	}
	status := subjects.ManualStatus{Priority: subjects.MaxStatuses}
	if _, err := s.amend(subjects.PolicyStatus, subjects.PolicyRequest{Status: &status}, nil, s.now); err == nil {
		t.Error("one status too many")
	}
	s.pass(time.Hour) // those have ended and make room
	s.says(rollcall.Away, "", subjects.MaxStatuses, time.Minute)
	status.Until = s.now.Time()
	if _, err := s.amend(subjects.PolicyStatus, subjects.PolicyRequest{Status: &status}, nil, s.now); err == nil {
		t.Error("a status that has ended")
	}
	if data, err := subjects.Encode(s.policy); err != nil || len(data) > 1<<20 {
		t.Errorf("a full policy takes %d bytes (%v)", len(data), err)
	}
}

func TestADocumentSaysWhatWasAsked(t *testing.T) {
	s := newSubject(t, nil)
	if got := s.document("bob", s.now); len(got.Contacts)+len(got.Overrides) != 0 || got.Everyone != nil || got.User != "bob" {
		t.Errorf("nothing is %+v", got)
	}
	s.do(subjects.PolicySet, relations(nil, nil, granularity(rollcall.Absent)))
	s.do(subjects.PolicyAllow, subjects.PolicyRequest{Users: []string{"olga", "anna"}, Granularity: granularity(rollcall.Exact)})
	s.do(subjects.PolicyJoin, subjects.PolicyRequest{Groups: []string{"b", "a", "b"}})
	s.says(rollcall.DoNotDisturb, "shh", 3, time.Hour)
	got := s.document("bob", s.now)
	if *got.Everyone != rollcall.Absent || got.Contact != nil || got.Overrides["olga"] != rollcall.Exact || len(got.Overrides) != 2 ||
		fmt.Sprint(got.Groups) != "[a b]" || len(got.Statuses) != 1 || got.Statuses[0].Until != s.now.Add(time.Hour).Time() {
		t.Errorf("%+v", got)
	}
	if got := s.document("bob", s.now.Add(time.Hour)); len(got.Statuses) != 0 {
		t.Errorf("a status that has ended is told: %+v", got)
	}
}

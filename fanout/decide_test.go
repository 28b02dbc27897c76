package fanout

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// What is said to decide is what decides: over random policies, the rule and its granularity are
// those by which viewers are shown the user.
func TestDecisionsAreThoseThatShow(t *testing.T) {
	some := rapid.SampledFrom([]string{"ann", "bob", "cid"})
	ids := func(t *rapid.T, label string) []string { return sortedSet(rapid.SliceOfN(some, 0, 3).Draw(t, label)) }
	granularity := rapid.SampledFrom([]wire.Granularity{0, 1, 2, 3, 4})
	rapid.Check(t, func(t *rapid.T) {
		var record []byte
		if rapid.Bool().Draw(t, "policy") {
			w := &wire.Policy{
				Contact: granularity.Draw(t, "contact"), Member: granularity.Draw(t, "member"), Everyone: granularity.Draw(t, "everyone"),
				Contacts: ids(t, "contacts"), Blocks: ids(t, "blocks"), Viewers: ids(t, "viewers"),
			}
			for range w.Viewers {
				w.Granularities = append(w.Granularities, granularity.Draw(t, "override"))
			}
			var err error
			if record, err = subjects.Encode(w); err != nil {
				t.Fatal(err)
			}
		}
		groups, viewer := ids(t, "groups"), some.Draw(t, "viewer")
		viewerGroups := ids(t, "viewer's groups")
		d := Defaults{rollcall.Coarse, rollcall.Hidden, rollcall.Exact}
		stored, err := ReadPolicy("ann", record, groups, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		got := stored.Decide(viewer, viewerGroups)
		if got.Default {
			got.Granularity = d.of(got.Rule)
		}
		s := subject{id: "ann", groups: groups, policy: stored.compiled}
		want := sight(got.Granularity)
		switch {
		case got.Rule == RuleSelf:
			want = self
		case got.Granularity == rollcall.Hidden && s.policy != nil:
			want = veiled
		}
		if at := s.sight(&beholder{id: viewer, groups: viewerGroups}, d); at != want {
			t.Errorf("%+v, and the sight is %d, want %d", got, at, want)
		}
	})
}

func TestDamagedPolicyShowsNobody(t *testing.T) {
	stored, err := ReadPolicy("ann", []byte("nonsense"), nil, time.Now())
	if d := stored.Decide("bob", nil); !errors.Is(err, subjects.ErrMalformed) || d.Granularity != rollcall.Absent || d.Default {
		t.Errorf("%+v, %v", d, err)
	}
}

func sortedSet(ids []string) (set []string) {
	for _, id := range []string{"ann", "bob", "cid"} {
		for _, one := range ids {
			if one == id {
				set = append(set, id)
				break
			}
		}
	}
	return set
}

package identity_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/identity"
)

func names(t *testing.T, shards int) subjects.Names {
	t.Helper()
	n, err := subjects.New(subjects.DefaultPrefix, shards)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A list that is empty would allow everything to nats-server.
func TestEveryRoleIsLimited(t *testing.T) {
	for _, role := range identity.Roles {
		p := identity.PermissionsOf(names(t, 4), role)
		if len(p.Publish) == 0 || len(p.Subscribe) == 0 {
			t.Errorf("%s: %+v", role, p)
		}
		for _, list := range [][]string{p.Publish, p.Subscribe} {
			if sorted := slices.Sorted(slices.Values(list)); len(slices.Compact(sorted)) != len(list) {
				t.Errorf("%s: something is listed twice in %v", role, list)
			}
			for _, subject := range list {
				if role != identity.Operator && (subject == ">" || strings.Contains(subject, "ID")) {
					t.Errorf("%s: %q", role, subject)
				}
			}
		}
	}
}

// Where users choose the names, a permission names the user's own subjects only.
func TestPeopleReachOnlyThemselves(t *testing.T) {
	for _, role := range []identity.Role{identity.Viewer, identity.Device} {
		p := identity.PermissionsOf(names(t, 4), role)
		for _, subject := range slices.Concat(p.Publish, p.Subscribe) {
			if !strings.Contains(subject, ".{{name()}}") || strings.HasPrefix(subject, "$") {
				t.Errorf("%s: %q", role, subject)
			}
		}
		if p.Subscriptions == 0 || p.Payload == 0 {
			t.Errorf("%s has no limits", role)
		}
	}
}

// nats-server admits a subscription to "a.>" where "a.*" is allowed, so a "*" at the end
// must not stand where deeper subjects mean something else.
func TestTrailingWildcardsAreHarmless(t *testing.T) {
	for _, role := range identity.Roles {
		for _, subject := range identity.PermissionsOf(names(t, 1), role).Subscribe {
			if !strings.HasSuffix(subject, ".*") {
				continue
			}
			if !slices.ContainsFunc([]string{"presence.req.", "presence.policy.", "presence.device.", "presence.gate.", "$SRV."}, func(stem string) bool {
				return strings.HasPrefix(subject, stem)
			}) {
				t.Errorf("%s: %q", role, subject)
			}
		}
	}
}

// The table in the documentation is what the code says, for a fabric of one shard.
func TestDocumentedPermissions(t *testing.T) {
	const path = "../../docs/identities.md"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	n := names(t, 1)
	for _, role := range identity.Roles {
		p := identity.PermissionsOf(n, role)
		var want strings.Builder
		fmt.Fprintf(&want, "### %s\n\n```\n", role)
		for _, subject := range p.Publish {
			fmt.Fprintf(&want, "pub  %s\n", subject)
		}
		for _, subject := range p.Subscribe {
			fmt.Fprintf(&want, "sub  %s\n", subject)
		}
		want.WriteString("```\n")
		if !strings.Contains(string(text), want.String()) {
			t.Errorf("%s does not contain:\n%s", path, want.String())
		}
	}
}

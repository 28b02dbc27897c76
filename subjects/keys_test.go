package subjects_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
)

// validID draws what CheckID accepts.
var validID = anyID.Filter(func(id string) bool { return rollcall.CheckID(id) == nil })

func TestKeysRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := validID.Draw(t, "id")
		for kind, key := range map[string]string{
			"edge": subjects.KeyEdge(id), "user": subjects.KeyUser(id), "view": subjects.KeyView(id),
		} {
			if k, back, err := subjects.ParseKey(key); k != kind || back != id || err != nil {
				t.Fatalf("%q: %q, %q, %v", key, k, back, err)
			}
		}
		part := rapid.IntRange(0, 1<<31).Draw(t, "part")
		key := subjects.KeyInterest(id, part)
		if viewer, p, err := subjects.ParseInterest(key); viewer != id || p != part || err != nil {
			t.Fatalf("%q: %q, %d, %v", key, viewer, p, err)
		}
	})
}

func TestKeysWithoutID(t *testing.T) {
	for _, key := range []string{subjects.KeyOwner, subjects.KeyCheckpoint} {
		if kind, id, err := subjects.ParseKey(key); kind != key || id != "" || err != nil {
			t.Errorf("%q: %q, %q, %v", key, kind, id, err)
		}
	}
}

func TestForeignKeysAreRefused(t *testing.T) {
	for _, key := range []string{"user.", "user.a.b", "user.=t", "user.=YWxpY2U"} {
		if kind, id, err := subjects.ParseKey(key); err == nil {
			t.Errorf("%q was read as %q, %q", key, kind, id)
		}
	}
	for _, key := range []string{"", "alice", "alice.", "alice.x", "alice.-1", "alice.+1", "alice.01", "alice.1.2", ".1", "=t.1"} {
		if viewer, part, err := subjects.ParseInterest(key); err == nil {
			t.Errorf("%q was read as %q, %d", key, viewer, part)
		}
	}
}

package subjects_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
)

func TestTokenTable(t *testing.T) {
	for id, want := range map[string]string{
		"alice": "alice", "A-b_9": "A-b_9", "-": "-", "_": "_",
		"*": "=Kg", ">": "=Pg", ".": "=Lg", " ": "=IA", "a.b": "=YS5i", "=": "=PQ", "=t": "=PXQ",
		"日本": "=5pel5pys", "a@example.org": "=YUBleGFtcGxlLm9yZw", "\x00": "=AA", "a\r\nb": "=YQ0KYg",
	} {
		if got := subjects.Token(id); got != want {
			t.Errorf("%q: token %q, want %q", id, got, want)
		}
		if back, err := subjects.ParseToken(want); err != nil || back != id {
			t.Errorf("%q: parsed as %q, %v", want, back, err)
		}
	}
}

func TestParseTokenRefusesOtherForms(t *testing.T) {
	for name, token := range map[string]string{
		"empty": "", "of the empty id": "=", "the tick": "=t", "of a plain id": "=YWxpY2U", "padded": "=Kg==",
		"standard alphabet": "=5pel5pys+/", "trailing bits": "=Kh", "line break": "=K\ng", "line break behind": "=Kg\n",
		"two tokens": "a.b", "wildcard": "*", "rest": ">", "space": "a b", "not UTF-8": "=_w", "raw bytes": "\xff",
		"129 bytes": strings.Repeat("a", 129), "of 129 bytes": subjects.Token(strings.Repeat(".", 129)),
	} {
		if id, err := subjects.ParseToken(token); err == nil || id != "" {
			t.Errorf("%s: %q was read as %q, %v", name, token, id, err)
		}
	}
}

// anyID draws up to 128 bytes, mostly of the hard kind, not always UTF-8.
var anyID = rapid.OneOf(
	rapid.StringN(0, 128, rollcall.MaxID),
	rapid.StringMatching(`[a-zA-Z0-9_=.*> -]{0,128}`),
	rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, rollcall.MaxID), func(b []byte) string { return string(b) }),
)

// names of a fabric for tests.
func names(t interface{ Fatal(...any) }, shards int) subjects.Names {
	n, err := subjects.New(subjects.DefaultPrefix, shards)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestTokenIsOneLiteralToken(t *testing.T) {
	n := names(t, 4)
	rapid.Check(t, func(t *rapid.T) {
		id := anyID.Draw(t, "id")
		token := subjects.Token(id)
		if token == "" || strings.ContainsAny(token, ".*> \t\r\n\x00") {
			t.Fatalf("%q: token %q", id, token)
		}
		if n.Log(0, id) == n.Tick(0) {
			t.Fatalf("%q has the keepers' token", id)
		}
	})
}

func TestTokenRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := anyID.Draw(t, "id")
		back, err := subjects.ParseToken(subjects.Token(id))
		if valid := rollcall.CheckID(id) == nil; valid != (err == nil) {
			t.Fatalf("%q: %v", id, err)
		}
		if err == nil && back != id {
			t.Fatalf("%q came back as %q", id, back)
		}
	})
}

func TestTokenIsUnique(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyID.Draw(t, "a"), anyID.Draw(t, "b")
		if (subjects.Token(a) == subjects.Token(b)) != (a == b) {
			t.Fatalf("%q and %q: %q and %q", a, b, subjects.Token(a), subjects.Token(b))
		}
	})
}

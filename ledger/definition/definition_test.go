package definition

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/interval"
)

func TestDefault(t *testing.T) {
	want := ledger.Definition{
		Version: "1", Gaps: interval.Gaps{Cap: time.Minute, Grace: 30 * time.Second}, Idle: 5 * time.Minute,
		Limit: 7 * 24 * time.Hour, Lateness: time.Hour, Labels: []string{},
	}
	if d := Default(); !reflect.DeepEqual(d, want) {
		t.Errorf("%+v", d)
	}
	if d, err := Parse(File()); err != nil || !reflect.DeepEqual(d, want) {
		t.Errorf("the template reads as %+v, %v", d, err)
	}
}

func TestMissingFieldsAreTheDefaults(t *testing.T) {
	d, err := Parse([]byte("version: wide\ngap_cap: 2m\nidle: 10m\nlabels: [streaming]\n"))
	want := Default()
	want.Version, want.Gaps.Cap, want.Idle, want.Labels = "wide", 2*time.Minute, 10*time.Minute, []string{"streaming"}
	if err != nil || !reflect.DeepEqual(d, want) {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct{ name, text, says string }{
		{"empty", "", "empty"},
		{"no version", "grace: 1s", "version"},
		{"a field nobody knows", "version: a\ngrace: 1s\ngap_cpa: 60s", "line 3: field gap_cpa not found"},
		{"a field twice", "version: a\ngrace: 1s\ngrace: 2s", "line 3"},
		{"a number without unit", "version: a\ngap_cap: 60", `line 2: "60" is no duration`},
		{"grace above cap", "version: a\ngap_cap: 20s", "grace 30s above cap 20s"},
		{"negative", "version: a\ngrace: -1s", "must not be negative"},
		{"below a millisecond", "version: a\ngrace: 100us", "whole milliseconds"},
		{"idle zero", "version: a\nidle: 0s", "idle"},
		{"a session shorter than a gap", "version: a\nsession_limit: 30s", "session_limit 30s below gap_cap"},
		{"lateness", "version: a\nlateness: -1s", "lateness"},
		{"a label that is a measure", "version: a\nlabels: [active]", "every fabric has"},
		{"a label twice", "version: a\nlabels: [x, x]", "twice"},
		{"a label in capitals", "version: a\nlabels: [X]", "lower case"},
		{"two documents", "version: a\n---\nversion: b", "more than one"},
		{"no mapping", "- a", "line 1"},
		{"a version with spaces", "version: a b", "version"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse([]byte(c.text))
			if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
		})
	}
}

// The same meaning has one hash, another meaning another.
func TestHash(t *testing.T) {
	parse := func(text string) ledger.Definition {
		d, err := Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	base := parse("version: a\nlabels: [x, y]\ngap_cap: 60s")
	same := parse("# a comment\ngap_cap: 1m0s\nlabels:\n  - y\n  - x\nversion: 'a'\n")
	if Hash(base) != Hash(same) {
		t.Errorf("%s and %s", Canonical(base), Canonical(same))
	}
	if again := parse(string(Canonical(base))); Hash(again) != Hash(base) {
		t.Errorf("%s reads as %+v", Canonical(base), again)
	}
	seen := map[string]string{Hash(base): "base"}
	for _, change := range []string{"gap_cap: 61s", "grace: 1s", "idle: 1m", "session_limit: 24h", "lateness: 1m", "labels: [x]"} {
		h := Hash(parse("version: a\n" + change))
		if seen[h] != "" {
			t.Errorf("%s hashes like %s", change, seen[h])
		}
		seen[h] = change
	}
}

func TestWith(t *testing.T) {
	zero, minute := time.Duration(0), time.Minute
	if d, err := With(Default(), &zero, nil); err != nil || d.Gaps.Cap != 0 || d.Version != "1,cap=0s" {
		t.Errorf("%+v, %v", d, err)
	}
	if d, err := With(Default(), &minute, nil); err != nil || d.Version != "1" {
		t.Errorf("nothing changed, but %+v, %v", d, err)
	}
	if _, err := With(Default(), nil, new(2*time.Minute)); !errors.Is(err, ErrInvalid) {
		t.Errorf("grace above cap: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(defaultFile)
	f.Add([]byte("version: a\nlabels: [x]"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		d, err := Parse(raw)
		if err != nil {
			return
		}
		again, err := Parse(Canonical(d))
		if err != nil || Hash(again) != Hash(d) {
			t.Errorf("%s: %v", Canonical(d), err)
		}
	})
}

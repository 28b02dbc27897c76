package check_test

import (
	"encoding/json"
	"testing"

	"github.com/rollcall-io/rollcall/docs/check"
)

func TestYAML(t *testing.T) {
	for source, want := range map[string]string{
		"a: 1\nb:\n  c: true\n  d: null\n":              `{"a":1,"b":{"c":true,"d":null}}`,
		"# first\na:\n\n  # second\n  b: x y\n":         `{"a":{"b":"x y"}}`,
		"a:\n- 1\n- b: 2\n  c: 3\n-\n  d: 4\n":          `{"a":[1,{"b":2,"c":3},{"d":4}]}`,
		"a:\n  - b:\n      - 1\n    c: 2\n":             `{"a":[{"b":[1],"c":2}]}`,
		"a: 'x: #y'\nb: \"\\u0041\\n\"\n'c: d': [e, 5]": `{"a":"x: #y","b":"A\n","c: d":["e",5]}`,
		"a: >-\n  b\n  c\n\n  d\nb: 1\n":                `{"a":"b c\nd","b":1}`,
		"a: >-\n  b\n    - c\n  d\n":                    `{"a":"b\n  - c\nd"}`,
		"a: |-\n  b\n   c\n\n  d\n\n":                   `{"a":"b\n c\n\nd"}`,
		"a:\nb: 3.0.0\n":                                `{"a":null,"b":"3.0.0"}`,
	} {
		value, err := check.ParseYAML([]byte(source))
		if err != nil {
			t.Errorf("%q: %v", source, err)
			continue
		}
		if got, err := json.Marshal(value); err != nil || string(got) != want {
			t.Errorf("%q is %s, want %s (%v)", source, got, want, err)
		}
	}
	for _, source := range []string{
		"a: {b: 1}", "a: &x 1", "a: *x", "a: !!str 1", "a: |\n  b\n", "a: 1\na: 2", "a\n", "a: 1\n   b: 2", "a: b # c",
		"a: [b", "a: [[b]]", "a: 'b", "a: b: c", "  a: 1\nb: 2",
	} {
		if value, err := check.ParseYAML([]byte(source)); err == nil {
			t.Errorf("%q was read as %v", source, value)
		}
	}
}

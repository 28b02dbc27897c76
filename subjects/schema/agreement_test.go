package schema_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
)

// The verdicts of schemas and decoders on random bodies are equal, with these exceptions.
//
// Decoders are more lenient, so that the schema gets the body in its proper form:
//   - a field's name in other case,
//   - an end in the year 1, which is none,
//   - a comma before the fraction of a second, and an offset of 24 hours.
//
// Schemas cannot say everything, so that the decoder must refuse what is
//   - not UTF-8, which JSON is by definition,
//   - longer in bytes than in characters,
//   - half a surrogate pair,
//   - a time out of range,
//   - a whole number that is written with a point or an exponent.
//
// Names twice in one object are not compared: JSON leaves open what they mean.

// fields are random members of an object, most of them as an operation takes them.
var fields = map[string]*rapid.Generator[string]{
	"targets": lists(ids), "users": lists(ids), "groups": lists(ids), "default": lists(quoted("contact", "member", "everyone", "friends", "")),
	"contact": granularities, "member": granularities, "everyone": granularities, "granularity": granularities,
	"priority": priorities, "status": statuses, "later": junk,
}

var (
	junk = rapid.SampledFrom([]string{"null", "true", "1", `""`, `"x"`, "[]", "{}", "[null]", "[[]]", `[{}]`, `{"a":1}`, "1.5", "-1"})
	ids  = rapid.OneOf(
		rapid.Map(anID, func(id string) string { b, _ := json.Marshal(id); return string(b) }),
		rapid.SampledFrom([]string{`""`, "null", "1", `"\ud800"`, `"\ud83d\ude00"`, `"\\ud800"`, `"\ufffd"`, `"` + strings.Repeat("x", 128) + `"`,
			`"` + strings.Repeat("x", 129) + `"`, `"` + strings.Repeat("é", 64) + `"`, `"` + strings.Repeat("é", 65) + `"`, `"` + strings.Repeat("é", 129) + `"`}))
	granularities = rapid.OneOf(quoted("absent", "hidden", "coarse", "exact"), quoted("Exact", "all", ""), junk)
	priorities    = rapid.OneOf(rapid.Map(rapid.IntRange(-1, 1001), func(n int) string { return fmt.Sprint(n) }),
		rapid.SampledFrom([]string{"0", "1000", "-1", "1001", "1.0", "1e2", "1.5", "-0", "99999999999999999999"}), junk)
	statuses = rapid.OneOf(objects(map[string]*rapid.Generator[string]{
		"availability": rapid.OneOf(quoted("available", "away", "dnd", "invisible"), quoted("busy", "Away"), junk),
		"text": rapid.OneOf(quoted("", "lunch", "é", strings.Repeat("x", 128), strings.Repeat("x", 129), strings.Repeat("é", 65)),
			rapid.SampledFrom([]string{`"a\nb"`, `"\u0000"`, `"\u007f"`, `"\u0085"`, `"\u00a0"`, `"\u2028"`, `"\ud800"`}), junk),
		"priority": priorities,
		"until": rapid.OneOf(rapid.Map(anInstant, func(at time.Time) string { return `"` + at.Format(time.RFC3339Nano) + `"` }),
			quoted("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.5+02:00", "1969-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "2026-02-30T00:00:00Z", "2026-01-01T24:00:00Z",
				"2026-01-01T00:00:60Z", "2026-12-31T23:59:60Z", "2026-01-01t00:00:00z", "2026-01-01T00:00:00,5Z", "2026-01-01T00:00:00", "2026-01-01", "tomorrow", "", "10000-01-01T00:00:00Z",
				"2026-01-01T00:00:00+24:00", "2026-01-01T00:00:00.Z", "2026-01-01T00:00:00-00:00", "2026-1-01T00:00:00Z"), junk),
		"later": junk,
	}), junk)
)

func quoted(texts ...string) *rapid.Generator[string] {
	return rapid.Map(rapid.SampledFrom(texts), func(s string) string { b, _ := json.Marshal(s); return string(b) })
}

func lists(of *rapid.Generator[string]) *rapid.Generator[string] {
	return rapid.OneOf(rapid.Map(rapid.SliceOfN(of, 0, 3), func(all []string) string { return "[" + strings.Join(all, ",") + "]" }), junk)
}

// objects makes objects of some of the members, now and then under a name in other case.
func objects(members map[string]*rapid.Generator[string]) *rapid.Generator[string] {
	names := slices.Sorted(maps.Keys(members))
	return rapid.Custom(func(t *rapid.T) string {
		var all []string
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 2, rapid.ID).Draw(t, "names") {
			shown := name
			if rapid.IntRange(0, 9).Draw(t, "case") == 0 {
				shown = strings.ToUpper(name)
			}
			all = append(all, fmt.Sprintf("%q: %s", shown, members[name].Draw(t, name)))
		}
		return "{" + strings.Join(all, ", ") + "}"
	})
}

// bodiesFor makes bodies that an operation may like: its own fields come more often.
func bodiesFor(valid *rapid.Generator[string], takes ...string) *rapid.Generator[string] {
	own := make(map[string]*rapid.Generator[string])
	for _, name := range takes {
		own[name] = fields[name]
	}
	own["later"] = junk
	return rapid.OneOf(valid, objects(own), objects(own), objects(fields), junk, rapid.SampledFrom([]string{
		"", " \r\n", "{", "{}{}", "nul", `{"users":["a"]}x`, "\ufeff{}", "{\"users\":[\"\xff\"]}", "[]", `"targets"`}))
}

// policyFields are those of any operation on a policy.
var policyFields = []string{"contact", "member", "everyone", "default", "users", "groups", "granularity", "priority", "status"}

// proper is a body without the leniency of the decoders.
func proper(text string, known []string) string {
	if strings.TrimSpace(text) == "" {
		return "null"
	}
	var members map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &members) != nil || members == nil {
		return text
	}
	b, err := json.Marshal(tidy(members, known))
	if err != nil {
		panic(err)
	}
	return string(b)
}

func tidy(members map[string]json.RawMessage, known []string) map[string]json.RawMessage {
	all := make(map[string]json.RawMessage, len(members))
	for name, value := range members {
		for _, field := range known {
			if strings.EqualFold(field, name) {
				name = field
			}
		}
		var inner map[string]json.RawMessage
		switch text := string(value); {
		case name == "status" && json.Unmarshal(value, &inner) == nil && inner != nil:
			value, _ = json.Marshal(tidy(inner, []string{"availability", "text", "priority", "until"}))
		case name == "until" && text == `"0001-01-01T00:00:00Z"`:
			continue
		case name == "until":
			value = json.RawMessage(strings.Replace(commaFraction.ReplaceAllString(text, "$1.$2"), "+24:", "+23:", 1))
		}
		all[name] = value
	}
	return all
}

var commaFraction = regexp.MustCompile(`(:\d\d),(\d)`)

var (
	numberWithPoint = regexp.MustCompile(`(?i)"priority": ?-?\d+(\.\d|e)`)
	farNumber       = regexp.MustCompile(`(?i)"priority": ?-?\d{19}`)
	anyUntil        = regexp.MustCompile(`(?i)"until": ?"([^"]*)"`)
)

// beyond says that a body contains what a schema cannot refuse, in the fields that
// count.
func beyond(text string, known []string) bool {
	if !utf8.ValidString(text) || lonely(text) {
		return true
	}
	text = taken(text, known)
	for _, match := range anyUntil.FindAllStringSubmatch(text, -1) {
		if at, err := time.Parse(time.RFC3339Nano, match[1]); err == nil && !at.IsZero() && (at.Before(time.Unix(0, 0)) || at.Year() > 9999) {
			return true
		}
	}
	return numberWithPoint.MatchString(text) || farNumber.MatchString(text) || long(text)
}

// taken is a body without the fields that are ignored.
func taken(text string, known []string) string {
	var members map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &members) != nil {
		return text
	}
	maps.DeleteFunc(members, func(name string, _ json.RawMessage) bool {
		return !slices.ContainsFunc(known, func(field string) bool { return strings.EqualFold(field, name) })
	})
	b, err := json.Marshal(members)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// lonely finds half a surrogate pair; no generator makes others than these.
func lonely(text string) bool { return strings.Contains(strings.ReplaceAll(text, `\\`, ""), `\ud800`) }

// long finds a string of at most 128 characters that are more bytes.
func long(text string) bool {
	d := json.NewDecoder(strings.NewReader(text))
	for {
		token, err := d.Token()
		if err != nil {
			return false
		}
		if s, ok := token.(string); ok && len(s) > longest && len([]rune(s)) <= longest {
			return true
		}
	}
}

const longest = rollcall.MaxID // and subjects.MaxStatusText, which is the same

// agree compares the verdicts on random bodies.
func agree(t *testing.T, s *jsonschema.Schema, bodies *rapid.Generator[string], known []string, decode func([]byte) error, lenient func(string) bool) {
	t.Helper()
	accepted, refused, excepted := 0, 0, 0
	property := func(t *rapid.T) {
		text := bodies.Draw(t, "body")
		decoded, validated := decode([]byte(text)), verdict(t, s, proper(text, known))
		switch {
		case beyond(text, known):
			excepted++
			if decoded == nil && !lenient(text) {
				t.Fatalf("%s was accepted", text)
			}
		case lenient(text) && decoded == nil:
			excepted++
		case (decoded == nil) != (validated == nil):
			t.Fatalf("%s (as %s): the decoder says %v, the schema %v", text, proper(text, known), decoded, validated)
		case decoded == nil:
			accepted++
		default:
			refused++
		}
	}
	// Short runs draw so few that all can be of one kind.
	const rounds = 20
	for range rounds {
		if rapid.Check(t, property); accepted > 0 && refused > 0 {
			break
		}
	}
	if accepted == 0 || refused == 0 {
		t.Errorf("accepted %d, refused %d, excepted %d: that says nothing", accepted, refused, excepted)
	}
}

func never(string) bool { return false }

func TestRequestsAgree(t *testing.T) {
	get := compile(t)
	good := rapid.Map(someIDs, func(all []string) string { b, _ := json.Marshal(subjects.Request{Targets: all}); return string(b) })
	for _, row := range []struct {
		schema string
		needs  bool
	}{{"request", true}, {"unsubscribe", false}} {
		t.Run(row.schema, func(t *testing.T) {
			agree(t, get(row.schema), bodiesFor(good, "targets"), []string{"targets"}, func(b []byte) error {
				_, err := subjects.DecodeRequest(b, row.needs)
				return err
			}, never)
		})
	}
}

func TestPolicyRequestsAgree(t *testing.T) {
	get := compile(t)
	takes := map[subjects.PolicyOp][]string{
		subjects.PolicySet: {"contact", "member", "everyone", "default"}, subjects.PolicyAllow: {"users", "granularity"},
		subjects.PolicyStatus: {"status"}, subjects.PolicyClear: {"priority"}, subjects.PolicyJoin: {"groups"}, subjects.PolicyLeave: {"groups"},
		subjects.PolicyReset: {"users"}, subjects.PolicyBlock: {"users"}, subjects.PolicyUnblock: {"users"},
		subjects.PolicyContact: {"users"}, subjects.PolicyUncontact: {"users"},
	}
	for _, op := range subjects.PolicyOps {
		t.Run(string(op), func(t *testing.T) {
			good := rapid.Map(requestOf(op), func(r subjects.PolicyRequest) string { b, _ := json.Marshal(r); return string(b) })
			agree(t, get("policy-request#/$defs/"+string(op)), bodiesFor(good, takes[op]...), policyFields, func(b []byte) error {
				_, err := subjects.DecodePolicyRequest(op, b)
				return err
			}, never)
		})
	}
}

// Random bodies are short; these are as long as may be, and longer by one.
func TestTheLongestRequestsAgree(t *testing.T) {
	get := compile(t)
	list := func(field string, n int) []byte {
		return []byte(`{"` + field + `":[` + strings.TrimSuffix(strings.Repeat(`"a",`, n), ",") + `]}`)
	}
	for _, row := range []struct {
		schema, field string
		limit         int
		decode        func([]byte) error
	}{
		{"request", "targets", subjects.MaxTargets, func(b []byte) error { _, err := subjects.DecodeRequest(b, true); return err }},
		{"unsubscribe", "targets", subjects.MaxTargets, func(b []byte) error { _, err := subjects.DecodeRequest(b, false); return err }},
		{"policy-request#/$defs/block", "users", subjects.MaxPolicyUsers, func(b []byte) error { _, err := subjects.DecodePolicyRequest(subjects.PolicyBlock, b); return err }},
		{"policy-request#/$defs/join", "groups", subjects.MaxGroups, func(b []byte) error { _, err := subjects.DecodePolicyRequest(subjects.PolicyJoin, b); return err }},
	} {
		for n, want := range map[int]bool{row.limit: true, row.limit + 1: false} {
			body := list(row.field, n)
			if got := row.decode(body) == nil; got != want {
				t.Errorf("%s: the decoder says %v to %d", row.schema, got, n)
			}
			if got := verdict(t, get(row.schema), string(bytes.TrimSpace(body))) == nil; got != want {
				t.Errorf("%s: the schema says %v to %d", row.schema, got, n)
			}
		}
	}
}

package schema_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/docs/check"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/schema"
)

// compile compiles schemas of this package, each "name" or "name#/pointer".
func compile(t *testing.T) func(name string) *jsonschema.Schema {
	t.Helper()
	schemas, err := check.NewSchemas()
	if err != nil {
		t.Fatal(err)
	}
	return func(name string) *jsonschema.Schema {
		t.Helper()
		s, err := schemas.Compile(name)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

func TestEverySchemaCompiles(t *testing.T) {
	get := compile(t)
	schemas, err := check.NewSchemas()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range schemas.Names() {
		s := get(name)
		if want := schema.Base + name + ".json"; s.ID != want || s.DraftVersion != 2020 {
			t.Errorf("%s: $id %q in draft %d, want %q", name, s.ID, s.DraftVersion, want)
		}
		if s.Title == "" {
			t.Errorf("%s has no title", name)
		}
	}
	for _, op := range subjects.PolicyOps {
		get("policy-request#/$defs/" + string(op))
	}
	for _, op := range subjects.DeviceOps {
		get("device-request#/$defs/" + string(op))
	}
}

// values reads a list in a schema.
func values(t *testing.T, file string, path ...string) (all []string) {
	t.Helper()
	data, err := schema.FS.ReadFile(file + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var value any
	if err := json.Unmarshal(data, &value); err != nil {
		t.Fatal(err)
	}
	for _, key := range path {
		m, _ := value.(map[string]any)
		value = m[key]
	}
	list, _ := value.([]any)
	for _, item := range list {
		all = append(all, fmt.Sprint(item))
	}
	return all
}

func strs[T ~string](list ...T) (all []string) {
	for _, v := range list {
		all = append(all, string(v))
	}
	return all
}

// named lists the names of numbered constants.
func named[T interface {
	~uint8
	fmt.Stringer
}](parses func(name string) bool) (all []string) {
	for v := T(0); parses(v.String()); v++ {
		all = append(all, v.String())
	}
	return all
}

func TestTheListsAreThoseOfTheCode(t *testing.T) {
	availabilities := named[rollcall.Availability](func(n string) bool { return new(rollcall.Availability).UnmarshalText([]byte(n)) == nil })
	states := named[rollcall.State](func(n string) bool { _, err := rollcall.ParseState(n); return err == nil })
	granularities := named[rollcall.Granularity](func(n string) bool { return new(rollcall.Granularity).UnmarshalText([]byte(n)) == nil })
	constants, reasons := constantsOf(t, "../..", ".."), constantsOf(t, "../../fanout")
	for _, row := range []struct {
		what      string
		got, want []string
	}{
		{"codes", values(t, "error", "properties", "Nats-Service-Error-Code", "enum"), constants["Code"]},
		{"statuses", values(t, "view", "properties", "status", "enum"), constants["Status"]},
		{"feeds", values(t, "position", "properties", "feed", "enum"), constants["Feed"]},
		{"operations", strs(subjects.Ops[:]...), constants["Op"]},
		{"policy operations", keys(t, "policy-request", "$defs"), constants["PolicyOp"]},
		{"policy operations of the code", strs(subjects.PolicyOps...), constants["PolicyOp"]},
		{"device codes", values(t, "device-error", "properties", "error", "properties", "code", "enum"), constants["DeviceCode"]},
		{"device codes of the code", strs(subjects.DeviceCodes[:]...), constants["DeviceCode"]},
		{"device operations", append(keys(t, "device-request", "$defs"), "superseded", "dead"), append(constants["DeviceOp"], "client")}, // two are said to devices
		{"reasons of a close", values(t, "device-request", "$defs", "close", "properties", "reason", "enum"), []string{subjects.DeviceGoodbye, subjects.DeviceLogout, ""}},
		{"granularities", values(t, "common", "$defs", "granularity", "enum"), granularities},
		{"availabilities", values(t, "common", "$defs", "availability", "enum"), availabilities},
		// A target who leaves the word to its devices says nothing.
		{"availabilities shown", values(t, "view", "properties", "availability", "enum"), availabilities[1:]},
		// Offline is a status, not a state of who is online.
		{"states", values(t, "view", "properties", "state", "enum"), states[1:]},
		{"reasons", values(t, "position", "properties", "reason", "examples"), reasons["Reason"]},
		{"relations", values(t, "policy-request", "$defs", "set", "properties", "default", "items", "enum"),
			[]string{subjects.RelationContact, subjects.RelationMember, subjects.RelationEveryone}},
	} {
		if !sameSet(row.got, row.want) {
			t.Errorf("%s: %v, the code has %v", row.what, row.got, row.want)
		}
	}
}

func TestTheLimitsAreThoseOfTheCode(t *testing.T) {
	get := compile(t)
	common := func(name string) *jsonschema.Schema { return get("common#/$defs/" + name) }
	for what, row := range map[string][2]int{
		"id":                {*common("id").MaxLength, rollcall.MaxID},
		"text":              {*common("text").MaxLength, subjects.MaxStatusText},
		"users":             {*common("users").MaxItems, subjects.MaxPolicyUsers},
		"groups":            {*common("groups").MaxItems, subjects.MaxGroups},
		"users to change":   {*get("policy-request#/$defs/block/properties/users").MaxItems, subjects.MaxPolicyUsers},
		"users to allow":    {*get("policy-request#/$defs/allow/properties/users").MaxItems, subjects.MaxPolicyUsers},
		"groups to change":  {*get("policy-request#/$defs/join/properties/groups").MaxItems, subjects.MaxGroups},
		"overrides":         {*get("policy#/properties/overrides").MaxProperties, subjects.MaxPolicyUsers},
		"statuses":          {*get("policy#/properties/statuses").MaxItems, subjects.MaxStatuses},
		"targets":           {*get("request#/properties/targets").MaxItems, subjects.MaxTargets},
		"targets to end":    {*get("unsubscribe#/properties/targets").MaxItems, subjects.MaxTargets},
		"targets in doubt":  {*get("sight-question#/properties/targets").MaxItems, subjects.MaxTargets},
		"sights":            {*get("sight-answer#/properties/sights").MaxItems, subjects.MaxTargets},
		"activity":          {*get("view#/properties/activity").MaxLength, subjects.MaxActivity},
		"text of a view":    {*get("view#/properties/text").MaxLength, subjects.MaxStatusText},
		"priority":          {int(common("priority").Maximum.Num().Int64()), subjects.MaxPriority},
		"shards":            {int(get("position#/properties/shard").Maximum.Num().Int64()), subjects.MaxShards - 1},
		"targets of a view": {int(get("position#/properties/targets").Maximum.Num().Int64()), subjects.MaxTargets},
		"activity to tell":  {*common("activity").MaxLength, subjects.MaxActivity},
		"words on clients":  {*common("client").MaxLength, subjects.MaxClient},
		"beats":             {int(get("device-request#/$defs/heartbeat/properties/seq").Maximum.Num().Int64()), subjects.MaxDeviceSeq},
		"numbers":           {int(common("number").Maximum.Num().Int64()), 1<<53 - 1},
	} {
		if row[0] != row[1] {
			t.Errorf("%s: %d, the code says %d", what, row[0], row[1])
		}
	}
}

// What is received is open, so that a field which the schemas do not know validates: the
// fields must be compared.
func TestTheFieldsAreThoseOfTheTypes(t *testing.T) {
	for name, value := range map[string]any{
		"request": subjects.Request{}, "unsubscribe": subjects.Request{}, "view": subjects.View{}, "position": subjects.Position{},
		"reply": subjects.Reply{}, "policy": subjects.Policy{}, "status": subjects.ManualStatus{},
		"sight-question": subjects.SightQuestion{}, "sight-answer": subjects.SightAnswer{}, "sight-change": subjects.SightChange{}, "stats": subjects.Stats{},
		"keeper-stats": subjects.KeeperStats{},
	} {
		if got, want := keys(t, name, "properties"), fieldsOf(reflect.TypeOf(value)); !sameSet(got, want) {
			t.Errorf("%s: %v, the type has %v", name, got, want)
		}
	}
	// Those that embed a position have one field more.
	for name, value := range map[string]any{"snapshot": subjects.ShardSnapshot{}, "message": subjects.Message{}} {
		if got, want := append(keys(t, name, "properties"), keys(t, "position", "properties")...), fieldsOf(reflect.TypeOf(value)); !sameSet(got, want) {
			t.Errorf("%s: %v, the type has %v", name, got, want)
		}
	}
	for name, value := range map[string]any{
		"device-request#/$defs/open": subjects.DeviceOpenRequest{}, "device-request#/$defs/heartbeat": subjects.DeviceHeartbeatRequest{},
		"device-request#/$defs/state": subjects.DeviceStateRequest{}, "device-request#/$defs/close": subjects.DeviceCloseRequest{},
		"device-request#/$defs/client": subjects.DeviceClient{}, "device-answer#/$defs/open": subjects.DeviceOpenAnswer{},
		"keeper-stats#/$defs/shard": subjects.KeeperShard{}, "keeper-stats#/$defs/way": subjects.KeeperWay{},
		"device-answer#/$defs/live": subjects.DeviceAnswer{}, "device-error": subjects.DeviceRefusal{},
	} {
		if got, want := slices.Collect(maps.Keys(compile(t)(name).Properties)), fieldsOf(reflect.TypeOf(value)); !sameSet(got, want) {
			t.Errorf("%s: %v, the type has %v", name, got, want)
		}
	}
	taken := make(map[string]bool)
	get := compile(t)
	for _, op := range subjects.PolicyOps {
		s := get("policy-request#/$defs/" + string(op))
		for s.Ref != nil {
			s = s.Ref
		}
		for field := range s.Properties {
			taken[field] = true
		}
	}
	if got, want := slices.Collect(maps.Keys(taken)), fieldsOf(reflect.TypeFor[subjects.PolicyRequest]()); !sameSet(got, want) {
		t.Errorf("operations take %v, the type has %v", got, want)
	}
}

// fieldsOf lists the JSON names of a type's fields.
func fieldsOf(typ reflect.Type) (names []string) {
	for _, field := range reflect.VisibleFields(typ) {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// What the schemas refuse although it looks much like a message.
func TestWhatTheFabricNeverSends(t *testing.T) {
	get := compile(t)
	const position = `"shard":0,"generation":1,"seq":1,"targets":1`
	for name, bodies := range map[string][]string{
		"view": {
			`{"target":"a","status":"online"}`, `{"target":"","status":"online","version":1}`, `{"target":"a","status":"busy","version":1}`,
			`{"target":"a","status":"online","state":"offline","version":1}`, `{"target":"a","status":"unknown","state":"idle","version":1}`,
			`{"target":"a","status":"online","version":9007199254740992}`, `{"target":"a","status":"online","version":1.5}`, `{"target":"a","status":"online","version":-1}`,
			`{"target":"a","status":"online","availability":"available","version":1}`, `{"target":"a","status":"offline","text":"x","version":1}`,
			`{"target":"a","status":"online","last_seen_minute":"2026-01-01T00:00:00Z","version":1}`,
			`{"target":"a","status":"recently","last_seen_minute":"2026-01-01T00:00:00Z","version":1}`,
			`{"target":"a","status":"withdrawn","observed_at_minute":"2026-01-01T00:00:00Z","version":1}`,
			`{"target":"a","status":"online","observed_at_minute":"2026-01-01T00:00:01Z","version":1}`,
			`{"target":"a","status":"online","observed_at_minute":"2026-01-01T00:00:00+01:00","version":1}`,
			`{"target":"a","status":"online","observed_at_minute":"2026-02-30T00:00:00Z","version":1}`,
		},
		"message": {
			`{}`, `{` + position + `}`, `{` + position + `,"feed":"lost"}`, `{` + position + `,"feed":"stalled"}`, `{` + position + `,"feed":"live","reason":"x"}`,
			`{` + position + `,"feed":"live","changes":[]}`, `{` + position + `,"feed":"live","changes":[{}]}`, `{"shard":0,"feed":"live"}`, `null`,
		},
		"reply": {
			`{}`, `null`, `{"shards":null}`, `{"shards":[{}]}`, `{"shards":[{` + position + `,"feed":"live","views":[{"target":"a","status":"withdrawn","version":1}]}]}`,
		},
		"policy": {
			`{}`, `{"user":""}`, `{"user":"a","contact":"all"}`, `{"user":"a","overrides":{"b":"all"}}`, `{"user":"a","overrides":{"":"exact"}}`,
			`{"user":"a","statuses":[{"availability":"away"}]}`, `{"user":"a","statuses":[{"availability":"busy","priority":0}]}`,
		},
		"device-answer#/$defs/open": {`{}`, `{"sessionId":"","sessionEpoch":1,"heartbeatIntervalMs":1,"idleThresholdMs":1,"idleTimeoutMs":1,"serverTime":"2026-01-01T00:00:00.000Z","nextHeartbeatInMs":1}`},
		"device-answer#/$defs/live": {
			`{}`, `null`, `{"serverTime":"2026-01-01T00:00:00Z","nextHeartbeatInMs":1}`, `{"serverTime":"2026-01-01T00:00:00.000+01:00","nextHeartbeatInMs":1}`,
			`{"serverTime":"2026-01-01T00:00:00.000Z","nextHeartbeatInMs":0}`, `{"serverTime":"2026-01-01T00:00:00.000Z","nextHeartbeatInMs":1.5}`,
		},
		"device-error":   {`{}`, `{"error":{}}`, `{"error":{"code":"ODD","message":"x"}}`, `{"error":{"code":"INTERNAL","message":""}}`, `{"error":"INTERNAL"}`},
		"error":          {`{}`, `{"Nats-Service-Error-Code":"odd","Nats-Service-Error":"x"}`, `{"Nats-Service-Error-Code":"internal"}`},
		"sight-question": {`{}`, `{"viewer":"a","targets":[]}`, `{"viewer":"a","targets":[""]}`},
		"sight-answer":   {`{}`, `{"sights":["all"]}`, `{"sights":[null]}`, `{"sights":[]}`},
		"sight-change":   {`{}`, `{"viewer":""}`, `{"user":"a"}`, `{"viewer":"a","user":"b"}`, `null`},
		"stats": {
			`{}`, `null`, `{"as_of":"2026-01-01T00:00:00Z","shards":null,"shards_total":1,"online":0,"active":0,"definition":"1","today":[]}`,
			`{"as_of":"2026-01-01T00:00:00Z","shards":[0],"shards_total":1,"online":-1,"active":0,"definition":"1","today":[]}`,
			`{"as_of":"2026-01-01T00:00:00Z","shards":[0],"shards_total":1,"online":0,"active":0,"definition":"1","today":[{"zone":"UTC","date":"1.1.2026","measures":{}}]}`,
		},
	} {
		for _, body := range bodies {
			if verdict(t, get(name), body) == nil {
				t.Errorf("%s: %s validates", name, body)
			}
		}
	}
}

// What comes later must not break a client that validates what it receives.
func TestWhatIsReceivedIsOpen(t *testing.T) {
	get := compile(t)
	for name, body := range map[string]string{
		"reply":          `{"later":1,"shards":[{"later":1,"shard":0,"generation":1,"seq":1,"feed":"live","targets":1,"views":[{"later":1,"target":"a","status":"online","version":1}]}]}`,
		"message":        `{"later":1,"shard":0,"generation":1,"seq":1,"feed":"stalled","reason":"new","targets":1,"changes":[{"later":1,"target":"a","status":"withdrawn","version":1}]}`,
		"policy":         `{"later":1,"user":"a","statuses":[{"later":1,"availability":"away","priority":1}]}`,
		"error":          `{"later":"x","Nats-Service-Error-Code":"internal","Nats-Service-Error":"x"}`,
		"sight-question": `{"later":1,"viewer":"a","targets":["b"]}`,
		"device-error":   `{"later":1,"error":{"later":1,"code":"INTERNAL","message":"x"}}`,
	} {
		if err := verdict(t, get(name), body); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// verdict is what a schema says of a body; no body at all reads as null.
func verdict(t interface{ Fatalf(string, ...any) }, s *jsonschema.Schema, body string) error {
	if strings.TrimSpace(body) == "" {
		body = "null"
	}
	value, err := check.ParseJSON([]byte(body))
	if err != nil {
		return err
	}
	err = s.Validate(value)
	if err != nil && !errors.As(err, new(*jsonschema.ValidationError)) {
		t.Fatalf("%s: %v", body, err)
	}
	return err
}

func TestNothingElseIsEmbedded(t *testing.T) {
	entries, err := fs.ReadDir(schema.FS, ".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".json") {
			t.Errorf("%s is embedded", e.Name())
		}
	}
}

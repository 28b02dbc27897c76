package schema_test

import (
	"encoding/json"
	"testing"

	"github.com/rollcall-io/rollcall/subjects"
)

// with is a JSON object with one member put in place.
func with(t *testing.T, body []byte, member, value string) string {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		t.Fatal(err)
	}
	members[member] = json.RawMessage(value)
	changed, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	return string(changed)
}

// verdicts checks that the decoder and the schema refuse a body, or both take it.
func verdicts(t *testing.T, schema, body string, decode func([]byte) error, taken bool) {
	t.Helper()
	if err := decode([]byte(body)); (err == nil) != taken {
		t.Errorf("%s: of %s the decoder says %v", schema, body, err)
	}
	if err := verdict(t, compile(t)(schema), body); (err == nil) != taken {
		t.Errorf("%s: of %s the schema says %v", schema, body, err)
	}
}

// Null does not leave a field out, nor does an empty list.
func TestNullsInRequests(t *testing.T) {
	for schema, needs := range map[string]bool{"request": true, "unsubscribe": false} {
		decode := func(b []byte) error { _, err := subjects.DecodeRequest(b, needs); return err }
		verdicts(t, schema, `{"targets":null}`, decode, false)
		verdicts(t, schema, `{"targets":[]}`, decode, !needs)
		verdicts(t, schema, `{"targets":["a"],"later":null}`, decode, true)
	}
	change := func(b []byte) error { _, err := subjects.DecodeSightChange(b); return err }
	verdicts(t, "sight-change", `{"viewer":"a"}`, change, true)
	verdicts(t, "sight-change", `{"viewer":"a","target":null}`, change, false)
	verdicts(t, "sight-change", `{"viewer":null,"target":"a"}`, change, false)
}

func TestNullsInPolicyRequests(t *testing.T) {
	for _, op := range subjects.PolicyOps {
		schema := "policy-request#/$defs/" + string(op)
		decode := func(b []byte) error { _, err := subjects.DecodePolicyRequest(op, b); return err }
		body, err := json.Marshal(requestOf(op).Example(1))
		if err != nil {
			t.Fatal(err)
		}
		verdicts(t, schema, string(body), decode, true)
		for _, field := range policyFields {
			verdicts(t, schema, with(t, body, field, "null"), decode, false)
			verdicts(t, schema, with(t, body, field, "[]"), decode, false)
		}
	}
	status := func(b []byte) error { _, err := subjects.DecodePolicyRequest(subjects.PolicyStatus, b); return err }
	verdicts(t, "policy-request#/$defs/status", `{"status":{}}`, status, true)
	for _, field := range []string{"availability", "text", "priority", "until"} {
		verdicts(t, "policy-request#/$defs/status", `{"status":{"`+field+`":null}}`, status, false)
	}
}

func TestNullsInDeviceRequests(t *testing.T) {
	for op, row := range map[subjects.DeviceOp]struct {
		body   string
		decode func([]byte) error
	}{
		subjects.DeviceOpen: {`{"device":"d","foreground":true,"active":true}`,
			func(b []byte) error { _, err := requested[subjects.DeviceOpenRequest](b); return err }},
		subjects.DeviceHeartbeat: {`{"sessionId":"s.1","sessionEpoch":1,"seq":1}`,
			func(b []byte) error { _, err := requested[subjects.DeviceHeartbeatRequest](b); return err }},
		subjects.DeviceState: {`{"sessionId":"s.1","sessionEpoch":1,"foreground":true,"active":true}`,
			func(b []byte) error { _, err := requested[subjects.DeviceStateRequest](b); return err }},
		subjects.DeviceClose: {`{"sessionId":"s.1","sessionEpoch":1}`,
			func(b []byte) error { _, err := requested[subjects.DeviceCloseRequest](b); return err }},
	} {
		schema := "device-request#/$defs/" + string(op)
		verdicts(t, schema, row.body, row.decode, true)
		verdicts(t, schema, with(t, []byte(row.body), "later", "null"), row.decode, true)
		for field := range compile(t)(schema).Properties {
			verdicts(t, schema, with(t, []byte(row.body), field, "null"), row.decode, false)
		}
	}
	for field := range compile(t)("device-request#/$defs/client").Properties {
		verdicts(t, "device-request#/$defs/open", `{"device":"d","foreground":true,"active":true,"client":{"`+field+`":null}}`,
			func(b []byte) error { _, err := requested[subjects.DeviceOpenRequest](b); return err }, false)
	}
}

package check_test

import (
	"os"
	"strings"
	"testing"

	"github.com/rollcall-io/rollcall/docs/check"
	"github.com/rollcall-io/rollcall/subjects"
)

const path = "../asyncapi.yaml"

func TestTheDocumentHoldsTogether(t *testing.T) {
	d, err := check.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	names, err := subjects.New(subjects.DefaultPrefix, 4)
	if err != nil {
		t.Fatal(err)
	}
	// Every subject of a client, also those of an id that needs encoding, has one operation.
	wanted := map[string]string{names.Sight(): "decide", names.SightChanged(): "reconsider", names.Stats(): "stats", names.KeeperStats(): "keeperStats"}
	for _, id := range []string{"vera", "а.б > *"} {
		for _, op := range subjects.Ops {
			wanted[names.Request(op, id)] = string(op)
		}
		for _, op := range subjects.PolicyOps {
			wanted[names.Policy(op, id)] = "policy" + strings.ToUpper(string(op[:1])) + string(op[1:])
		}
		for _, op := range subjects.DeviceOps {
			wanted[names.Device(op, id, "tablet *1")] = "device" + strings.ToUpper(string(op[:1])) + string(op[1:])
		}
		wanted[names.ViewEvents(id, 3)] = "watch"
	}
	operations := make(map[string]bool)
	for subject, want := range wanted {
		found := d.Match(subject)
		if len(found) != 1 || found[0].Name != want {
			t.Errorf("%s: %v, want the operation %s", subject, found, want)
		}
		operations[want] = true
	}
	if len(d.Operations) != len(operations) {
		t.Errorf("%d operations, want %d", len(d.Operations), len(operations))
	}
	for _, subject := range []string{names.Log(0, "g1"), names.Beats(0, "g1"), names.EdgeControl("g1"), names.Pulse(0), names.GateRequest("g1", subjects.DeviceOpen, "a", "b")} {
		if found := d.Match(subject); len(found) > 0 {
			t.Errorf("%s is not for clients, and belongs to %v", subject, found)
		}
	}
}

// A document that does not hold together is noticed.
func TestABrokenDocument(t *testing.T) {
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string][2]string{
		"a schema that is not there":      {"schema/reply.json", "schema/replies.json"},
		"a part of a schema that is not":  {"$defs/block", "$defs/blocks"},
		"a component that is not there":   {"#/components/messages/get'", "#/components/messages/got'"},
		"another version":                 {"asyncapi: 3.0.0", "asyncapi: 2.6.0"},
		"a parameter of another name":     {"presence.req.get.{viewer}", "presence.req.get.{user}"},
		"a parameter too few":             {"presence.req.get.{viewer}", "presence.req.get"},
		"no such action":                  {"action: receive", "action: read"},
		"a message of another channel":    {"#/channels/get/messages/get", "#/channels/subscribe/messages/subscribe"},
		"an operation without a channel":  {"    channel:\n      $ref: '#/channels/get'\n", ""},
		"a message without a description": {"Needs no interest and leaves none.", ""},
		"a channel that nobody uses":      {"\noperations:", "  spare:\n    address: presence.spare\n    messages:\n      get:\n        $ref: '#/components/messages/get'\n\noperations:"},
		"a channel without messages":      {"\noperations:", "  spare:\n    address: null\n\noperations:"},
		"a key twice":                     {"info:", "info:\ninfo:"},
		"no YAML":                         {"title: Rollcall", "title: [Rollcall"},
	} {
		bad := strings.Replace(string(good), change[0], change[1], 1)
		if bad == string(good) {
			t.Errorf("%s: nothing to change", name)
		}
		if _, err := check.Parse([]byte(bad)); err == nil {
			t.Errorf("%s was not noticed", name)
		}
	}
}

func TestMessagesAreToldApart(t *testing.T) {
	d, err := check.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	answers := d.Operations["get"].Replies
	code := func(c string) map[string][]string {
		return map[string][]string{"Nats-Service-Error-Code": {c}, "Nats-Service-Error": {"because"}}
	}
	for _, row := range []struct {
		headers map[string][]string
		body    string
		want    string
	}{
		{nil, `{"shards":[]}`, "reply"},
		{code("unavailable"), "", "refusal"},
		{code("unavailable"), `{"shards":[]}`, ""},
		{code("odd"), "", ""},
		{nil, "", ""},
		{nil, `{"shards":[`, ""},
	} {
		name := ""
		if m, err := check.OneOf(answers, row.headers, []byte(row.body)); err == nil {
			name = m.Name
		}
		if name != row.want {
			t.Errorf("%v %q is %q, want %q", row.headers, row.body, name, row.want)
		}
	}
}

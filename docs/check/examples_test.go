package check_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rollcall-io/rollcall/docs/check"
)

func TestTheExamplesValidate(t *testing.T) {
	d, err := check.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	examples, err := check.Examples("../contract.md")
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, e := range examples {
		if err := d.CheckExample(e); err != nil {
			t.Errorf("contract.md:%d: %v", e.Line, err)
		}
		shown = append(shown, e.Message)
	}
	for _, name := range []string{"subscribe", "reply", "message", "refusal", "policy", "sightQuestion", "sightAnswer", "sightChange", "stats"} {
		if !slices.Contains(shown, name) {
			t.Errorf("no example of %s", name)
		}
	}
}

func TestExamplesThatNobodyChecks(t *testing.T) {
	d, err := check.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	const f = "```"
	for page, readable := range map[string]bool{
		f + "json reply\n{\"shards\": []}\n" + f: true,
		f + "go\nnot JSON\n" + f:                 true,
		f + "json\n{}\n" + f:                     false,
		f + "json reply\n{\n" + f:                false,
		f + "json reply\n{}":                     false,
	} {
		file := filepath.Join(t.TempDir(), "page.md")
		if err := os.WriteFile(file, []byte(page), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := check.Examples(file); (err == nil) != readable {
			t.Errorf("%q: %v", page, err)
		}
	}
	for name, body := range map[string]string{
		"reply": `{}`, "nothing": `{}`, "refusal": `{"Nats-Service-Error-Code":"odd","Nats-Service-Error":"x"}`, "policyGet": `{"users":[]}`,
	} {
		if err := d.CheckExample(check.Example{Message: name, Body: []byte(body)}); err == nil {
			t.Errorf("%s %s passes", name, body)
		}
	}
}

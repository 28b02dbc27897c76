package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/rollcall-io/rollcall/internal/doctor"
)

func TestDoctor(t *testing.T) {
	url := up(t)
	code, out, errs := command(t, "doctor", "-s", url)
	if code != 0 || errs != "" || !regexp.MustCompile(`(?m)^ok       disks     synced later than acknowledged: \S+ every 2m0s`).MatchString(out) {
		t.Errorf("%d\n%s\n%s", code, out, errs)
	}
	code, out, errs = command(t, "doctor", "-s", url, "--prefix", "elsewhere", "--json")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var last doctor.Finding
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if code != exitFailed || errs != "rollcall: there is a problem\n" || last.Check != "fabric" || last.Level != doctor.Problem {
		t.Errorf("another fabric: %d, %+v\n%s", code, last, errs)
	}
}

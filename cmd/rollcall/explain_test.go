package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rollcall-io/rollcall/internal/explain"
)

func TestExplain(t *testing.T) {
	url := up(t)
	if code, _, errs := command(t, "replay", "-s", url, "--settle", "10ms", writeTrace(t, smallTrace)); code != 0 {
		t.Fatalf("%d, %s", code, errs)
	}
	code, out, errs := command(t, "explain", "-s", url, "--json", "--viewer", "bob", "ann")
	var r explain.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 || !r.Known || len(r.Frames) == 0 || r.Viewer == nil {
		t.Errorf("%d, %v, %s, %s", code, err, out, errs)
	}
	if code, out, _ := command(t, "explain", "-s", url, "ann"); code != 0 || !strings.Contains(out, "last frames, of ") {
		t.Errorf("%d, %s", code, out)
	}
	if code, out, errs := command(t, "explain", "-s", url, "nobody"); code != exitFailed || !strings.Contains(out, "it never came, or was forgotten") || errs != "rollcall: the fabric does not know this user\n" {
		t.Errorf("%d, %s, %s", code, out, errs)
	}
	for _, args := range [][]string{{""}, {"ann", "--back", "-1s"}, {"ann", "--viewer", strings.Repeat("x", 129)}} {
		if code, _, errs := command(t, append([]string{"explain", "-s", url}, args...)...); code != exitUsage {
			t.Errorf("%q: %d, %s", args, code, errs)
		}
	}
	viewer := filepath.Join(t.TempDir(), "bob.creds")
	if code, _, errs := command(t, "token", "viewer", "--user", "bob", "--out", viewer); code != 0 {
		t.Fatal(errs)
	}
	if code, _, errs := command(t, "explain", "-s", url, "--creds", viewer, "ann"); code != exitUsage || !strings.Contains(errs, "may not look into the records of users") {
		t.Errorf("%d, %s", code, errs)
	}
}

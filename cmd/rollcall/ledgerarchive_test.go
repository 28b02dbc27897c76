package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rollcall-io/rollcall/ledger/archive"
	"github.com/rollcall-io/rollcall/ledger/interval"
)

// archivedUsers are the events in an archive, by user.
func archivedUsers(t *testing.T, dir string) map[string]int {
	t.Helper()
	users := make(map[string]int)
	a, err := archive.Open(dir)
	if err == nil {
		err = a.Read(t.Context(), interval.Interval{From: interval.Earliest, To: interval.Latest}, func(e archive.Event) error {
			if len(e.Device) != 16 {
				t.Errorf("%q is no pseudonym", e.Device)
			}
			users[e.User]++
			return nil
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return users
}

// A fabric that is archived stays so, archives by itself, and what was archived can be
// forgotten and removed.
func TestUpArchives(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	dir := filepath.Join(data, "archive")
	t.Run("from the first start", func(t *testing.T) {
		says := upSays(t, "--data", data, "--archive", "--set", "debounce=1")
		if !strings.Contains(says, dir) {
			t.Errorf("up says %s", says)
		}
		url := natsURL(says)
		if code, _, errs := command(t, "replay", "-s", url, writeTrace(t, smallTrace), "--settle", "2s"); code != 0 {
			t.Fatalf("replay: %d, %s", code, errs)
		}
		code, _, errs := command(t, "ledger", "archive", "--once", "-s", url, "--dir", data)
		if code != exitFailed || !strings.Contains(errs, "another process archives into it: "+dir) {
			t.Errorf("a second archiver: %d, %s", code, errs)
		}
		other := filepath.Join(t.TempDir(), "other")
		code, _, errs = command(t, "ledger", "archive", "--once", "-s", url, "--dir", data, "--archive", other)
		if code != 0 || !strings.Contains(errs, "at least for 48h") || !matches(`archived: \d+ events, 0 messages`, errs) {
			t.Errorf("into another directory: %d, %s", code, errs)
		}
		if got := archivedUsers(t, other); got["ann"] < 2 || got["bob"] < 2 {
			t.Errorf("archived %v", got)
		}
	})
	if got := archivedUsers(t, dir); got["ann"] < 2 || got["bob"] < 2 {
		t.Errorf("archived %v", got)
	}
	if code, _, errs := command(t, "ledger", "forget", "ann", "--dir", data); code != 0 || !matches(`forgotten: [1-9]\d* archived events`, errs) {
		t.Errorf("forget: %d, %s", code, errs)
	}
	if got := archivedUsers(t, dir); got["ann"] != 0 || got["bob"] < 2 {
		t.Errorf("archived %v", got)
	}
	t.Run("again without a word", func(t *testing.T) {
		if says := upSays(t, "--data", data); !strings.Contains(says, dir) {
			t.Errorf("up says %s", says)
		}
	})
	t.Run("no more", func(t *testing.T) {
		says := upSays(t, "--data", data, "--no-archive")
		if !strings.Contains(says, "off (--archive)") {
			t.Errorf("up says %s", says)
		}
		code, _, errs := command(t, "ledger", "archive", "--once", "-s", natsURL(says), "--dir", data)
		if code != 0 || !strings.Contains(errs, "expire, archived or not") {
			t.Errorf("archiving all the same: %d, %s", code, errs)
		}
	})
	if got := archivedUsers(t, dir); got["ann"] != 0 {
		t.Errorf("archived %v", got)
	}
	if code, _, errs := command(t, "ledger", "retention", "--events", "1d", "--dir", data); code != 0 || !strings.Contains(errs, "events: 0 removed") {
		t.Errorf("retention: %d, %s", code, errs)
	}
}

func TestArchivedAskedWrongly(t *testing.T) {
	dir := ledgerOf(t, "2026-07-29T08:00:00Z,bob,phone,open\n")
	for _, c := range []struct {
		args, says string
		code       int
	}{
		{"retention --events=-1d", "must not be negative", exitUsage},
		{"retention --events 1d", "no archive in " + filepath.Join(dir, "archive"), exitUsage},
		{"retention --events 1d --archive nowhere", "no archive in", exitFailed},
		{"forget bob --archive nowhere", "no archive in", exitFailed},
		{"archive --every 0", "must be positive", exitUsage},
	} {
		code, out, errs := command(t, append(append([]string{"ledger"}, strings.Fields(c.args)...), "--dir", dir)...)
		if code != c.code || out != "" || !strings.Contains(errs, c.says) {
			t.Errorf("%s: %d, %q, %s", c.args, code, out, errs)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "archive")); err == nil {
		t.Error("asking made an archive")
	}
}

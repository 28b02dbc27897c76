package main

import (
	"context"
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall/ledger/store"
	"github.com/rollcall-io/rollcall/subjects"
)

// While `up` runs, other commands find its ledger and are told what is going on; when it
// has ended, everything that it had read is there.
func TestLedgerOfUp(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	t.Run("up", func(t *testing.T) {
		url := up(t, "--data", data, "--zone", "UTC", "--zone", "Europe/Berlin")
		if code, _, errs := command(t, "replay", "-s", url, writeTrace(t, smallTrace), "--settle", "1s"); code != 0 {
			t.Fatalf("replay: %d, %s", code, errs)
		}
		code, out, errs := command(t, "top", "-s", url, "--once")
		if code != 0 || !matches(`(?s)^As of .* ago\n\nnow +USERS\n  online +\d\n  active in .*in UTC +USERS +TOGETHER\n  connected +2 +\d:\d\d:\d\d\n.*in Europe/Berlin`, out) {
			t.Errorf("top: %d, %q, %s", code, out, errs)
		}
		var stats subjects.Stats
		if code, out, errs = command(t, "top", "-s", url, "--once", "--json"); code != 0 || json.Unmarshal([]byte(out), &stats) != nil ||
			len(stats.Shards) != 4 || len(stats.Today) != 2 || stats.Today[0].Measures["connected"].Users != 2 {
			t.Errorf("top --json: %d, %s, %s", code, out, errs)
		}
		if code, _, errs := command(t, "top", "-s", url, "--once", "--prefix", "other"); code != exitFailed || !strings.Contains(errs, `no ledger answers for the fabric "other"`) {
			t.Errorf("another fabric: %d, %s", code, errs)
		}
		second(t, url, data)
	})
	rows := ledgerSays(t, data, "report", "--by", "user", "--format", "csv")
	if !matches(`(?s)^user,seconds\nann,\d.*\nbob,\d`, rows) {
		t.Errorf("%q", rows)
	}
}

// second starts another ledger of the same shards by mistake, outside the group.
func second(t *testing.T, url, data string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	out, errs, ended := newOutput(), newOutput(), make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"ledger", "run", "-s", url, "--dir", data, "--every", "6s", "--shard", "0"}, console{out, errs})
	}()
	out.await(t, "ledger .* runs on")
	errs.await(t, "another ledger follows this shard")
	stop()
	if code := <-ended; code != 0 {
		t.Errorf("ledger run: %d, %s", code, errs)
	}
}

// Without a ledger there is none, and whoever asks is told.
func TestUpWithoutALedger(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	says := upSays(t, "--data", data, "--no-ledger")
	url := regexp.MustCompile(`nats://\S+`).FindString(says)
	if !matches(`ledger +off`, says) {
		t.Error(says)
	}
	begun := time.Now()
	if code, _, errs := command(t, "top", "-s", url); code != exitFailed || !strings.Contains(errs, "no ledger answers") || time.Since(begun) > answerTimeout/2 {
		t.Errorf("top: %d, %s", code, errs)
	}
	if code, _, errs := command(t, "ledger", "report", "--dir", data); code != exitFailed || !strings.Contains(errs, "no ledger in") {
		t.Errorf("report: %d, %s", code, errs)
	}
}

func TestLedgerRunRefuses(t *testing.T) {
	dir := t.TempDir()
	for args, says := range map[string]string{
		"--zone Nowhere":                     "Nowhere",
		"--every 0s":                         "--every",
		"--store mysql://x":                  "mysql",
		"--definition " + writeTrace(t, "a"): "trace.csv",
	} {
		args := append([]string{"ledger", "run", "--dir", dir, "-s", up(t, "--data", t.TempDir(), "--no-ledger")}, strings.Fields(args)...)
		if code, _, errs := command(t, args...); code != exitUsage || !strings.Contains(errs, says) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: %d, %q", args, code, errs)
		}
	}
}

// A store under whose version other rules are known ends the ledger: its figures would
// be others than their name says.
func TestLedgerRunUnderARedefinedVersion(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	url := up(t, "--data", data, "--no-ledger")
	file := writeTrace(t, "version: '1'\ngap_cap: 2m\n")
	s, err := store.Open(t.Context(), filepath.Join(data, "ledger.db"))
	if err != nil {
		t.Fatal(err)
	}
	d, err := readDefinition(writeTrace(t, "version: '1'\n"))
	if err == nil {
		err = s.Define(t.Context(), d)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if code, _, errs := command(t, "ledger", "run", "-s", url, "--dir", data, "--definition", file); code != exitUsage || !strings.Contains(errs, "names another definition") {
		t.Errorf("%d, %s", code, errs)
	}
}

func TestCrop(t *testing.T) {
	text := "abcdef\nüüüüü\nx\ny\n"
	for _, c := range []struct {
		width, height int
		want          string
	}{{80, 24, text}, {3, 24, "abc\nüüü\nx\ny\n"}, {80, 3, "abcdef\nüüüüü\n"}, {3, 1, "abc\n"}} {
		if got := crop(text, c.width, c.height); got != c.want {
			t.Errorf("%dx%d: %q", c.width, c.height, got)
		}
	}
}

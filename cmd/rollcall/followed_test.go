package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The pages say where a fabric listens by default; here many listen at a time.
const (
	pagesNATS    = "nats://nats.example.org"
	pagesMetrics = "127.0.0.1:9600"
)

// newFollower is somebody in an empty directory whose command rollcall is this test; see
// TestMain. Servers that it starts take what ports are free.
func newFollower(t *testing.T) *follower {
	t.Helper()
	f := &follower{dir: t.TempDir(), bin: t.TempDir()}
	f.install(t, "rollcall", fmt.Sprintf(`case $1 in
up) set -- "$@" --listen 127.0.0.1:0 --websocket 127.0.0.1:0 --http 127.0.0.1:0 --data "another-$$" ;;
board) set -- "$@" --listen 127.0.0.1:0 ;;
esac
%s=$(printf '%%s\n' "$@") exec %s`, childArgs, os.Args[0]))
	f.install(t, "curl", fmt.Sprintf(`test "$1" = -s && %s=$2 exec %s`, childGets, os.Args[0]))
	return f
}

func (f *follower) install(t *testing.T, name, script string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(f.bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
}

// What these pages show is what happens on a fabric that was just started, for
// troubleshooting with ann on her phone.
func TestFollowedPages(t *testing.T) {
	metrics := regexp.MustCompile(`metrics +http://([^/\s]+)`)
	for name, prepare := range map[string]string{
		"quick-start.md": "", "bounds.md": "", "privacy.md": "", "worker-groups.md": "", "natsgate.md": "", "board.md": "",
		"troubleshooting.md": `printf 't,user,device,edge,event\n0,ann,phone,gateway-1,open\n' > ann.csv
			rollcall replay ann.csv --settle 1m > /dev/null 2>&1 &
			until rollcall who --viewer me ann > /dev/null 2>&1; do sleep 0.1; done`,
	} {
		t.Run(name, func(t *testing.T) {
			path := docsPage(t, name)
			f := newFollower(t)
			welcome := upSays(t, "--data", filepath.Join(f.dir, "rollcall-data"), "--metrics", "127.0.0.1:0")
			t.Setenv("NATS_URL", natsURL(welcome))
			f.here = strings.NewReplacer(pagesNATS, natsURL(welcome), pagesMetrics, metrics.FindStringSubmatch(welcome)[1])
			f.run(t, prepare)
			f.follow(t, path, false)
		})
	}
}

// What docs/running.md shows is what happens on a NATS system of somebody else.
func TestRunningPage(t *testing.T) {
	path := docsPage(t, "running.md")
	f := newFollower(t)
	url, system, operator := foreign(t)
	t.Setenv("ROLLCALL_KEYS", "rollcall-data/keys")
	for name, path := range map[string]string{"sys.creds": system, "operator.nk": operator} {
		if err := os.Rename(path, filepath.Join(f.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	f.here = strings.NewReplacer(pagesNATS, url)
	f.follow(t, path, false)
}

// docsPage is the path of a page, wherever one goes.
func docsPage(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../../docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

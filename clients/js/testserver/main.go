// Command testserver runs a whole fabric for the tests of a client that is not written
// in Go: server, keeper, fanout and an edge in one process, steered by lines on
// standard input.
//
// It says in its first line of output, as JSON, where it listens, and answers every
// line with {"ok":true} or {"error":"…"}. A line is a command and its arguments, each
// percent-encoded:
//
//	connect USER DEVICE        the device connects, in the foreground
//	state USER DEVICE STATE    active, idle or background
//	close USER DEVICE          the device says goodbye
//	status USER AVAILABILITY TEXT
//	                           available, away, dnd or invisible; TEXT may be left out
//	block USER VIEWER          the viewer sees nothing of the user any more
//	unblock USER VIEWER
//	stop PART, start PART      of server, keeper and fanout
//	token TTL ROLE ID…         a credential, as its parts and as a file, in place of true
//
// It ends with standard input.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/rollcall-io/rollcall"
)

func main() {
	page := flag.String("page", "", "directory that is served over HTTP; none if empty")
	debounce := flag.Duration("debounce", time.Second, "how long a user without devices is shown as before")
	outage := flag.Duration("outage", rollcall.Tight().Outage, "silence of a keeper after which views turn unknown")
	flag.Parse()
	params := rollcall.Tight()
	params.Debounce, params.Outage = *debounce, *outage
	if err := run(context.Background(), *page, params, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "testserver:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, page string, params rollcall.Params, in io.Reader, out io.Writer) error {
	dir, err := os.MkdirTemp("", "rollcall-testserver-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s, err := startStage(ctx, dir, page, params)
	if err != nil {
		return err
	}
	defer s.stop()
	answers := json.NewEncoder(out)
	if err := answers.Encode(s.addresses()); err != nil {
		return err
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		done, err := s.obey(ctx, lines.Text())
		answer := map[string]any{"ok": done}
		if err != nil {
			answer = map[string]any{"error": err.Error()}
		}
		if err := answers.Encode(answer); err != nil {
			return err
		}
	}
	return lines.Err()
}

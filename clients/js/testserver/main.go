// Command testserver runs a whole fabric for the tests of a client that is not written
// in Go: server, keeper, fanout, an edge and a gateway in one process, steered by lines
// on standard input.
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
//	stop PART, start PART      of server, keeper, fanout and gateway
//	token TTL ROLE ID…         a credential, as its parts and as a file, in place of true
//	bearer TTL USER            a token for the gateway, in place of true
//	count OP                   how often the gateway was asked for it, in place of true
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
	page := flag.String("page", "", "directory that is served over HTTP, beside the gateway; none if empty")
	preset := flag.String("preset", "tight", "timing of devices")
	hurry := flag.Int("hurry", 1, "by how much their heartbeats and timeouts are shorter than that")
	idle := flag.Duration("idle", time.Minute, "how long without input until a device is idle")
	debounce := flag.Duration("debounce", time.Second, "how long a user without devices is shown as before")
	outage := flag.Duration("outage", rollcall.Tight().Outage, "silence of a keeper after which views turn unknown")
	flag.Parse()
	params, err := paramsOf(*preset, *hurry)
	if err == nil {
		params.Debounce, params.Outage = *debounce, *outage
		err = run(context.Background(), *page, params, *idle, os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testserver:", err)
		os.Exit(1)
	}
}

// paramsOf makes the hearts beat faster than in a preset, and leaves the rest to one that
// checks often.
func paramsOf(preset string, hurry int) (rollcall.Params, error) {
	hearts, err := rollcall.Preset(preset)
	p := rollcall.Tight()
	p.Heartbeat, p.IdleTimeout = hearts.Heartbeat/time.Duration(hurry), hearts.IdleTimeout/time.Duration(hurry)
	return p, err
}

func run(ctx context.Context, page string, params rollcall.Params, idle time.Duration, in io.Reader, out io.Writer) error {
	dir, err := os.MkdirTemp("", "rollcall-testserver-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s, err := startStage(ctx, dir, page, params, idle)
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

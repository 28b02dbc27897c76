package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall/internal/lab"
)

const gatewayPage = "../../docs/gateway.md"

// A reader does what docs/gateway.md says. curl and wscat are played, because not every
// machine has them.
type reader struct {
	t      *testing.T
	site   string
	vars   map[string]string
	said   string // by the last command
	socket *lab.Socket
}

// TestGatewayPage runs every command of the page against a fabric; what it answers has
// the fields, codes and statuses that the page shows.
func TestGatewayPage(t *testing.T) {
	welcome := upSays(t)
	page, err := os.ReadFile(gatewayPage)
	if err != nil {
		t.Fatal(err)
	}
	r := &reader{t: t, site: regexp.MustCompile(`HTTP +http://([^/\s]+)`).FindStringSubmatch(welcome)[1], vars: map[string]string{}}
	ran := 0
	for _, b := range blocksOf(strings.Split(string(page), "\n")) {
		if !slices.Equal(b.words, []string{"console"}) {
			continue
		}
		for n, line := range b.lines {
			switch {
			case strings.HasPrefix(line, "$ "):
				r.run(strings.TrimPrefix(line, "$ "))
				ran++
			case strings.HasPrefix(line, "> "):
				if err := r.socket.Say(strings.TrimPrefix(line, "> ")); err != nil {
					t.Fatal(err)
				}
				if r.said, err = r.socket.Hear(); err != nil {
					t.Fatal(err)
				}
			default:
				r.compare(b.first+n+1, strings.TrimPrefix(line, "< "))
			}
		}
	}
	if ran < 10 {
		t.Errorf("%d commands were found", ran)
	}
}

var (
	variable   = regexp.MustCompile(`^([A-Z]+)=(.*)$`)
	minted     = regexp.MustCompile(`^\$\(rollcall (.*)\)$`)
	word       = regexp.MustCompile(`'[^']*'|"(?:[^"\\]|\\.)*"|\S+`)
	reference  = regexp.MustCompile(`\$[A-Z]+`)
	sessionIDs = regexp.MustCompile(`^"sessionId":.*,"sessionEpoch":\d+$`)
)

// words of a line, as a shell takes them.
func (r *reader) words(line string) []string {
	var all []string
	for _, w := range word.FindAllString(line, -1) {
		switch w[0] {
		case '\'':
			w = strings.Trim(w, `'`)
		case '"':
			w = strings.ReplaceAll(w[1:len(w)-1], `\"`, `"`)
			fallthrough
		default:
			w = reference.ReplaceAllStringFunc(w, func(name string) string { return r.vars[name[1:]] })
		}
		all = append(all, w)
	}
	return all
}

func (r *reader) run(line string) {
	r.t.Helper()
	if m := variable.FindStringSubmatch(line); m != nil {
		r.set(m[1], m[2])
		return
	}
	words := r.words(line)
	switch words[0] {
	case "curl":
		r.curl(words[1:])
	case "wscat":
		r.wscat(words[1:])
	default:
		r.t.Fatalf("no idea how to run %s", line)
	}
}

// set sets a variable: to a token, or to what names the session that was opened last,
// which in the page is that of whoever wrote it.
func (r *reader) set(name, value string) {
	r.t.Helper()
	if m := minted.FindStringSubmatch(value); m != nil {
		code, out, errs := command(r.t, strings.Fields(m[1])...)
		if code != 0 {
			r.t.Fatal(errs)
		}
		r.vars[name] = strings.TrimSpace(out)
		return
	}
	if !sessionIDs.MatchString(strings.Trim(value, `'`)) {
		r.t.Fatalf("%s=%s", name, value)
	}
	var opened struct {
		SessionID    string
		SessionEpoch int64
	}
	if err := json.Unmarshal([]byte(r.said), &opened); err != nil {
		r.t.Fatal(err)
	}
	r.vars[name] = fmt.Sprintf(`"sessionId":%q,"sessionEpoch":%d`, opened.SessionID, opened.SessionEpoch)
}

const documented = "127.0.0.1:8080"

func (r *reader) curl(words []string) {
	r.t.Helper()
	request, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, "http://"+r.site, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	for len(words) > 0 {
		w := words[0]
		words = words[1:]
		switch {
		case w == "-s":
		case w == "-H":
			name, value, _ := strings.Cut(words[0], ": ")
			request.Header.Set(name, value)
			words = words[1:]
		case w == "-d":
			request.Method, request.Body = http.MethodPost, io.NopCloser(strings.NewReader(words[0]))
			request.Header.Set("Content-Type", "application/x-www-form-urlencoded") // as curl does
			words = words[1:]
		default:
			at := strings.Replace(w, documented, r.site, 1)
			if request.URL, err = request.URL.Parse(at); err != nil {
				r.t.Fatal(err)
			}
		}
	}
	// The fabric needs a moment until others see what a device has said.
	for wait := time.Millisecond; ; wait *= 2 {
		got, err := http.DefaultClient.Do(request)
		if err != nil {
			r.t.Fatal(err)
		}
		body, err := io.ReadAll(got.Body)
		got.Body.Close()
		if err != nil {
			r.t.Fatal(err)
		}
		r.said = strings.TrimSpace(string(body))
		if !strings.HasSuffix(request.URL.Path, "/users/zoe/presence") || strings.Contains(r.said, `"chess"`) || wait > time.Second {
			return
		}
		select {
		case <-time.After(wait):
		case <-r.t.Context().Done():
		}
	}
}

func (r *reader) wscat(words []string) {
	r.t.Helper()
	header := http.Header{}
	at := ""
	for i := 0; i+1 < len(words); i += 2 {
		switch words[i] {
		case "-c":
			at = strings.Replace(words[i+1], documented, r.site, 1)
		case "-H":
			name, value, _ := strings.Cut(words[i+1], ": ")
			header.Set(name, value)
		}
	}
	var err error
	if r.socket, err = lab.DialSocket(r.t.Context(), at, header); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { r.socket.Close() })
}

// compare holds what was said against what the page shows.
func (r *reader) compare(line int, shown string) {
	r.t.Helper()
	var want, got map[string]any
	if err := json.Unmarshal([]byte(shown), &want); err != nil {
		r.t.Fatalf("line %d: %v", line, err)
	}
	if err := json.Unmarshal([]byte(r.said), &got); err != nil {
		r.t.Fatalf("line %d: %s: %v", line, r.said, err)
	}
	if !slices.Equal(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got))) {
		r.t.Errorf("line %d: the page shows %s, it is %s", line, shown, r.said)
	}
	for _, field := range []string{"op", "id", "status", "state", "activity", "target", "heartbeatIntervalMs", "idleThresholdMs", "idleTimeoutMs", "error"} {
		if fmt.Sprint(want[field]) != fmt.Sprint(got[field]) {
			r.t.Errorf("line %d: %s is %v in the page, and is %v", line, field, want[field], got[field])
		}
	}
}

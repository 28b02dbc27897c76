package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/internal/retry"
)

// output is a writer that a test can read while a command writes.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{}
}

func newOutput() *output { return &output{more: make(chan struct{}, 1)} }

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.more <- struct{}{}:
	default:
	}
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// await waits until the output matches and returns the first group.
func (o *output) await(t *testing.T, pattern string) string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		if m := re.FindStringSubmatch(o.String()); m != nil {
			return m[len(m)-1]
		}
		select {
		case <-o.more:
		case <-ctx.Done():
			t.Fatalf("no %q in:\n%s", pattern, o)
		}
	}
}

// command runs one command line to its end.
func command(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	out, err := newOutput(), newOutput()
	code = run(t.Context(), args, console{out, err})
	return code, out.String(), err.String()
}

// up starts a fabric on free ports, in a directory of its own if none is named, and returns its address.
func up(t *testing.T, args ...string) (url string) {
	t.Helper()
	if !slices.Contains(args, "--data") {
		args = append(args, "--data", t.TempDir())
	}
	return natsURL(upSays(t, args...))
}

// natsURL is the address in what a fabric says.
func natsURL(welcome string) string { return regexp.MustCompile(`nats://\S+`).FindString(welcome) }

// upSays starts a fabric and returns its welcome. Commands find its keys.
func upSays(t *testing.T, args ...string) string {
	t.Helper()
	if i := slices.Index(args, "--data"); i >= 0 {
		t.Setenv("ROLLCALL_KEYS", filepath.Join(args[i+1], "keys"))
	}
	ctx, cancel := context.WithCancel(context.Background())
	out, errs, ended := newOutput(), newOutput(), make(chan int, 1)
	args = append([]string{"up", "--listen", "127.0.0.1:0", "--websocket", "127.0.0.1:0", "--http", "127.0.0.1:0"}, args...)
	go func() { ended <- run(ctx, args, console{out, errs}) }()
	t.Cleanup(func() {
		cancel()
		if code := <-ended; code != 0 {
			t.Errorf("up ended with %d: %s", code, errs)
		}
	})
	return out.await(t, `(?s).*Ctrl-C`)
}

const smallTrace = `t,user,device,edge,event
0,ann,d1,g1,open
0,bob,d2,g1,open
1,bob,d2,g1,close
2,ann,d1,g2,open
`

func writeTrace(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trace.csv")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestFirstMinutes goes a newcomer's way: start, look, replay, look again, restart.
func TestFirstMinutes(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	trace := writeTrace(t, smallTrace)
	t.Run("first start", func(t *testing.T) {
		url := up(t, "--data", data, "--set", "debounce=1")
		if code, out, errs := command(t, "who", "-s", url, "ann"); code != 1 || out != "" || !strings.Contains(errs, "nothing is known of ann") {
			t.Errorf("who, before anybody came: %d, %q, %q", code, out, errs)
		}
		watched := newOutput()
		watching := make(chan int, 1)
		go func() {
			watching <- run(t.Context(), []string{"watch", "-s", url, "--viewer", "me", "--json", "--for", "7s", "ann", "bob"}, console{watched, newOutput()})
		}()
		out := filepath.Join(t.TempDir(), "published.csv")
		code, _, errs := command(t, "replay", "-s", url, trace, "--settle", "3s", "--published", out)
		if code != 0 || !strings.Contains(errs, "played 4 events") {
			t.Errorf("replay: %d, %s", code, errs)
		}
		checkPublished(t, out)
		if code := <-watching; code != 0 {
			t.Errorf("watch: %d", code)
		}
		checkWatched(t, watched.String())
	})
	t.Run("second start", func(t *testing.T) {
		url := up(t, "--data", data, "--set", "debounce=1")
		code, out, errs := command(t, "who", "-s", url, "bob", "ann")
		if lines := strings.Split(out, "\n"); code != 0 || len(lines) != 3 || !regexp.MustCompile(`^bob +offline +last seen \d`).MatchString(lines[0]) {
			t.Errorf("who, after a restart: %d, %q, %q", code, out, errs)
		}
	})
}

func checkPublished(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`^t,user,status,version\n`, `(?m)^0\.\d+,ann,online,\d+$`, `(?m)^2\.\d+,bob,offline,\d+$`} {
		if !regexp.MustCompile(want).Match(b) {
			t.Errorf("no %s in\n%s", want, b)
		}
	}
}

func checkWatched(t *testing.T, text string) {
	t.Helper()
	var bob []string
	for line := range strings.Lines(text) {
		var s shown
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		if s.Target == "bob" {
			bob = append(bob, string(s.Status))
		}
	}
	if got := strings.Join(bob, " "); got != "online offline" {
		t.Errorf("bob was %s", got)
	}
}

func TestUpKeepsTheTimingUnlessAsked(t *testing.T) {
	data := t.TempDir()
	for _, start := range []struct{ args, within string }{
		{"--preset worker", "0 s"}, {"", "0 s"}, {"--set debounce=5", "5 s"}, {"", "5 s"}, {"--preset default", "20 s"},
	} {
		t.Run("up "+start.args, func(t *testing.T) {
			out := upSays(t, append([]string{"--data", data}, strings.Fields(start.args)...)...)
			if !strings.Contains(out, "after a close within "+start.within+",") {
				t.Errorf("%s", out)
			}
		})
	}
}

func TestUpRefusesASecondOnTheSameData(t *testing.T) {
	data := t.TempDir()
	up(t, "--data", data)
	code, _, errs := command(t, "up", "--data", data, "--listen", "127.0.0.1:0", "--websocket", "off", "--http", "off")
	if code != exitFailed || !strings.Contains(errs, "in use") {
		t.Errorf("%d, %s", code, errs)
	}
}

func TestUpRefusesTheWideWorld(t *testing.T) {
	code, _, errs := command(t, "up", "--data", t.TempDir(), "--listen", "0.0.0.0:0", "--websocket", "off", "--http", "off")
	if code != exitUsage || !strings.Contains(errs, "loopback") {
		t.Errorf("%d, %s", code, errs)
	}
}

func TestMistakesGetOneClearLine(t *testing.T) {
	trace := writeTrace(t, "t,user,device,edge,event\n5,ann,d,g,open\n3,ann,d,g,close\n")
	nobody := "nats://127.0.0.1:1"
	for _, tc := range []struct {
		args string
		code int
		says string
	}{
		{"bounds --set lease_ttl=50", exitUsage, "lease_ttl 50s is not above the longest renewal 1m6s"},
		{"bounds --set nonsense=1", exitUsage, `no parameter "nonsense"`},
		{"bounds --set lease_ttl", exitUsage, "not NAME=VALUE"},
		{"bounds --preset weird", exitUsage, `--preset: unknown preset "weird" (known: default, tight, mobile, worker)`},
		{"policy block x", exitUsage, "`rollcall policy block --help` explains"},
		{"who --tls-cert " + trace + " ann", exitUsage, "--tls-cert and --tls-key belong together"},
		{"who --viewer " + strings.Repeat("v", 129) + " ann", exitUsage, "rollcall: --viewer: invalid id"},
		{"up --prefix a.b", exitUsage, "prefix"},
		{"up --data " + filepath.Join(t.TempDir(), "d") + " --origin your.site", exitUsage, `origin "your.site" is not like`},
		{"up --set idle_timeout=20", exitUsage, "idle_timeout"},
		{"nonsense", exitUsage, "nonsense"},
		{"who", exitUsage, "user"},
		{"who -s " + nobody + " ann", exitFailed, "no server at " + nobody},
		{"watch -s " + nobody + " ann", exitUsage, "viewer"},
		{"replay -s " + nobody + " " + trace, exitUsage, "line 3: rows must be in order"},
		{"replay -s " + nobody + " nowhere.csv", exitUsage, "nowhere.csv"},
		{"replay --speed 0 " + trace, exitUsage, "--speed"},
		{"replay -s " + nobody + " " + writeTrace(t, ""), exitUsage, "empty"},
		{"replay -s " + nobody + " " + writeTrace(t, "a,b\n"), exitUsage, `not "a,b"`},
		{"replay -s " + nobody + " " + writeTrace(t, smallTrace+"1700000000,ann,d1,g1,open\n"), exitUsage, "t counts from the start"},
		{"who --context nowhere ann", exitFailed, "nowhere"},
	} {
		code, out, errs := command(t, strings.Fields(tc.args)...)
		if code != tc.code || !strings.Contains(errs, tc.says) || out != "" {
			t.Errorf("rollcall %s: exit %d, want %d; %q does not say %q; stdout %q", tc.args, code, tc.code, errs, tc.says, out)
		}
		if strings.Count(errs, "\n") != 1 {
			t.Errorf("rollcall %s: not one line: %q", tc.args, errs)
		}
	}
}

func TestBounds(t *testing.T) {
	code, out, errs := command(t, "bounds", "--json", "--preset", "tight")
	var table struct{ Bounds, Earliest map[string]float64 }
	if err := json.Unmarshal([]byte(out), &table); err != nil || code != 0 || errs != "" {
		t.Fatalf("%d, %v, %s", code, err, errs)
	}
	if b := table.Bounds; b["close"] != 20 || b["half_open"] != 96 || b["edge_crash"] != 171 || table.Earliest["half_open"] != 65 {
		t.Errorf("%+v", table)
	}
	code, out, errs = command(t, "bounds", "--set", "lease_ttl=110")
	if code != 0 || !strings.Contains(errs, "warning: lease_ttl") || !strings.Contains(out, "135 s") {
		t.Errorf("%d, %s, %s", code, out, errs)
	}
}

func TestHelpTellsEveryCommand(t *testing.T) {
	for _, args := range []string{"--help", "up --help", "who --help", "watch --help", "replay --help", "bounds --help", "bench --help",
		"token --help", "token edge --help", "token revoke --help", "init --help", "keeper --help", "fanout --help"} {
		if code, out, errs := command(t, strings.Fields(args)...); code != 0 || !strings.Contains(out, "Usage: rollcall") || errs != "" {
			t.Errorf("%s: %d, %s, %s", args, code, out, errs)
		}
	}
	for _, args := range []string{"help", "help policy block"} {
		if code, out, errs := command(t, strings.Fields(args)...); code != 0 || !strings.Contains(out, "Usage: rollcall") || errs != "" {
			t.Errorf("%s: %d, %s, %s", args, code, out, errs)
		}
	}
	if code, out, _ := command(t); code != 0 || !strings.Contains(out, "Commands:") {
		t.Errorf("without arguments: %d, %s", code, out)
	}
}

// Where the fabric has its default data directory, no command needs to be told of keys.
func TestKeysAreFoundWhereTheFabricRuns(t *testing.T) {
	t.Chdir(t.TempDir())
	says := upSays(t, "--set", "debounce=1")
	if strings.Contains(says, "--keys") {
		t.Errorf("told of keys: %s", says)
	}
	url := regexp.MustCompile(`nats://\S+`).FindString(says)
	if code, _, errs := command(t, "replay", "-s", url, writeTrace(t, smallTrace), "--settle", "2s"); code != 0 {
		t.Errorf("replay: %d, %s", code, errs)
	}
	if code, out, errs := command(t, "who", "-s", url, "bob"); code != 0 || !strings.Contains(out, "bob  offline") {
		t.Errorf("who: %d, %q, %s", code, out, errs)
	}
	t.Chdir(t.TempDir()) // elsewhere there are none
	if code, _, errs := command(t, "who", "-s", url, "bob"); code != exitFailed || !strings.Contains(errs, "there are no keys in ") {
		t.Errorf("without keys: %d, %s", code, errs)
	}
}

// An interrupted replay leaves nobody online behind, and does not look like success.
func TestReplayInterrupted(t *testing.T) {
	url := up(t, "--data", t.TempDir(), "--set", "debounce=1")
	trace := writeTrace(t, smallTrace+"1000,ann,d1,g1,open\n")
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	errs, ended := newOutput(), make(chan int, 1)
	watched := newOutput()
	go run(t.Context(), []string{"watch", "-s", url, "--viewer", "me", "--for", "20s", "ann"}, console{watched, newOutput()})
	go func() { ended <- run(ctx, []string{"replay", "-s", url, trace}, console{newOutput(), errs}) }()
	watched.await(t, "ann +online")
	interrupt()
	if code := <-ended; code != exitInterrupted || !strings.Contains(errs.String(), "of 5 events") {
		t.Errorf("%d, %s", code, errs)
	}
	watched.await(t, "ann +offline")
}

func TestTwoReplaysOfOneTrace(t *testing.T) {
	url := up(t, "--data", t.TempDir())
	trace := writeTrace(t, smallTrace+"1000,ann,d1,g1,open\n")
	first, ended := newOutput(), make(chan int, 1)
	watched := newOutput()
	go run(t.Context(), []string{"watch", "-s", url, "--viewer", "me", "--for", "20s", "ann"}, console{watched, newOutput()})
	go func() { ended <- run(t.Context(), []string{"replay", "-s", url, trace}, console{newOutput(), first}) }()
	watched.await(t, "ann +online")
	ctx, stop := context.WithCancel(t.Context())
	second := make(chan int, 1)
	go func() { second <- run(ctx, []string{"replay", "-s", url, trace}, console{newOutput(), newOutput()}) }()
	if code := <-ended; code != exitFailed || !strings.Contains(first.String(), "replaced by another process") {
		t.Errorf("%d, %s", code, first)
	}
	stop()
	<-second
}

func TestWatchSaysThatNobodyAnswers(t *testing.T) {
	url := up(t, "--data", t.TempDir())
	code, _, errs := command(t, "watch", "-s", url, "--viewer", "me", "--prefix", "other", "--for", "1s", "ann")
	if code != exitFailed || !strings.Contains(errs, `no fanout answers for the fabric "other"`) {
		t.Errorf("%d, %s", code, errs)
	}
}

func TestMetricsOfUp(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	out, errs, ended := newOutput(), newOutput(), make(chan int, 1)
	args := []string{"up", "--data", t.TempDir(), "--listen", "127.0.0.1:0", "--websocket", "off", "--http", "127.0.0.1:0", "--metrics", "127.0.0.1:0",
		"--summary", "50ms", "--log-format", "json"}
	go func() { ended <- run(ctx, args, console{out, errs}) }()
	url := out.await(t, `metrics +(http://\S+)`)
	code, body := page(t, url)
	if code != http.StatusOK {
		t.Errorf("metrics: %d", code)
	}
	for _, want := range []string{
		`rollcall_keeper_detection_bound_seconds{way="half_open"} 100`, "rollcall_keeper_false_offlines_total 0", "rollcall_fanout_events_total 0",
	} {
		if !strings.Contains(string(body), want) {
			t.Errorf("no %s in\n%s", want, body)
		}
	}
	for _, want := range []string{`"part":"keeper","online":0`, `"part":"fanout","streams":0`, `"part":"ledger","online_users":0`} {
		errs.await(t, `\{"time":"[^"]+","level":"INFO","msg":"summary",`+want)
	}
	front := out.await(t, `HTTP +(http://[^/\s]+)`)
	for _, at := range []string{strings.Replace(url, "metrics", "healthz", 1), strings.Replace(url, "metrics", "readyz", 1), front + "/healthz", front + "/readyz"} {
		code, body := page(t, at)
		for waited := true; waited && code == http.StatusServiceUnavailable; code, body = page(t, at) {
			waited = retry.Pause(t.Context(), 10*time.Millisecond) // some part is still being started
		}
		if code != http.StatusOK || body != "keeper ok\nfanout ok\nledger ok\ngateway ok\nnatsgate ok\n" {
			t.Errorf("%s: %d %q", at, code, body)
		}
	}
	stop()
	if code := <-ended; code != 0 {
		t.Errorf("up ended with %d", code)
	}
	if code, _, errs := command(t, "up", "--data", t.TempDir(), "--listen", "127.0.0.1:0", "--websocket", "off", "--http", "off", "--metrics", "0.0.0.0:0"); code != exitUsage || !strings.Contains(errs, "loopback") {
		t.Errorf("%d, %s", code, errs)
	}
}

func page(t *testing.T, url string) (code int, body string) {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(b)
}

// A start that is refused leaves nothing behind, least of all keys.
func TestUpRefusedMakesNothing(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	cert, _ := lab.NewCA(t).Issue("server")
	for _, tc := range []struct {
		args string
		code int
		says string
	}{
		{"--listen nonsense", exitUsage, "nonsense"},
		{"--listen 127.0.0.1:99999", exitUsage, "port must be"},
		{"--listen 127.0.0.1:0 --websocket 0.0.0.0:0", exitUsage, "loopback"},
		{"--listen 127.0.0.1:0 --websocket off --tls-cert " + cert, exitUsage, "both a certificate and its key"},
		{"--listen 127.0.0.1:0 --websocket off --metrics 0.0.0.0:0", exitUsage, "loopback"},
		{"--listen " + taken.Addr().String() + " --websocket off", exitFailed, "--listen and --websocket name other addresses"},
		{"--listen 127.0.0.1:0 --websocket " + taken.Addr().String(), exitFailed, "is another server running?"},
		{"--listen 127.0.0.1:0 --websocket off --metrics " + taken.Addr().String(), exitFailed, "--metrics names another"},
	} {
		data := filepath.Join(t.TempDir(), "data")
		code, out, errs := command(t, append([]string{"up", "--data", data, "--http", "off"}, strings.Fields(tc.args)...)...)
		if code != tc.code || out != "" || !strings.Contains(errs, tc.says) || strings.Count(errs, "\n") != 1 || strings.Contains(errs, "natsd") {
			t.Errorf("up %s: %d, want %d; %q does not say %q", tc.args, code, tc.code, errs, tc.says)
		}
		if _, err := os.Stat(data); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("up %s left %s behind: %v", tc.args, data, err)
		}
	}
}

// Pages may connect only from origins that were named; up says so, also when one is refused.
func TestUpSaysWhichPagesMayConnect(t *testing.T) {
	if says := upSays(t, "--data", t.TempDir()); !regexp.MustCompile(`ws://\S+ \(pages: the board; --origin URL`).MatchString(says) || strings.Contains(says, sample) {
		t.Error(says)
	}
	t.Chdir(filepath.Join("..", "..")) // where the sample is
	ctx, stop := context.WithCancel(t.Context())
	out, errs, ended := newOutput(), newOutput(), make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"up", "--data", t.TempDir(), "--listen", "127.0.0.1:0", "--websocket", "127.0.0.1:0", "--http", "127.0.0.1:0", "--origin", "https://your.site"}, console{out, errs})
	}()
	address := out.await(t, `ws://(\S+) \(pages of https://your\.site\)`)
	out.await(t, `175 s until whoever .*--settle(?s:.*)`+regexp.QuoteMeta(sample)+` --speed 600`)
	for origin, want := range map[string]int{"https://your.site": http.StatusSwitchingProtocols, "https://other.site": http.StatusForbidden} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{
			"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==", "Origin": origin,
		} {
			request.Header.Set(name, value)
		}
		response, err := http.DefaultTransport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%s: %s", origin, response.Status)
		}
	}
	errs.await(t, "a page is refused; --origin URL")
	stop()
	<-ended
}

func TestPlainErrors(t *testing.T) {
	for text, want := range map[string]string{
		"usage: rollcall: invalid id: x":                          "invalid id: x",
		"keydir: damaged: stat f":                                 "damaged: stat f",
		"refuses (nats: Authorization Violation); and":            "refuses (Authorization Violation); and",
		`edge "g1": edge: replaced`:                               `edge "g1": replaced`,
		"usage: t.csv: line 3: edge: rollcall: invalid id":        "t.csv: line 3: edge: invalid id",
		"the keeper has ended: keeper: rollcall: shard not owned": "the keeper has ended: shard not owned",
	} {
		if got := plain(errors.New(text)); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func TestInitPrintsInOneOrder(t *testing.T) {
	lines := []string{"keys k", "account A", "signing key of role edge", "signing key of role viewer", "bucket b_2", "bucket b_10", "stream S_0", "every stream and bucket"}
	out := newOutput()
	l := newTally(out, false)
	for i := range lines {
		l.note(lines[(i*3+5)%len(lines)], "made")
	}
	l.print()
	if got, want := out.String(), "made  "+strings.Join(lines, "\nmade  ")+"\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

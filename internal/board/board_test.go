package board_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall/e2e"
	"github.com/rollcall-io/rollcall/internal/board"
	"github.com/rollcall-io/rollcall/internal/lab"
)

func newBoard(t *testing.T, cfg board.Config) *board.Board {
	t.Helper()
	b, err := board.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// get asks on loopback, as a page of the board does, for as long as the context says.
func get(ctx context.Context, b http.Handler, path string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, "GET", "http://127.0.0.1:8080"+path, nil)
	w := httptest.NewRecorder()
	b.ServeHTTP(w, r)
	return w
}

// watch follows a stream for a while, and decodes what it said.
func watch[T any](t *testing.T, b http.Handler, path string, d time.Duration) (all []T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	w := get(ctx, b, path)
	if kind := w.Header().Get("Content-Type"); w.Code != http.StatusOK || kind != "text/event-stream" {
		t.Fatalf("%d, %s: %s", w.Code, kind, w.Body)
	}
	lines := bufio.NewScanner(w.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if data, is := strings.CutPrefix(lines.Text(), "data: "); is {
			var one T
			if err := json.Unmarshal([]byte(data), &one); err != nil {
				t.Fatalf("%v: %s", err, data)
			}
			all = append(all, one)
		}
	}
	return all
}

// Somebody says goodbye: the board shows how late that was published, to the millisecond,
// and who held what.
func TestFigures(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		f := e2e.New(t, e2e.Options{Shards: 2})
		f.StartKeeper()
		f.StartFanout()
		g1 := f.StartEdge("g1")
		f.Connect(g1, "ada", "phone")
		eve := f.Connect(g1, "eve", "phone")
		f.At(30 * time.Second)
		eve.Close()
		f.At(time.Minute)

		b := newBoard(t, board.Config{Conn: lab.Connect(t, f.Server.NewLink()), Loopback: true})
		seen := watch[board.Figures](t, b, "/board/figures", 5*time.Second)
		if len(seen) != 3 {
			t.Fatalf("%d figures in 5 s", len(seen))
		}
		now := seen[0]
		if len(now.Keepers) != 1 {
			t.Fatalf("keepers %+v, missing %v", now.Keepers, now.Missing)
		}
		k := now.Keepers[0]
		online, kept := 0, 0
		for _, s := range k.Shards {
			online, kept = online+s.Online, kept+1
			if !s.Ready {
				t.Errorf("shard %d is not ready", s.Shard)
			}
		}
		if online != 1 || kept != 2 || k.ShardsTotal != 2 || k.Counters["device_flips"] != 3 || k.Counters["changes"] != 3 {
			t.Errorf("keeper %+v", k)
		}
		way := k.Ways[0]
		if way.Way != "close" || way.Count != 1 || way.Min != 20_000 || way.Max != 20_000 || way.Latest != 20_000 || way.Early+way.Late != 0 {
			t.Errorf("a goodbye %+v", way)
		}
		if len(now.Edges) != 1 || now.Edges[0].Edge != "g1" || now.Edges[0].Leases == 0 || now.Edges[0].Oldest > f.Params.LongestRenewal().Milliseconds() {
			t.Errorf("edges %+v", now.Edges)
		}
		for _, s := range now.Shards {
			if s.Owners["keeper"].Generation == 0 || s.Owners["fanout"].Name == "" {
				t.Errorf("shard %+v", s)
			}
		}
		if len(now.Missing) != 1 || !strings.HasPrefix(now.Missing[0], "ledger:") {
			t.Errorf("missing %v", now.Missing)
		}
	})
}

// What does not answer is missing, and the rest is there.
func TestFiguresWithoutAKeeper(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		f := e2e.New(t, e2e.Options{Shards: 1})
		b := newBoard(t, board.Config{Conn: lab.Connect(t, f.Server.NewLink()), Loopback: true})
		now := watch[board.Figures](t, b, "/board/figures", time.Second)[0]
		if !slices.ContainsFunc(now.Missing, func(s string) bool { return strings.HasPrefix(s, "keepers:") }) || len(now.Shards) != 1 {
			t.Errorf("%+v", now)
		}
	})
}

func TestNoFabric(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		b := newBoard(t, board.Config{Conn: lab.Connect(t, lab.NewServer(t).NewLink()), Loopback: true})
		for _, path := range []string{"/board/figures", "/board/people"} {
			if w := get(t.Context(), b, path); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), `"unavailable"`) {
				t.Errorf("%s: %d %s", path, w.Code, w.Body)
			}
		}
	})
}

// Names come and go with their users, the debounce included.
func TestPeople(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		f := e2e.New(t, e2e.Options{Shards: 2})
		f.StartKeeper()
		g1 := f.StartEdge("g1")
		f.Connect(g1, "ada", "phone")
		eve := f.Connect(g1, "eve", "phone")
		f.At(10 * time.Second)
		eve.Close()
		b := newBoard(t, board.Config{Conn: lab.Connect(t, f.Server.NewLink()), Loopback: true})
		time.AfterFunc(5*time.Second, func() { f.Connect(g1, "bob", "phone") })
		type people struct {
			Came, Left []string
			Online     int
		}
		var came, left []string
		var last people
		for _, p := range watch[people](t, b, "/board/people", 40*time.Second) {
			came, left, last = append(came, p.Came...), append(left, p.Left...), p
		}
		slices.Sort(came)
		if !slices.Equal(came, []string{"ada", "bob", "eve"}) || !slices.Equal(left, []string{"eve"}) || last.Online != 2 {
			t.Errorf("came %v, left %v, at last %+v", came, left, last)
		}
	})
}

// A page of another site gets nothing, whatever it tries.
func TestWhoMayAsk(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		nc := lab.Connect(t, lab.NewServer(t).NewLink())
		var signedIn []string
		signIn := func(_ context.Context, user string) (board.Grant, error) {
			signedIn = append(signedIn, user)
			return board.Grant{User: user, Viewer: "a credential"}, nil
		}
		open := newBoard(t, board.Config{Conn: nc, Loopback: true, SignIn: signIn})
		closed := newBoard(t, board.Config{Conn: nc, OperatorToken: "0123456789abcdef"})
		for name, c := range map[string]struct {
			board  http.Handler
			method string
			url    string
			header [][2]string
			body   string
			want   int
		}{
			"the page":                {open, "GET", "http://127.0.0.1:8080/", nil, "", 200},
			"the page as localhost":   {open, "GET", "http://localhost:8080/", nil, "", 200},
			"the page as [::1]":       {open, "GET", "http://[::1]:8080/", nil, "", 200},
			"a rebound name":          {open, "GET", "http://evil.example:8080/", nil, "", 403},
			"a name that begins so":   {open, "GET", "http://127.0.0.1.evil.example/", nil, "", 403},
			"a link from elsewhere":   {open, "GET", "http://127.0.0.1:8080/", [][2]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Mode", "navigate"}}, "", 200},
			"a link to figures":       {open, "GET", "http://127.0.0.1:8080/board/figures", [][2]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Mode", "navigate"}}, "", 403},
			"a script from elsewhere": {open, "GET", "http://127.0.0.1:8080/board/config", [][2]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Mode", "no-cors"}}, "", 403},
			"another port's page":     {open, "POST", "http://127.0.0.1:8080/board/sign-in", [][2]string{{"Origin", "http://127.0.0.1:9999"}, {"Content-Type", "application/json"}}, `{"user":"ada"}`, 403},
			"another site":            {open, "POST", "http://127.0.0.1:8080/board/sign-in", [][2]string{{"Origin", "http://evil.example"}, {"Content-Type", "application/json"}}, `{"user":"ada"}`, 403},
			"no origin at all":        {open, "POST", "http://127.0.0.1:8080/board/sign-in", [][2]string{{"Origin", "null"}, {"Content-Type", "application/json"}}, `{"user":"ada"}`, 403},
			"a form":                  {open, "POST", "http://127.0.0.1:8080/board/sign-in", [][2]string{{"Content-Type", "text/plain"}}, `{"user":"ada"}`, 415},
			"nobody":                  {open, "POST", "http://127.0.0.1:8080/board/sign-in", [][2]string{{"Content-Type", "application/json"}}, `{}`, 400},
			"garbage":                 {open, "POST", "http://127.0.0.1:8080/board/sign-in", [][2]string{{"Content-Type", "application/json"}}, `{`, 400},
			"too much":                {open, "POST", "http://127.0.0.1:8080/board/sign-in", [][2]string{{"Content-Type", "application/json"}}, `{"user":"` + strings.Repeat("a", 5000) + `"}`, 400},
			"the own page":            {open, "POST", "http://127.0.0.1:8080/board/sign-in", [][2]string{{"Origin", "http://127.0.0.1:8080"}, {"Content-Type", "application/json; charset=utf-8"}}, `{"user":"ada"}`, 200},
			"no sign-in there":        {closed, "POST", "http://board.example/board/sign-in", [][2]string{{"Content-Type", "application/json"}}, `{"user":"ada"}`, 404},
			"no token":                {closed, "GET", "http://board.example/board/figures", nil, "", 401},
			"another token":           {closed, "GET", "http://board.example/board/people", [][2]string{{"Authorization", "Bearer 0123456789abcdeF"}}, "", 401},
			"the token":               {closed, "GET", "http://board.example/board/figures", [][2]string{{"Authorization", "Bearer 0123456789abcdef"}}, "", 503}, // no fabric
			"what is not there":       {open, "GET", "http://127.0.0.1:8080/board.go", nil, "", 404},
			"no ledger":               {open, "GET", "http://127.0.0.1:8080/board/timeline?user=ada", nil, "", 404},
		} {
			r := httptest.NewRequest(c.method, c.url, strings.NewReader(c.body))
			for _, h := range c.header {
				r.Header.Set(h[0], h[1])
			}
			w := httptest.NewRecorder()
			c.board.ServeHTTP(w, r)
			if w.Code != c.want {
				t.Errorf("%s: %d, want %d: %s", name, w.Code, c.want, w.Body)
			}
			if !strings.Contains(w.Header().Get("Content-Security-Policy"), "default-src 'none'; script-src 'self'") {
				t.Errorf("%s: without a policy", name)
			}
		}
		if !slices.Equal(signedIn, []string{"ada"}) {
			t.Errorf("signed in: %v", signedIn)
		}
	})
}

func TestConfig(t *testing.T) {
	signIn := func(context.Context, string) (board.Grant, error) { return board.Grant{}, nil }
	for name, cfg := range map[string]board.Config{
		"no connection":                {Loopback: true},
		"a sign-in for everybody":      {Conn: new(nats.Conn), SignIn: signIn, OperatorToken: "0123456789abcdef"},
		"figures for everybody":        {Conn: new(nats.Conn)},
		"a URL that widens the policy": {Conn: new(nats.Conn), Loopback: true, WebSocket: "wss://a.example; script-src *"},
		"a prefix that is none":        {Conn: new(nats.Conn), Loopback: true, Prefix: "Ä"},
	} {
		if _, err := board.New(cfg); !errors.Is(err, board.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

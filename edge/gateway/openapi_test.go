package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"pgregory.net/rapid"

	"github.com/rollcall-io/rollcall/docs"
	"github.com/rollcall-io/rollcall/edge/door"
	"github.com/rollcall-io/rollcall/edge/gateway"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/subjects"
)

// A contract holds every answer against the document.
type contract struct {
	t      *testing.T
	doc    *openapi3.T
	router routers.Router
	inner  http.RoundTripper
	seen   map[string]bool // "operation status", and codes
}

func newContract(t *testing.T) *contract {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(docs.OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(context.Background()); err != nil {
		t.Fatal(err)
	}
	router, err := gorillamux.NewRouter(doc)
	if err != nil {
		t.Fatal(err)
	}
	return &contract{t: t, doc: doc, router: router, seen: make(map[string]bool)}
}

// input is a request as the document sees it; nil if it has no such operation.
func (c *contract) input(r *http.Request, body []byte) *openapi3filter.RequestValidationInput {
	asked := r.Clone(context.Background())
	asked.URL.Host, asked.URL.Scheme, asked.Body = "", "", io.NopCloser(bytes.NewReader(body))
	if len(body) > 0 && asked.Header.Get("Content-Type") == "" {
		asked.Header.Set("Content-Type", "application/json")
	}
	route, params, err := c.router.FindRoute(asked)
	if err != nil {
		return nil
	}
	return &openapi3filter.RequestValidationInput{
		Request: asked, PathParams: params, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true},
	}
}

func (c *contract) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	got, err := c.inner.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(got.Body)
	if err != nil {
		return nil, err
	}
	got.Body = io.NopCloser(bytes.NewReader(text))
	c.check(r, body, got, text)
	return got, nil
}

func (c *contract) check(r *http.Request, body []byte, got *http.Response, text []byte) {
	c.t.Helper()
	var refusal struct {
		Error struct{ Code subjects.DeviceCode }
	}
	if got.StatusCode >= 400 {
		if err := json.Unmarshal(text, &refusal); err != nil || !slices.Contains(subjects.DeviceCodes[:], refusal.Error.Code) {
			c.t.Errorf("%s %s: %d %s", r.Method, r.URL, got.StatusCode, text)
		}
		c.seen[string(refusal.Error.Code)] = true
	}
	named := r
	if got.StatusCode == http.StatusMethodNotAllowed { // it is an answer of the operation that is there
		named = r.Clone(context.Background())
		named.Method = strings.TrimSuffix(got.Header.Get("Allow"), ", OPTIONS")
	}
	in := c.input(named, body)
	switch {
	case r.Method == http.MethodOptions: // of browsers, before a request
		return
	case in == nil:
		if got.StatusCode != http.StatusNotFound {
			c.t.Errorf("%s %s is not in the document: %d %s", r.Method, r.URL, got.StatusCode, text)
		}
		return
	}
	c.seen[fmt.Sprintf("%s %d", in.Route.Operation.OperationID, got.StatusCode)] = true
	err := openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: got.StatusCode, Header: got.Header, Body: io.NopCloser(bytes.NewReader(text)), Options: in.Options,
	})
	if err != nil {
		c.t.Errorf("%s %s: %d %s: %v", r.Method, r.URL, got.StatusCode, text, err)
	}
	if got.StatusCode < 300 && got.StatusCode != http.StatusSwitchingProtocols {
		if err := openapi3filter.ValidateRequest(context.Background(), in); err != nil {
			c.t.Errorf("%s %s %s was accepted: %v", r.Method, r.URL, body, err)
		}
	}
}

// Everything that the document says of answers happens, and nothing else does.
func TestDocumentedAnswers(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t, func(d *door.Config, g *gateway.Config) {
			d.MaxDevices, d.MaxSessions, d.Rate, d.Burst = 20, 3, 1, 40
			g.AddressRate, g.AddressBurst, g.MaxSockets = 1, 200, 1
		})
		c := newContract(t)
		c.inner, s.client.Transport = s.client.Transport, c

		var routes []string
		for path, item := range c.doc.Paths.Map() {
			for method := range item.Operations() {
				routes = append(routes, method+" "+strings.TrimPrefix(path, "/"))
			}
		}
		slices.Sort(routes)
		if served := s.gateway.Routes(); !slices.Equal(routes, slices.Sorted(slices.Values(served))) {
			t.Errorf("documented %v, served %v", routes, served)
		}

		token := s.token("ann")
		body := `{"device":"phone","foreground":true,"active":true,"activity":"chess","client":{"type":"web","version":"1"},"session":"s","unknown":{"x":[]}}`
		ops := []string{"session", "heartbeat", "state", "close"}
		session := named(s.post("session", token, body).body)
		good := map[string]string{
			"session": body, "heartbeat": session + `,"seq":1,"foreground":true,"unknown":1}`, "state": session + `,"foreground":true,"active":false,"unknown":1}`,
			"close": session + `,"reason":"goodbye","unknown":1}`,
		}
		socketHeader := []string{"Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version", "13"}
		for _, op := range ops {
			s.post(op, token, `{"device":7,"seq":"x"`)                                                            // 400
			s.post(op, "", good[op])                                                                              // 401
			s.do(http.MethodPost, gateway.Root+"presence/"+op, token, good[op], "Origin", "https://evil.example") // 403
			s.do(http.MethodGet, gateway.Root+"presence/"+op, token, "")                                          // 405
			s.post(op, token, strings.Repeat(" ", 5000))                                                          // 413
		}
		s.post("session", s.token("ann", "device", "laptop"), body) // 403, another reason
		for _, op := range ops[1:] {
			s.post(op, token, good[op])
			s.post(op, s.token("bob"), good[op]) // 410
		}
		for range 3 {
			s.post("session", s.token("bob"), body)
			s.post("session", s.token("carl"), strings.Replace(body, "phone", "tablet", 1)) // 503 in the end
			s.post("session", s.token("dora"), strings.Replace(body, "phone", "tablet", 1))
		}
		see := gateway.Root + "users/"
		for _, target := range []string{"bob", "carl", "nobody", "down", "broken", strings.Repeat("x", 129)} {
			s.do(http.MethodGet, see+target+"/presence", token, "")
		}
		s.do(http.MethodGet, see+"bob/presence", "", "")
		s.do(http.MethodGet, see+"bob/presence", token, "", "Origin", "https://evil.example")
		s.do(http.MethodDelete, see+"bob/presence", token, "")
		at := gateway.Root + "presence/socket"
		s.do(http.MethodGet, at, token, "", socketHeader[4:]...)
		s.do(http.MethodGet, at, "x", "", socketHeader...)
		s.do(http.MethodGet, at, token, "", append(socketHeader, "Origin", "https://evil.example")...)
		s.do(http.MethodPost, at, token, "", socketHeader...)
		if _, err := s.dial(token); err != nil {
			t.Error(err)
		}
		c.seen["socket 101"] = true                          // which the client of sockets has read
		s.do(http.MethodGet, at, token, "", socketHeader...) // 503
		document := s.do(http.MethodGet, gateway.Root+"openapi.yaml", "", "")
		if document.text != string(docs.OpenAPI) {
			t.Error("the document is not served as it is")
		}
		s.do(http.MethodGet, gateway.Root+"openapi.yaml", "", "", "Origin", "https://evil.example")
		s.do(http.MethodPost, gateway.Root+"openapi.yaml", "", "")
		s.do(http.MethodGet, gateway.Root+"else", "", "")
		for s.do(http.MethodGet, gateway.Root+"openapi.yaml", "", "").status != http.StatusTooManyRequests {
		}
		for _, op := range ops {
			s.post(op, token, good[op])
		}
		s.do(http.MethodGet, see+"bob/presence", token, "")
		s.do(http.MethodGet, at, token, "", socketHeader...)

		var documented []string
		for _, item := range c.doc.Paths.Map() {
			for _, operation := range item.Operations() {
				for status := range operation.Responses.Map() {
					documented = append(documented, operation.OperationID+" "+status)
				}
			}
		}
		for _, what := range documented {
			if !c.seen[what] {
				t.Errorf("documented, and never seen: %s", what)
			}
		}
		for _, code := range subjects.DeviceCodes {
			if !c.seen[string(code)] {
				t.Errorf("never seen: %s", code)
			}
		}
		codes := c.doc.Components.Schemas["Refusal"].Value.Properties["error"].Value.Properties["code"].Value.Enum
		if len(codes) != len(subjects.DeviceCodes) {
			t.Errorf("documented codes %v", codes)
		}
		for _, code := range codes {
			if !slices.Contains(subjects.DeviceCodes[:], subjects.DeviceCode(code.(string))) {
				t.Errorf("documented code %v", code)
			}
		}
	})
}

// Whatever body comes, the schema and the gateway agree on whether it is one.
func TestDocumentedRequests(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t, func(d *door.Config, g *gateway.Config) {
			d.Rate, d.Burst, d.MaxDevices = 1_000_000, 1_000_000, 1_000_000
			g.AddressRate, g.AddressBurst = 1_000_000, 1_000_000
		})
		c := newContract(t)
		values := map[string][]string{
			"device": {`"d"`, `"` + strings.Repeat("d", 128) + `"`, `"` + strings.Repeat("d", 129) + `"`, `""`, `7`, `{}`}, "foreground": {"true", "false", "1", `"x"`}, "active": {"true", "false", "[]"},
			"activity": {`"chess"`, `""`, `"` + strings.Repeat("a", 64) + `"`, `"` + strings.Repeat("a", 65) + `"`, "7"}, "session": {`"s"`, `""`, `"` + strings.Repeat("s", 129) + `"`, "[]"},
			"client": {"{}", `{"type":"web","other":7}`, `{"version":"` + strings.Repeat("v", 64) + `"}`, `{"version":"` + strings.Repeat("v", 65) + `"}`, `{"region":7}`, `{"later":null}`, `"web"`, "[]"},
			"seq":    {"1", "2", "4294967294", "0", "-1", "4294967295", "1.5", `"1"`}, "reason": {`"goodbye"`, `"logout"`, `""`, `"fire"`, "7"}, "token": {`"x"`, "7"},
			"sessionId": {`"AAAAAAAAAAAAAAAAAAAAAA"`, `""`, "7"}, "sessionEpoch": {"1", "1796131341072625", "0", `"1"`, "1.5"}, "later": {"null", "[1]", `{"seq":"x"}`},
		}
		for name := range values {
			values[name] = append(values[name], "null")
		}
		values["client"] = append(values["client"], `{"type":null}`)
		fields := map[string][]string{
			"session":   {"device", "foreground", "active", "activity", "session", "client", "token", "later"},
			"heartbeat": {"sessionId", "sessionEpoch", "seq", "foreground", "active", "activity", "later"},
			"state":     {"sessionId", "sessionEpoch", "foreground", "active", "activity", "later"},
			"close":     {"sessionId", "sessionEpoch", "reason", "token", "later"},
		}
		ops := slices.Sorted(maps.Keys(fields))
		verdicts := map[bool]int{}
		agree := func(t rapid.TB, op, body string) {
			a := s.post(op, s.token("ann"), body)
			request, err := http.NewRequest(http.MethodPost, gateway.Root+"presence/"+op, nil)
			if err != nil {
				t.Fatal(err)
			}
			in := c.input(request, []byte(body))
			want := openapi3filter.ValidateRequest(context.Background(), in) == nil
			if !strings.HasPrefix(body, "{") || !json.Valid([]byte(body)) {
				want = false
			}
			verdicts[want]++
			if got := a.status != http.StatusBadRequest; got != want || a.status >= 500 {
				t.Fatalf("%s %s: %d %s; the document says %v", op, body, a.status, a.text, want)
			}
		}
		// Every value of every field, in a body that is good otherwise.
		for _, op := range ops {
			for _, odd := range fields[op] {
				for _, value := range values[odd] {
					var members []string
					for _, name := range fields[op] {
						if name != odd {
							members = append(members, fmt.Sprintf("%q:%s", name, values[name][0]))
						}
					}
					agree(t, op, "{"+strings.Join(append(members, fmt.Sprintf("%q:%s", odd, value)), ",")+"}")
				}
			}
		}
		rapid.Check(struct{ testing.TB }{t}, func(r *rapid.T) { // without a deadline, which a bubble has not
			op := rapid.SampledFrom(ops).Draw(r, "op")
			var members []string
			for _, name := range fields[op] {
				if rapid.IntRange(0, 9).Draw(r, "without "+name) == 0 {
					continue
				}
				value := values[name][0]
				if rapid.IntRange(0, 5).Draw(r, "odd "+name) == 0 {
					value = rapid.SampledFrom(values[name]).Draw(r, name)
				}
				members = append(members, fmt.Sprintf("%q:%s", name, value))
			}
			body := "{" + strings.Join(members, ",") + "}"
			if rapid.IntRange(0, 30).Draw(r, "else") == 0 {
				body = rapid.SampledFrom([]string{"", "[]", "null", "7", `"x"`, "{", "{}{}", "\xff"}).Draw(r, "body")
			}
			agree(r, op, body)
		})
		if verdicts[true] == 0 || verdicts[false] == 0 {
			t.Errorf("one verdict only: %v", verdicts)
		}
		time.Sleep(time.Minute)
	})
}

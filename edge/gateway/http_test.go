package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall/edge/door"
	"github.com/rollcall-io/rollcall/edge/gateway"
	"github.com/rollcall-io/rollcall/internal/lab"
)

// A session over HTTP, from its beginning to its end.
func TestASessionOverHTTP(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t)
		token := s.token("ann")
		opened := s.post("session", token, `{"device":"phone","foreground":true,"active":true,"activity":"chess","session":"s1","client":{"type":"ios"},"later":1}`)
		if opened.status != http.StatusOK || opened.body["heartbeatIntervalMs"] != 30_000.0 || opened.body["idleTimeoutMs"] != 75_000.0 || opened.body["idleThresholdMs"] != 300_000.0 {
			t.Fatalf("%d %s", opened.status, opened.text)
		}
		if id := opened.body["sessionId"].(string); len(id) != 22 {
			t.Errorf("the id %q can be guessed", id)
		}
		session := named(opened.body)
		for seq := range 10 {
			next := opened.body["nextHeartbeatInMs"].(float64)
			if next < 27_000 || next > 30_000 {
				t.Fatalf("the next heartbeat in %v ms", next)
			}
			time.Sleep(time.Duration(next) * time.Millisecond)
			opened = s.post("heartbeat", token, fmt.Sprintf(`%s,"seq":%d}`, session, seq+1))
			if at := time.Now().UTC().Format("2006-01-02T15:04:05.000Z"); opened.status != http.StatusOK || opened.body["serverTime"] != at {
				t.Fatalf("heartbeat %d: %d %s, it is %s", seq, opened.status, opened.text, at)
			}
		}
		if a := s.post("state", token, session+`,"foreground":false,"active":false}`); a.status != http.StatusOK || a.body["nextHeartbeatInMs"] == nil {
			t.Errorf("state: %d %s", a.status, a.text)
		}
		if a := s.post("close", token, session+`,"reason":"logout"}`); a.status != http.StatusOK || a.body["nextHeartbeatInMs"] != nil {
			t.Errorf("close: %d %s", a.status, a.text)
		}
		for _, op := range []string{"heartbeat", "state", "close"} {
			if a := s.post(op, token, session+`,"seq":99,"foreground":true,"active":true}`); a.status != http.StatusGone || a.code() != "UNREGISTERED" {
				t.Errorf("%s behind the close: %d %s", op, a.status, a.text)
			}
		}
		if n := s.door.Sessions(); n != 0 || s.door.Node().Stats().Connections != 0 {
			t.Errorf("%d sessions, %+v", n, s.door.Node().Stats())
		}
	})
}

// A heartbeat that is late, or comes twice, is answered like any other and changes nothing.
func TestLateHeartbeats(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t)
		token, session := s.token("ann"), s.open("ann", "phone")
		beat := func(rest string) answer { return s.post("heartbeat", token, session+`,`+rest+`}`) }
		beat(`"seq":5,"foreground":true,"active":false`)
		for _, late := range []string{`"seq":5`, `"seq":4,"foreground":false`, `"seq":1`} {
			if a := beat(late); a.status != http.StatusOK || a.body["nextHeartbeatInMs"] == nil {
				t.Errorf("%s: %d %s", late, a.status, a.text)
			}
		}
		// Only those that are no sign of life come now: the session dies of them.
		for range 4 {
			time.Sleep(20 * time.Second)
			beat(`"seq":5`)
		}
		if a := beat(`"seq":5`); a.code() != "UNREGISTERED" {
			t.Errorf("duplicates kept it alive: %d %s", a.status, a.text)
		}
		if a := beat(`"seq":6`); a.code() != "UNREGISTERED" {
			t.Errorf("%d %s", a.status, a.text)
		}
	})
}

// Whoever is silent too long is not registered any more, and comes back at once.
func TestSilenceOverHTTP(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t)
		token, session := s.token("ann"), s.open("ann", "phone")
		time.Sleep(74 * time.Second)
		if a := s.post("state", token, session+`,"foreground":true,"active":true}`); a.status != http.StatusOK { // a sign of life too
			t.Errorf("%d %s", a.status, a.text)
		}
		time.Sleep(74 * time.Second)
		if a := s.post("heartbeat", token, session+`,"seq":1}`); a.status != http.StatusOK {
			t.Errorf("%d %s", a.status, a.text)
		}
		time.Sleep(77 * time.Second)
		if a := s.post("heartbeat", token, session+`,"seq":2}`); a.status != http.StatusGone {
			t.Errorf("%d %s", a.status, a.text)
		}
		again := s.open("ann", "phone")
		if a := s.post("heartbeat", token, again+`,"seq":1}`); a.status != http.StatusOK {
			t.Errorf("%d %s", a.status, a.text)
		}
	})
}

// The newest session of a device is the one that counts.
func TestTheNewestSessionCounts(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t)
		token := s.token("ann")
		first := s.open("ann", "phone")
		second := s.open("ann", "phone")
		other := s.open("ann", "laptop")
		s.open("bob", "phone")
		time.Sleep(time.Second)
		for session, want := range map[string]int{first: http.StatusGone, second: http.StatusOK, other: http.StatusOK} {
			if a := s.post("heartbeat", token, session+`,"seq":1}`); a.status != want {
				t.Errorf("%d %s", a.status, a.text)
			}
		}
		if n := s.door.Sessions(); n != 3 {
			t.Errorf("%d sessions", n)
		}
	})
}

// Nobody uses the session of another, whatever of it is known.
func TestSessionsOfOthers(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t)
		session := s.open("ann", "phone")
		epoch, id, _ := strings.Cut(session, ",")
		for name, c := range map[string]struct{ token, session string }{
			"another user's":          {s.token("bob"), session},
			"another device's":        {s.token("ann", "device", "laptop"), session},
			"another epoch":           {s.token("ann"), `{"sessionEpoch":1,` + id},
			"another id":              {s.token("ann"), epoch + `,"sessionId":"AAAAAAAAAAAAAAAAAAAAAA"`},
			"an id without a meaning": {s.token("ann"), epoch + `,"sessionId":"\u0000"`},
		} {
			for _, op := range []string{"heartbeat", "state", "close"} {
				if a := s.post(op, c.token, c.session+`,"seq":9,"foreground":false,"active":false}`); a.status != http.StatusGone || a.code() != "UNREGISTERED" {
					t.Errorf("%s, %s: %d %s", name, op, a.status, a.text)
				}
			}
		}
		if a := s.post("heartbeat", s.token("ann", "device", "phone"), session+`,"seq":1}`); a.status != http.StatusOK {
			t.Errorf("the owner: %d %s", a.status, a.text)
		}
		if a := s.post("session", s.token("ann", "device", "phone"), `{"device":"laptop","foreground":true,"active":true}`); a.status != http.StatusForbidden || a.code() != "FORBIDDEN" {
			t.Errorf("another device: %d %s", a.status, a.text)
		}
	})
}

func TestTokensOverHTTP(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t)
		body := `{"device":"phone","foreground":true,"active":true}`
		for name, token := range map[string]string{
			"none": "", "garbage": "x", "expired": s.token("ann", "exp", time.Now().Add(-time.Hour).Unix()), "nobody's": s.token(""),
		} {
			a := s.post("session", token, body)
			if a.status != http.StatusUnauthorized || a.code() != "UNAUTHENTICATED" || a.header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s: %d %s", name, a.status, a.text)
			}
		}
		if a := s.do(http.MethodPost, gateway.Root+"presence/session", "", body, "Authorization", "Basic YTpi"); a.code() != "UNAUTHENTICATED" {
			t.Errorf("another scheme: %s", a.text)
		}
		// A page that goes sends a beacon, which has no header; nothing else takes a token in
		// the body.
		session := s.open("ann", "phone")
		if a := s.post("heartbeat", "", session+`,"seq":1,"token":"`+s.token("ann")+`"}`); a.code() != "UNAUTHENTICATED" {
			t.Errorf("a token in the body of a heartbeat: %s", a.text)
		}
		if a := s.do(http.MethodPost, gateway.Root+"presence/close", "", session+`,"token":"`+s.token("bob")+`"}`); a.code() != "UNREGISTERED" {
			t.Errorf("another's token in a beacon: %s", a.text)
		}
		if a := s.do(http.MethodPost, gateway.Root+"presence/close", "", session+`,"token":"`+s.token("ann")+`"}`, "Content-Type", "text/plain;charset=UTF-8"); a.status != http.StatusOK {
			t.Errorf("a beacon: %d %s", a.status, a.text)
		}
	})
}

func TestWhatIsNoRequest(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t)
		token, session := s.token("ann"), s.open("ann", "phone")
		for _, c := range []struct {
			op, body string
			status   int
			code     string
		}{
			{"session", ``, 400, "INVALID"}, {"session", `{`, 400, "INVALID"}, {"session", `[]`, 400, "INVALID"}, {"session", `{}{}`, 400, "INVALID"},
			{"session", `{"device":"d","foreground":1,"active":true}`, 400, "INVALID"},
			{"session", `{"device":"` + strings.Repeat("d", 200) + `","foreground":true,"active":true}`, 400, "INVALID"},
			{"session", `{"device":"` + strings.Repeat("d", 5000) + `"}`, 413, "TOO_LARGE"},
			{"heartbeat", session + `}`, 400, "INVALID"}, {"heartbeat", `{"seq":1}`, 400, "INVALID"}, {"heartbeat", session + `,"seq":"1"}`, 400, "INVALID"},
			{"state", session + `,"active":true}`, 400, "INVALID"}, {"close", session + `,"reason":"x"}`, 400, "INVALID"},
			{"close", `{`, 400, "INVALID"}, {"else", `{}`, 404, "NOT_FOUND"}, {"session/", `{}`, 404, "NOT_FOUND"},
		} {
			a := s.post(c.op, token, c.body)
			if a.status != c.status || a.code() != c.code {
				t.Errorf("%s %.60s: %d %s", c.op, c.body, a.status, a.text)
			}
		}
		for path, method := range map[string]string{"presence/session": http.MethodGet, "presence/close": http.MethodDelete, "users/bob/presence": http.MethodPost} {
			a := s.do(method, gateway.Root+path, token, `{}`)
			if a.status != http.StatusMethodNotAllowed || a.code() != "METHOD_NOT_ALLOWED" || a.header.Get("Allow") == "" {
				t.Errorf("%s %s: %d %s", method, path, a.status, a.text)
			}
		}
		if a := s.do(http.MethodGet, gateway.Root+"presence/socket", token, ""); a.status != http.StatusBadRequest || a.code() != "INVALID" {
			t.Errorf("a socket that does not want to be one: %d %s", a.status, a.text)
		}
	})
}

// What may not be seen looks like what does not exist.
func TestSeeing(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t)
		see := func(target string) answer {
			return s.do(http.MethodGet, gateway.Root+"users/"+target+"/presence", s.token("ann"), "")
		}
		if a := see("bob"); a.status != http.StatusOK || a.body["status"] != "online" || a.body["state"] != "idle" || a.body["text"] != "seen by ann" || a.body["version"] != 7.0 || a.body["serverTime"] == nil {
			t.Errorf("%d %s", a.status, a.text)
		}
		if a := see("carl"); a.body["status"] != "unknown" || a.body["reason"] != "keeper_silent" {
			t.Errorf("%d %s", a.status, a.text)
		}
		for _, target := range []string{"dora", "a%2Fb", "%20"} {
			if a := see(target); a.status != http.StatusOK || len(a.body) != 2 || a.body["status"] != nil {
				t.Errorf("%s: %d %s", target, a.status, a.text)
			}
		}
		if a := see("down"); a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") != "1" {
			t.Errorf("%d %s", a.status, a.text)
		}
		if a := see(strings.Repeat("x", 129)); a.status != http.StatusBadRequest {
			t.Errorf("%d %s", a.status, a.text)
		}
		if a := s.do(http.MethodGet, gateway.Root+"users/bob/presence", "", ""); a.status != http.StatusUnauthorized {
			t.Errorf("%d %s", a.status, a.text)
		}
	})
}

func TestOrigins(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t, func(_ *door.Config, g *gateway.Config) { g.Origins = []string{"https://chat.example/"} })
		at, body := gateway.Root+"presence/session", `{"device":"phone","foreground":true,"active":true}`
		for origin, let := range map[string]bool{
			"https://chat.example": true, "http://" + host: true, "https://" + host: true, "http://chat.example": false, "https://chat.example:444": false,
			"https://evil.example": false, "null": false, "https://chat.example.evil.example": false,
		} {
			a := s.do(http.MethodPost, at, s.token("ann"), body, "Origin", origin)
			if got := a.status == http.StatusOK; got != let || !let && a.code() != "FORBIDDEN" {
				t.Errorf("%s: %d %s", origin, a.status, a.text)
			}
			if cross := a.header.Get("Access-Control-Allow-Origin"); (cross == origin) != (origin == "https://chat.example") {
				t.Errorf("%s: lets %q read it", origin, cross)
			}
			socket, err := s.dial(s.token("ann"), "Origin", origin)
			if (err == nil) != let {
				t.Errorf("%s: socket %v", origin, err)
			}
			if err == nil {
				socket.Close()
			}
		}
		before := s.do(http.MethodOptions, at, "", "", "Origin", "https://chat.example", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization")
		if h := before.header; before.status != http.StatusNoContent || !strings.Contains(h.Get("Access-Control-Allow-Headers"), "Authorization") || !strings.Contains(h.Get("Access-Control-Allow-Methods"), "POST") {
			t.Errorf("%d %v", before.status, h)
		}
		if a := s.do(http.MethodOptions, at, "", "", "Origin", "https://evil.example"); a.status != http.StatusForbidden {
			t.Errorf("%d %s", a.status, a.text)
		}
	})
}

func TestLimits(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t, func(d *door.Config, g *gateway.Config) {
			d.MaxDevices, d.MaxSessions, d.Rate, d.Burst = 2, 4, 1, 10
			g.AddressRate, g.AddressBurst, g.MaxSockets = 10, 30, 1
		})
		open := func(user, device string) answer {
			return s.post("session", s.token(user), `{"device":"`+device+`","foreground":true,"active":true}`)
		}
		open("ann", "1")
		open("ann", "2")
		if a := open("ann", "3"); a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") != "5" {
			t.Errorf("a third device: %d %s", a.status, a.text)
		}
		open("bob", "1")
		open("bob", "2")
		if a := open("carl", "1"); a.status != http.StatusServiceUnavailable || a.code() != "UNAVAILABLE" || a.header.Get("Retry-After") == "" {
			t.Errorf("a fifth session: %d %s", a.status, a.text)
		}
		for range 9 {
			s.do(http.MethodGet, gateway.Root+"users/bob/presence", s.token("dora"), "")
		}
		if a := s.do(http.MethodGet, gateway.Root+"users/bob/presence", s.token("dora"), ""); a.status != http.StatusOK {
			t.Errorf("the tenth: %d %s", a.status, a.text)
		}
		if a := s.do(http.MethodGet, gateway.Root+"users/bob/presence", s.token("dora"), ""); a.status != http.StatusTooManyRequests || a.code() != "RATE_LIMITED" {
			t.Errorf("the eleventh: %d %s", a.status, a.text)
		}
		if a := s.do(http.MethodGet, gateway.Root+"users/bob/presence", s.token("emil"), ""); a.status != http.StatusOK {
			t.Errorf("another user: %d %s", a.status, a.text)
		}
		if _, err := s.dial(s.token("ann")); err != nil {
			t.Errorf("a socket: %v", err)
		}
		if _, err := s.dial(s.token("ann")); err == nil || !strings.Contains(err.Error(), "503") {
			t.Errorf("a second socket: %v", err)
		}
		refused := 0
		for range 30 {
			if a := s.do(http.MethodGet, gateway.Root+"nothing", "", ""); a.status == http.StatusTooManyRequests {
				refused++
			}
		}
		if refused == 0 {
			t.Error("an address may ask without an end")
		}
		time.Sleep(5 * time.Second)
		if a := s.do(http.MethodGet, gateway.Root+"nothing", "", ""); a.status != http.StatusNotFound {
			t.Errorf("later: %d %s", a.status, a.text)
		}
	})
}

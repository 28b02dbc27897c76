package gateway_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobwas/ws"

	"github.com/rollcall-io/rollcall/edge/door"
	"github.com/rollcall-io/rollcall/edge/gateway"
	"github.com/rollcall-io/rollcall/internal/lab"
)

const opening = `{"op":"open","device":"phone","foreground":true,"active":true}`

// refused is the code in an answer; empty if it is none of a refusal.
func refused(heard map[string]any) string { return answer{body: heard}.code() }

// closedWith waits until a socket ends, and returns the code with which.
func closedWith(t *testing.T, s *lab.Socket) (code int, heard []string) {
	t.Helper()
	for {
		text, err := s.Hear()
		var closed lab.Closed
		switch {
		case errors.As(err, &closed):
			return closed.Code, heard
		case err != nil:
			return 1006, heard
		}
		heard = append(heard, text)
	}
}

func TestASessionOverASocket(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t)
		socket, err := s.dial("")
		s.must(err)
		ask := func(text string) map[string]any {
			t.Helper()
			a, err := socket.Ask(text)
			s.must(err)
			return a
		}
		if a := ask(`{"op":"heartbeat","seq":1,"id":1}`); refused(a) != "UNREGISTERED" || a["op"] != "heartbeat" || a["id"] != 1.0 {
			t.Errorf("%v", a)
		}
		opened := ask(`{"op":"open","id":"first","token":"` + s.token("ann") + `","device":"phone","foreground":true,"active":true}`)
		if opened["op"] != "open" || opened["id"] != "first" || opened["sessionId"] == nil || opened["nextHeartbeatInMs"] == nil {
			t.Fatalf("%v", opened)
		}
		for seq := 1; seq <= 5; seq++ {
			time.Sleep(28 * time.Second)
			if a := ask(fmt.Sprintf(`{"op":"heartbeat","id":%d,"seq":%d}`, seq, seq)); a["id"] != float64(seq) || a["nextHeartbeatInMs"] == nil {
				t.Errorf("%v", a)
			}
		}
		if a := ask(named(opened) + `,"op":"state","foreground":true,"active":false}`); a["op"] != "state" || a["id"] != nil || refused(a) != "" {
			t.Errorf("%v", a)
		}
		// The session is one like any other, also over HTTP: a page that goes sends a beacon.
		if a := s.post("heartbeat", s.token("ann"), named(opened)+`,"seq":9}`); a.status != http.StatusOK {
			t.Errorf("%d %s", a.status, a.text)
		}
		if a := ask(`{"op":"heartbeat","seq":10,"sessionId":"other","sessionEpoch":1}`); refused(a) != "UNREGISTERED" {
			t.Errorf("another session on this socket: %v", a)
		}
		if a := ask(opening); refused(a) != "INVALID" {
			t.Errorf("a second session on this socket: %v", a)
		}
		if a := ask(`{"op":"close","id":7}`); a["op"] != "close" || a["id"] != 7.0 || a["nextHeartbeatInMs"] != nil {
			t.Errorf("%v", a)
		}
		if code, _ := closedWith(t, socket); code != 1000 {
			t.Errorf("closed with %d", code)
		}
		synctest.Wait()
		if s.door.Sessions() != 0 || s.gateway.Sockets() != 0 {
			t.Errorf("%d sessions, %d sockets", s.door.Sessions(), s.gateway.Sockets())
		}
	})
}

// A socket that is gone ends its session at once.
func TestASocketThatIsGone(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t)
		for _, end := range []func(*lab.Socket){
			func(socket *lab.Socket) { socket.Close() },
			func(socket *lab.Socket) {
				socket.Frame(ws.NewCloseFrame(ws.NewCloseFrameBody(ws.StatusGoingAway, "")))
				closedWith(t, socket)
			},
		} {
			socket := s.socket("ann", "phone")
			end(socket)
			synctest.Wait()
			if s.door.Sessions() != 0 || s.gateway.Sockets() != 0 {
				t.Errorf("%d sessions, %d sockets", s.door.Sessions(), s.gateway.Sockets())
			}
		}
	})
}

func TestSupersededAndDead(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t)
		first := s.socket("ann", "phone")
		s.open("ann", "phone")
		if code, heard := closedWith(t, first); code != 4001 || len(heard) != 1 || heard[0] != `{"op":"superseded"}` {
			t.Errorf("%d %v", code, heard)
		}
		began := time.Now()
		silent := s.socket("bob", "phone")
		go func() {
			for range 10 { // inbound life, but no heartbeat
				time.Sleep(9 * time.Second)
				silent.Frame(ws.NewPingFrame([]byte("x")))
			}
		}()
		code, heard := closedWith(t, silent)
		if took := time.Since(began); code != 4002 || heard[len(heard)-1] != `{"op":"dead"}` || took < 75*time.Second || took > 77*time.Second {
			t.Errorf("%d %v after %s", code, heard, took)
		}
		if len(heard) != 9 || heard[0] != "pong x" {
			t.Errorf("%v", heard)
		}
		time.Sleep(20 * time.Second)
		if s.gateway.Sockets() != 0 {
			t.Errorf("%d sockets", s.gateway.Sockets())
		}
	})
}

func TestTokensOverASocket(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t)
		if _, err := s.dial("x"); err == nil || !strings.Contains(err.Error(), "401") {
			t.Errorf("a header with garbage: %v", err)
		}
		socket, err := s.dial("")
		s.must(err)
		for _, token := range []string{"", "x", s.token("ann", "exp", time.Now().Add(-time.Hour).Unix())} {
			if a, err := socket.Ask(strings.TrimSuffix(opening, "}") + `,"token":"` + token + `"}`); err != nil || refused(a) != "UNAUTHENTICATED" {
				t.Errorf("%v, %v", a, err)
			}
		}
		if a, err := socket.Ask(strings.TrimSuffix(opening, "}") + `,"token":"` + s.token("ann", "device", "laptop") + `"}`); err != nil || refused(a) != "FORBIDDEN" {
			t.Errorf("%v, %v", a, err)
		}
		// One that expires ends the socket at the next message.
		brief, err := s.dial(s.token("ann", "exp", time.Now().Add(time.Minute).Unix()))
		s.must(err)
		if a, err := brief.Ask(opening); err != nil || refused(a) != "" {
			t.Fatalf("%v, %v", a, err)
		}
		time.Sleep(28 * time.Second)
		if a, err := brief.Ask(`{"op":"heartbeat","seq":1}`); err != nil || refused(a) != "" {
			t.Errorf("%v, %v", a, err)
		}
		time.Sleep(70 * time.Second)
		if a, err := brief.Ask(`{"op":"heartbeat","seq":2}`); err != nil || refused(a) != "UNAUTHENTICATED" {
			t.Errorf("%v, %v", a, err)
		}
		if code, _ := closedWith(t, brief); code != 1008 {
			t.Errorf("closed with %d", code)
		}
		synctest.Wait()
		if s.door.Sessions() != 0 {
			t.Errorf("%d sessions", s.door.Sessions())
		}
	})
}

// What is no message is answered, or ends the socket with a code that says why.
func TestWhatIsNoMessage(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t)
		socket := s.socket("ann", "phone")
		for text, want := range map[string]string{
			``: "INVALID", `{`: "INVALID", `[]`: "INVALID", `{}`: "INVALID", `{"op":7}`: "INVALID", `{"op":"fly"}`: "NOT_FOUND", `{"op":"superseded"}`: "NOT_FOUND",
			`{"op":"heartbeat"}`: "INVALID", `{"op":"heartbeat","seq":-1}`: "INVALID", `{"op":"state","foreground":1,"active":true}`: "INVALID",
			`{"op":"heartbeat","seq":1,"id":{"a":1}}`: "INVALID", `{"op":"heartbeat","seq":1,"id":"` + strings.Repeat("x", 100) + `"}`: "INVALID",
			`{"op":"close","reason":"x"}`: "INVALID", `{"op":"heartbeat","seq":2,"later":[1,{}],"id":null}`: "",
		} {
			time.Sleep(time.Second)
			if a, err := socket.Ask(text); err != nil || refused(a) != want {
				t.Errorf("%.60s: %v, %v; want %s", text, a, err, want)
			}
		}
		long := []byte(`{"op":"` + strings.Repeat("x", 3000))
		for name, c := range map[string]struct {
			send []ws.Frame
			code int
		}{
			"binary":         {[]ws.Frame{ws.NewBinaryFrame([]byte(opening))}, 1003},
			"too large":      {[]ws.Frame{ws.NewTextFrame(append(long, long...))}, 1009},
			"large in parts": {[]ws.Frame{ws.NewFrame(ws.OpText, false, long), ws.NewFrame(ws.OpContinuation, true, long)}, 1009},
			"not UTF-8":      {[]ws.Frame{ws.NewTextFrame([]byte{'"', 0xff, '"'})}, 1007},
			"no beginning":   {[]ws.Frame{ws.NewFrame(ws.OpContinuation, true, nil)}, 1002},
			"reserved":       {[]ws.Frame{ws.NewFrame(ws.OpCode(3), true, nil)}, 1002},
		} {
			bad, err := s.dial(s.token("bob"))
			s.must(err)
			go func() {
				for _, f := range c.send {
					bad.Frame(f)
				}
			}()
			code, heard := closedWith(t, bad)
			if code != c.code {
				t.Errorf("%s: closed with %d, %v", name, code, heard)
			}
			if c.code == 1009 && (len(heard) != 1 || !strings.Contains(heard[0], "TOO_LARGE")) {
				t.Errorf("%s: %v", name, heard)
			}
		}
		unmasked, err := s.dial(s.token("bob"))
		s.must(err)
		go ws.WriteFrame(unmasked.Conn, ws.NewTextFrame([]byte(opening)))
		if code, _ := closedWith(t, unmasked); code != 1002 {
			t.Errorf("unmasked: closed with %d", code)
		}
		parts, err := s.dial(s.token("bob"))
		s.must(err)
		go func() {
			parts.Frame(ws.NewFrame(ws.OpText, false, []byte(opening[:20])))
			parts.Frame(ws.NewPingFrame([]byte("between")))
			parts.Frame(ws.NewFrame(ws.OpContinuation, true, []byte(opening[20:])))
		}()
		if text, err := parts.Hear(); err != nil || text != "pong between" {
			t.Errorf("%s, %v", text, err)
		}
		if text, err := parts.Hear(); err != nil || !strings.Contains(text, "sessionId") {
			t.Errorf("a message in parts: %s, %v", text, err)
		}
	})
}

// A socket on which nothing is opened is closed.
func TestSocketsThatOpenNothing(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t)
		began := time.Now()
		mute, err := s.dial(s.token("ann"))
		s.must(err)
		if code, _ := closedWith(t, mute); code != 1008 || time.Since(began) != 10*time.Second {
			t.Errorf("closed with %d after %s", code, time.Since(began))
		}
		// Neither by asking for other things nor by a message that never ends is it kept.
		for _, keep := range []func(*lab.Socket){
			func(socket *lab.Socket) { socket.Ask(`{"op":"heartbeat","seq":1}`) },
			func(socket *lab.Socket) { socket.Write([]byte{0x81, 0xfe, 0x0f, 0xff, 1, 2, 3, 4, 'x'}) },
		} {
			began := time.Now()
			socket, err := s.dial(s.token("ann"))
			s.must(err)
			time.Sleep(7 * time.Second)
			keep(socket)
			if code, _ := closedWith(t, socket); code != 1008 || time.Since(began) > 20*time.Second {
				t.Errorf("closed with %d after %s", code, time.Since(began))
			}
		}
	})
}

// Clients that are slow, silent, flood or talk nonsense are cut off, and no well-behaved
// one waits for its answer meanwhile: not a microsecond of virtual time, in which nothing
// but waiting takes time.
func TestTheOthersAreNotDisturbed(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t, func(d *door.Config, g *gateway.Config) { g.AddressRate, g.AddressBurst = 10_000, 10_000 })
		var good sync.WaitGroup
		answered := 0
		var mu sync.Mutex
		for i := range 20 {
			socket := s.socket(fmt.Sprintf("good-%d", i), "phone")
			good.Go(func() {
				for seq := 1; seq <= 10; seq++ {
					time.Sleep(28*time.Second + time.Duration(i)*10*time.Millisecond)
					asked := time.Now()
					a, err := socket.Ask(fmt.Sprintf(`{"op":"heartbeat","seq":%d}`, seq))
					if err != nil || refused(a) != "" || time.Since(asked) != 0 {
						t.Errorf("good-%d, heartbeat %d: %v, %v after %s", i, seq, a, err, time.Since(asked))
						return
					}
					mu.Lock()
					answered++
					mu.Unlock()
				}
				socket.Ask(`{"op":"close"}`)
			})
		}
		var bad sync.WaitGroup
		for i := range 5 {
			slow := s.socket(fmt.Sprintf("slow-%d", i), "phone")
			bad.Go(func() { // asks, and never reads an answer
				for seq := 1; slow.Say(fmt.Sprintf(`{"op":"heartbeat","seq":%d}`, seq)) == nil; seq++ {
				}
			})
			silent := s.socket(fmt.Sprintf("silent-%d", i), "phone")
			bad.Go(func() { closedWith(t, silent) })
			flood := s.socket(fmt.Sprintf("flood-%d", i), "phone")
			bad.Go(func() {
				go func() {
					for seq := 1; flood.Say(fmt.Sprintf(`{"op":"heartbeat","seq":%d}`, seq)) == nil; seq++ {
					}
				}()
				code, heard := closedWith(t, flood)
				limited := 0
				for _, text := range heard {
					if strings.Contains(text, `"RATE_LIMITED"`) && strings.Contains(text, `"retryAfterMs":200`) {
						limited++
					}
				}
				if code != 1008 || limited != 100 || len(heard) > 125 {
					t.Errorf("a flood: closed with %d after %d answers, %d of them refusals", code, len(heard), limited)
				}
			})
			pings := s.socket(fmt.Sprintf("pings-%d", i), "phone")
			bad.Go(func() {
				go func() {
					for pings.Frame(ws.NewPingFrame(nil)) == nil {
					}
				}()
				if code, _ := closedWith(t, pings); code != 1008 {
					t.Errorf("a flood of pings: closed with %d", code)
				}
			})
			fragments := s.socket(fmt.Sprintf("fragments-%d", i), "phone")
			bad.Go(func() {
				go func() {
					for err := fragments.Frame(ws.NewFrame(ws.OpText, false, nil)); err == nil; {
						err = fragments.Frame(ws.NewFrame(ws.OpContinuation, false, nil))
					}
				}()
				if code, _ := closedWith(t, fragments); code != 1008 {
					t.Errorf("fragments without an end: closed with %d", code)
				}
			})
			bad.Go(func() { // never ends its request
				conn, err := s.listener.Dial(t.Context(), here)
				s.must(err)
				began := time.Now()
				for _, err = conn.Write([]byte("GET /api/v1/ HTTP/1.1\r\n")); err == nil; _, err = conn.Write([]byte("X-Slow: 1\r\n")) {
					time.Sleep(time.Second)
				}
				if took := time.Since(began); took > 15*time.Second {
					t.Errorf("a request was waited for %s", took)
				}
			})
		}
		bad.Wait()
		if n := s.door.Sessions(); n != 20 {
			t.Errorf("%d sessions are left", n)
		}
		good.Wait()
		if answered != 200 {
			t.Errorf("%d heartbeats were answered", answered)
		}
	})
}

// A door that closes sends its sockets elsewhere one by one.
func TestDrain(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t)
		const sockets = 20
		var gone sync.WaitGroup
		began := time.Now()
		at := make([]time.Duration, sockets)
		for i := range sockets {
			socket := s.socket(fmt.Sprintf("user-%d", i), "phone")
			gone.Go(func() {
				code, _ := closedWith(t, socket)
				at[i] = time.Since(began)
				if code != 1012 {
					t.Errorf("closed with %d", code)
				}
			})
		}
		session := s.open("ann", "phone")
		drained := make(chan error)
		go func() { drained <- s.door.Drain(t.Context(), 21*time.Second) }()
		synctest.Wait()
		if a := s.post("session", s.token("bob"), `{"device":"phone","foreground":true,"active":true}`); a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
			t.Errorf("%d %s", a.status, a.text)
		}
		if _, err := s.dial(s.token("bob")); err == nil || !strings.Contains(err.Error(), "503") {
			t.Errorf("%v", err)
		}
		if s.door.Readiness() == nil {
			t.Error("it is ready while it closes")
		}
		gone.Wait()
		s.must(<-drained)
		if a := s.post("heartbeat", s.token("ann"), session+`,"seq":1}`); a.code() != "UNREGISTERED" {
			t.Errorf("%d %s", a.status, a.text)
		}
		seconds := map[int]int{}
		for _, d := range at {
			seconds[int(d.Seconds())]++
		}
		for second, n := range seconds {
			if n > 1 {
				t.Errorf("%d sockets were closed in second %d", n, second)
			}
		}
		s.must(s.gateway.Wait(t.Context()))
	})
}

// While NATS is away devices notice nothing.
func TestNATSIsAway(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t)
		socket := s.socket("ann", "phone")
		s.link.Cut()
		time.Sleep(20 * time.Second)
		if a, err := socket.Ask(`{"op":"heartbeat","seq":1}`); err != nil || refused(a) != "" || a["serverTime"] != time.Now().UTC().Format("2006-01-02T15:04:05.000Z") {
			t.Errorf("%v, %v", a, err)
		}
		s.open("bob", "phone")
		if s.door.Readiness() == nil {
			t.Error("it is ready without NATS")
		}
		s.link.Heal()
		time.Sleep(20 * time.Second)
		if err := s.door.Readiness(); err != nil {
			t.Error(err)
		}
		if n := s.door.Node().Stats().Pending; n != 0 {
			t.Errorf("%d changes wait", n)
		}
	})
}

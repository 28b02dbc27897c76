package natsgate_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rollcall-io/rollcall/edge"
	"github.com/rollcall-io/rollcall/edge/door"
	"github.com/rollcall-io/rollcall/edge/natsgate"
	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/subjects"
)

// street is a fabric with gates, and a connection that may say anything.
type street struct {
	t      *testing.T
	server *lab.Server
	names  subjects.Names
	nc     *nats.Conn
}

func newStreet(t *testing.T) *street {
	s := &street{t: t, server: lab.NewServer(t)}
	s.nc = lab.Connect(t, s.server.NewLink())
	js, err := jetstream.New(s.nc)
	if err != nil {
		t.Fatal(err)
	}
	f, err := fabric.Ensure(t.Context(), js, fabric.Config{Shards: 2})
	if err != nil {
		t.Fatal(err)
	}
	s.names = f.Names
	return s
}

func (s *street) gate(id string, c door.Config) *natsgate.Gate {
	s.t.Helper()
	c.Edge.ID = id
	g, err := natsgate.New(lab.Connect(s.t, s.server.NewLink()), c)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	s.t.Cleanup(func() { cancel(); <-done })
	<-g.Ready()
	return g
}

func (s *street) ask(op subjects.DeviceOp, user, device, body string) string {
	s.t.Helper()
	m, err := s.nc.Request(s.names.Device(op, user, device), []byte(body), 10*time.Second)
	if err != nil {
		s.t.Fatalf("%s of %s: %v", op, user, err)
	}
	return string(m.Data)
}

func (s *street) open(user, device string) subjects.DeviceOpenAnswer {
	s.t.Helper()
	var a subjects.DeviceOpenAnswer
	text := s.ask(subjects.DeviceOpen, user, device, `{"foreground":true,"active":true}`)
	if err := json.Unmarshal([]byte(text), &a); err != nil || a.SessionID == "" {
		s.t.Fatalf("%s: %v", text, err)
	}
	return a
}

// code of an answer; empty if it is no refusal.
func code(t *testing.T, answer string) subjects.DeviceCode {
	t.Helper()
	var r subjects.DeviceRefusal
	if err := json.Unmarshal([]byte(answer), &r); err != nil {
		t.Fatalf("%q: %v", answer, err)
	}
	if r.Error == nil {
		return ""
	}
	if r.Error.Message == "" {
		t.Errorf("%s without a reason", r.Error.Code)
	}
	return r.Error.Code
}

// What is wrong is refused with a code, at the gate that holds the session and at another.
func TestRefusals(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newStreet(t)
		registry := prometheus.NewRegistry()
		s.gate("g1", door.Config{Edge: edge.Config{Registerer: registry}})
		s.gate("g 2", door.Config{})
		a := s.open("ann.b", "phone")
		if a.HeartbeatIntervalMs != 30_000 || a.IdleTimeoutMs != 75_000 || a.NextHeartbeatInMs < 27_000 || a.NextHeartbeatInMs > 30_000 {
			t.Errorf("%+v", a)
		}
		named := fmt.Sprintf(`"sessionId":%q,"sessionEpoch":%d`, a.SessionID, a.SessionEpoch)
		_, inner, _ := strings.Cut(a.SessionID, ".")
		for _, c := range []struct {
			op           subjects.DeviceOp
			user, device string
			body         string
			want         subjects.DeviceCode
		}{
			{"heartbeat", "ann.b", "phone", `{` + named + `,"seq":5}`, ""},
			{"heartbeat", "ann.b", "phone", `{` + named + `,"seq":5,"later":{"x":[1]}}`, ""}, // a duplicate, and a field of the future
			{"heartbeat", "ann.b", "phone", `{` + named + `,"seq":4}`, ""},
			{"heartbeat", "ann.b", "phone", `{` + named + `,"seq":6,"foreground":false}`, ""},
			{"state", "ann.b", "phone", `{` + named + `,"foreground":true,"active":false,"activity":"writing"}`, ""},
			{"heartbeat", "ann.b", "phone", `{` + named + `,"seq":0}`, subjects.DeviceInvalid},
			{"heartbeat", "ann.b", "phone", `{` + named + `,"seq":"7"}`, subjects.DeviceInvalid},
			{"heartbeat", "ann.b", "phone", `{"seq":7}`, subjects.DeviceInvalid},
			{"heartbeat", "ann.b", "phone", ``, subjects.DeviceInvalid},
			{"heartbeat", "ann.b", "phone", `[`, subjects.DeviceInvalid},
			{"heartbeat", "ann.b", "phone", "{\"sessionId\":\"\xff\"}", subjects.DeviceInvalid},
			{"state", "ann.b", "phone", `{` + named + `,"active":true}`, subjects.DeviceInvalid},
			{"close", "ann.b", "phone", `{` + named + `,"reason":"boredom"}`, subjects.DeviceInvalid},
			{"open", "ann.b", "phone", `{"active":true}`, subjects.DeviceInvalid},
			{"open", "ann.b", "phone", `{"foreground":true,"active":true,"activity":"` + strings.Repeat("x", 65) + `"}`, subjects.DeviceInvalid},
			{"open", "ann.b", "phone", `{"foreground":true,"active":true,"device":"tablet"}`, subjects.DeviceForbidden},
			{"open", "ann.b", "phone", `{"pad":"` + strings.Repeat("x", 20_000) + `"}`, subjects.DeviceTooLarge},
			{"dance", "ann.b", "phone", `{` + named + `}`, subjects.DeviceNotFound},
			{"heartbeat", "bob", "phone", `{` + named + `,"seq":7}`, subjects.DeviceUnregistered},    // another user's
			{"heartbeat", "ann.b", "tablet", `{` + named + `,"seq":7}`, subjects.DeviceUnregistered}, // another device's
			{"close", "bob", "phone", `{` + named + `}`, subjects.DeviceUnregistered},
			{"heartbeat", "ann.b", "phone", fmt.Sprintf(`{"sessionId":%q,"sessionEpoch":%d,"seq":7}`, a.SessionID, a.SessionEpoch+1), subjects.DeviceUnregistered},
			{"heartbeat", "ann.b", "phone", fmt.Sprintf(`{"sessionId":%q,"sessionEpoch":%d,"seq":7}`, inner, a.SessionEpoch), subjects.DeviceUnregistered},
			{"heartbeat", "ann.b", "phone", fmt.Sprintf(`{"sessionId":%q,"sessionEpoch":%d,"seq":7}`, "g3."+inner, a.SessionEpoch), subjects.DeviceUnregistered},
			{"heartbeat", "ann.b", "phone", fmt.Sprintf(`{"sessionId":%q,"sessionEpoch":%d,"seq":7}`, "*."+inner, a.SessionEpoch), subjects.DeviceUnregistered},
			{"heartbeat", "ann.b", "phone", fmt.Sprintf(`{"sessionId":%q,"sessionEpoch":%d,"seq":7}`, "g1.>."+inner, a.SessionEpoch), subjects.DeviceUnregistered},
			{"close", "ann.b", "phone", `{` + named + `,"reason":"logout"}`, ""},
			{"close", "ann.b", "phone", `{` + named + `}`, subjects.DeviceUnregistered},
			{"heartbeat", "ann.b", "phone", `{` + named + `,"seq":7}`, subjects.DeviceUnregistered},
		} {
			for range 2 { // NATS picks the gate
				if got := code(t, s.ask(c.op, c.user, c.device, c.body)); got != c.want && !(c.op == "close" && c.want == "" && got == subjects.DeviceUnregistered) {
					t.Errorf("%s of %s/%s with %.120s: %q, want %q", c.op, c.user, c.device, c.body, got, c.want)
				}
				time.Sleep(time.Second)
			}
		}
		// A subject whose token is no id.
		m, err := s.nc.Request("presence.device.open.ann=b.phone", []byte(`{}`), 10*time.Second)
		if err != nil || code(t, string(m.Data)) != subjects.DeviceInvalid {
			t.Errorf("%v, %v", m, err)
		}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if name := f.GetName(); strings.HasPrefix(name, "rollcall_natsgate_") && len(f.GetMetric()) == 0 {
				t.Errorf("%s counts nothing", name)
			}
		}
	})
}

// Who names something else than an inbox for the answer gets none, and nothing happens.
func TestAnswersGoToInboxes(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newStreet(t)
		g := s.gate("g1", door.Config{})
		got, err := s.nc.SubscribeSync("presence.>")
		if err != nil {
			t.Fatal(err)
		}
		body := []byte(`{"foreground":true,"active":true}`)
		for _, reply := range []string{"presence.log.0.g1", "presence.gate.g1.open.bob.phone", "_INBOX.natsgate.g1.x", "$KV.presence_views_0.view.ann"} {
			if err := s.nc.PublishRequest(s.names.Device(subjects.DeviceOpen, "ann", "phone"), reply, body); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		if n, _, _ := got.Pending(); n != 4 || g.Door().Sessions() != 0 {
			t.Errorf("%d messages, %d sessions", n, g.Door().Sessions())
		}
		// Without any it is carried out.
		if err := s.nc.Publish(s.names.Device(subjects.DeviceOpen, "ann", "phone"), body); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if g.Door().Sessions() != 1 {
			t.Error("no session")
		}
	})
}

// One user's flood is refused, and another's device is heard.
func TestFloods(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newStreet(t)
		s.gate("g1", door.Config{Rate: 5, Burst: 10, MaxDevices: 3})
		s.gate("g2", door.Config{Rate: 5, Burst: 10, MaxDevices: 3})
		refused := 0
		for i := range 100 {
			if c := code(t, s.ask(subjects.DeviceOpen, "mob", fmt.Sprint("d", i), `{"foreground":true,"active":true}`)); c == subjects.DeviceRateLimited {
				refused++
			} else if c != "" {
				t.Errorf("refused as %s", c)
			}
		}
		if refused < 90 { // three devices at each gate
			t.Errorf("%d of 100 refused", refused)
		}
		s.open("ann", "phone")
	})
}

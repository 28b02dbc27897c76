package lab_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall/internal/lab"
)

// A process with a service that echoes, and a client on a link of its own.
type scene struct {
	server         *lab.Server
	link           *lab.Link
	client         *nats.Conn
	down, up       chan time.Duration
	start          time.Time
	requestTimeout time.Duration
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{
		server: lab.NewServer(t), start: time.Now(), requestTimeout: 2 * time.Second,
		down: make(chan time.Duration, 100), up: make(chan time.Duration, 100),
	}
	echo := lab.Connect(t, s.server.NewLink())
	if _, err := echo.Subscribe("echo", func(m *nats.Msg) { m.Respond(m.Data) }); err != nil {
		t.Fatal(err)
	}
	if err := echo.Flush(); err != nil {
		t.Fatal(err)
	}
	s.link = s.server.NewLink()
	s.client = lab.Connect(t, s.link,
		nats.DisconnectErrHandler(func(*nats.Conn, error) { s.down <- time.Since(s.start) }),
		nats.ReconnectHandler(func(*nats.Conn) { s.up <- time.Since(s.start) }))
	return s
}

// echo sends a request and says how long the answer took.
func (s *scene) echo(t *testing.T, text string) (time.Duration, error) {
	t.Helper()
	sent := time.Now()
	m, err := s.client.Request("echo", []byte(text), s.requestTimeout)
	if err == nil && string(m.Data) != text {
		t.Fatalf("%q came back as %q", text, m.Data)
	}
	return time.Since(sent), err
}

func (s *scene) mustEcho(t *testing.T, text string) time.Duration {
	t.Helper()
	took, err := s.echo(t, text)
	if err != nil {
		t.Fatalf("after %v: %q: %v", time.Since(s.start), text, err)
	}
	return took
}

func TestLinkWithoutFaultsTakesNoTime(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t)
		if took := s.mustEcho(t, "hello"); took != 0 {
			t.Errorf("took %v", took)
		}
	})
}

func TestFrozenLinkIsNoticedByPingsOnly(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t)
		s.link.Freeze()
		noticed := <-s.down
		if noticed < 10*time.Second || noticed > 15*time.Second {
			t.Errorf("noticed after %v", noticed)
		}
		time.Sleep(time.Minute) // dialing times out again and again
		s.link.Thaw()
		<-s.up
		s.mustEcho(t, "back")
	})
}

func TestShortFreezeOnlyDelays(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t)
		s.requestTimeout = 10 * time.Second
		s.link.Freeze()
		time.AfterFunc(3*time.Second, s.link.Thaw)
		if took := s.mustEcho(t, "held"); took != 3*time.Second {
			t.Errorf("took %v", took)
		}
		if len(s.down) > 0 {
			t.Error("the connection was lost")
		}
		if took := s.mustEcho(t, "free"); took != 0 {
			t.Errorf("after the thaw: took %v", took)
		}
	})
}

func TestFreezeHoldsWhatTheServerSends(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t)
		sub, err := s.client.SubscribeSync("news")
		if err != nil {
			t.Fatal(err)
		}
		s.client.Flush()
		other := lab.Connect(t, s.server.NewLink())
		s.link.Freeze()
		for _, text := range []string{"1", "2", "3"} {
			if err := other.Publish("news", []byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		if m, err := sub.NextMsg(time.Second); !errors.Is(err, nats.ErrTimeout) {
			t.Fatalf("through the frozen link: %v, %v", m, err)
		}
		s.link.Thaw()
		for _, want := range []string{"1", "2", "3"} {
			if m, err := sub.NextMsg(time.Second); err != nil || string(m.Data) != want {
				t.Fatalf("after the thaw: %v, %v, want %s", m, err, want)
			}
		}
	})
}

func TestConnectionGivenUpWhileFrozenStaysForTheServer(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t)
		link := s.server.NewLink()
		gone := lab.Connect(t, link)
		if _, err := gone.Subscribe("taken", func(*nats.Msg) {}); err != nil {
			t.Fatal(err)
		}
		gone.Flush()
		link.Freeze()
		gone.Close()
		if _, err := s.client.Request("taken", nil, time.Second); !errors.Is(err, nats.ErrTimeout) {
			t.Errorf("while frozen: %v, want a timeout: the server still knows a subscriber", err)
		}
		link.Thaw()
		synctest.Wait()
		if _, err := s.client.Request("taken", nil, time.Second); !errors.Is(err, nats.ErrNoResponders) {
			t.Errorf("after the thaw: %v, want no responders", err)
		}
	})
}

func TestCutIsNoticedAtOnceAndHeals(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t)
		time.Sleep(time.Minute)
		s.link.Cut()
		if noticed := <-s.down; noticed != time.Minute {
			t.Errorf("noticed after %v", noticed)
		}
		if _, err := s.link.InProcessConn(); !errors.Is(err, lab.ErrCut) {
			t.Errorf("dialing: %v", err)
		}
		if err := s.client.Publish("echo", nil); !errors.Is(err, nats.ErrReconnectBufExceeded) {
			t.Errorf("publishing without a connection: %v", err)
		}
		time.Sleep(time.Hour)
		s.link.Heal()
		if up := <-s.up; up > time.Hour+time.Minute+time.Second {
			t.Errorf("back after %v", up)
		}
		s.mustEcho(t, "back")
	})
}

func TestCutEndsAFrozenConnection(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t)
		s.link.Freeze()
		s.link.Cut()
		if noticed := <-s.down; noticed != 0 {
			t.Errorf("noticed after %v", noticed)
		}
		s.link.Heal()
		s.link.Thaw()
		<-s.up
		s.mustEcho(t, "back")
	})
}

func TestCutConcernsOneLink(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t)
		other := s.server.NewLink()
		lab.Connect(t, other)
		other.Cut()
		s.mustEcho(t, "here")
		if len(s.down) > 0 {
			t.Error("another process's link was cut")
		}
	})
}

func TestDelayIsExactInBothDirections(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t)
		s.link.Delay(40 * time.Millisecond)
		for range 3 {
			if took := s.mustEcho(t, "slow"); took != 80*time.Millisecond {
				t.Errorf("took %v", took)
			}
		}
		s.link.Delay(0)
		if took := s.mustEcho(t, "fast"); took != 0 {
			t.Errorf("without delay: took %v", took)
		}
	})
}

func TestShorterDelayDoesNotOvertake(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t)
		sub, err := s.client.SubscribeSync("echoes")
		if err != nil {
			t.Fatal(err)
		}
		s.client.Flush()
		for i, delay := range []time.Duration{time.Second, 0} {
			s.link.Delay(delay)
			if err := s.client.PublishRequest("echo", "echoes", []byte{byte('1' + i)}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond) // nats.go flushes in the background
		}
		for _, want := range []string{"1", "2"} {
			if m, err := sub.NextMsg(5 * time.Second); err != nil || string(m.Data) != want {
				t.Fatalf("%v, %v, want %s", m, err, want)
			}
		}
	})
}

func TestDialingOverAFrozenLinkFails(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := newScene(t)
		s.link.Freeze()
		if _, err := s.link.InProcessConn(); !errors.Is(err, lab.ErrFrozen) {
			t.Errorf("dialing: %v", err)
		}
	})
}

func TestConnectWaitsForALink(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		link := lab.NewServer(t).NewLink()
		link.Cut()
		nc := lab.Connect(t, link)
		time.Sleep(time.Minute)
		link.Heal()
		time.Sleep(time.Second)
		if !nc.IsConnected() {
			t.Error("not connected")
		}
	})
}

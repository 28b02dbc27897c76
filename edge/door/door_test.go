package door_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/edge"
	"github.com/rollcall-io/rollcall/edge/door"
	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/subjects"
)

func newDoor(t *testing.T, cfg door.Config) *door.Door {
	t.Helper()
	server := lab.NewServer(t)
	nc := lab.Connect(t, server.NewLink())
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fabric.Ensure(t.Context(), js, fabric.Config{Shards: 2, Params: rollcall.Tight()}); err != nil {
		t.Fatal(err)
	}
	cfg.Edge.ID, cfg.Edge.Seed, cfg.Edge.ClockResolution = "d1", 1, 100*time.Millisecond
	d, err := door.New(nc, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); d.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	<-d.Ready()
	return d
}

func is(code subjects.DeviceCode) error { return &subjects.DeviceError{Code: code} }

// A guest counts how often it is told.
type guest struct{ ends []door.End }

func (g *guest) Ended(e door.End) { g.ends = append(g.ends, e) }

// A stay is a session as a naive model sees it.
type stay struct {
	session *door.Session
	name    subjects.DeviceSession
	caller  door.Caller
	guest   *guest
	seq     uint32
	alive   time.Time // the last sign of life
	want    []door.End
	over    bool
}

// Random histories of devices that open, beat in and out of order, change, close, vanish
// and fall silent, against a model that keeps a list: what is answered, who is told of which
// end, and how many sessions there are.
func TestRandomHistories(t *testing.T) {
	histories := 15
	if testing.Short() {
		histories = 4
	}
	for seed := range histories {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			lab.Bubble(t, func(t *testing.T) { history(t, rand.New(rand.NewPCG(uint64(seed), 0))) })
		})
	}
}

func history(t *testing.T, random *rand.Rand) {
	d := newDoor(t, door.Config{Rate: 1 << 20, Burst: 1 << 20, MaxDevices: 3})
	timeout := rollcall.Tight().IdleTimeout
	var stays []*stay
	yes, no := true, false
	for step := range 300 {
		synctest.Wait() // what the node had to tell is told
		var s *stay
		if len(stays) > 0 {
			s = stays[random.IntN(len(stays))]
		}
		switch op := random.IntN(10); {
		case op == 0 || s == nil:
			user, device := string(rune('a'+random.IntN(3))), string(rune('0'+random.IntN(4)))
			held, current := 0, (*stay)(nil)
			for _, o := range stays {
				if o.caller.User == user && !o.over {
					held++
					if o.session.Device() == device {
						current = o
					}
				}
			}
			next := &stay{caller: door.Caller{User: user}, guest: &guest{}, alive: time.Now()}
			var err error
			next.session, err = d.Open(next.caller, subjects.DeviceOpenRequest{Device: device, Foreground: &yes, Active: &no}, next.guest)
			if held == 3 {
				if !errors.Is(err, is(subjects.DeviceRateLimited)) {
					t.Fatalf("step %d: a fourth session of %s: %v", step, user, err)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			answer := next.session.Answer()
			next.name = subjects.DeviceSession{SessionID: answer.SessionID, SessionEpoch: answer.SessionEpoch}
			if current != nil {
				current.over, current.want = true, append(current.want, door.Superseded)
			}
			stays = append(stays, next)
		case op < 6:
			seq := max(s.seq+uint32(random.IntN(4)), 2) - 1 // often late
			found, err := d.Find(s.caller, s.name)
			if err == nil {
				_, err = found.Heartbeat(subjects.DeviceHeartbeatRequest{Seq: seq, Active: &yes})
			}
			s.check(t, step, err)
			if !s.over && seq > s.seq {
				s.seq, s.alive = seq, time.Now()
			}
		case op == 6:
			_, err := s.session.SetState(subjects.DeviceStateRequest{Foreground: &no, Active: &no, Activity: "x"})
			s.check(t, step, err)
			if !s.over {
				s.alive = time.Now()
			}
		case op == 7:
			_, err := s.session.Close(subjects.DeviceCloseRequest{})
			s.check(t, step, err)
			s.over = true
		case op == 8:
			s.session.Leave()
			s.over = true
		default:
			if _, err := d.Find(door.Caller{User: "stranger"}, s.name); !errors.Is(err, is(subjects.DeviceUnregistered)) {
				t.Fatalf("step %d: a stranger found a session: %v", step, err)
			}
			time.Sleep(time.Duration(random.IntN(30)) * time.Second)
			// Nobody is asked while the edge may or may not have noticed the silence.
			for _, o := range stays {
				if silent := time.Since(o.alive); !o.over && silent >= timeout && silent < timeout+2*time.Second {
					time.Sleep(2 * time.Second)
				}
			}
			for _, o := range stays {
				if !o.over && time.Since(o.alive) >= timeout {
					o.over, o.want = true, append(o.want, door.Dead)
				}
			}
		}
	}
	synctest.Wait()
	held := 0
	for _, s := range stays {
		if !s.over {
			held++
			s.want = append(s.want, door.Drained)
		}
	}
	if n := d.Sessions(); n != held || int64(n) != d.Node().Stats().Connections {
		t.Errorf("%d sessions are held, the edge has %d, the model %d", n, d.Node().Stats().Connections, held)
	}
	if err := d.Drain(t.Context(), time.Second); err != nil {
		t.Fatal(err)
	}
	for i, s := range stays {
		if fmt.Sprint(s.guest.ends) != fmt.Sprint(s.want) {
			t.Errorf("guest %d was told %v, want %v", i, s.guest.ends, s.want)
		}
	}
}

// check holds an answer against the model.
func (s *stay) check(t *testing.T, step int, err error) {
	t.Helper()
	if s.over != errors.Is(err, is(subjects.DeviceUnregistered)) || !s.over && err != nil {
		t.Fatalf("step %d: over %v, but %v", step, s.over, err)
	}
}

func TestRefusedConfigurations(t *testing.T) {
	for _, cfg := range []door.Config{
		{}, {Edge: edge.Config{ID: "d", OnDead: func(*edge.Conn) {}}}, {Edge: edge.Config{ID: "d"}, MaxSessions: -1}, {Edge: edge.Config{ID: "d"}, IdleThreshold: -1},
	} {
		if _, err := door.New(nil, cfg); !errors.Is(err, door.ErrConfig) && !errors.Is(err, edge.ErrConfig) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

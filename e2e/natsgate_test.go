package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/edge"
	"github.com/rollcall-io/rollcall/edge/door"
	"github.com/rollcall-io/rollcall/edge/natsgate"
	"github.com/rollcall-io/rollcall/edge/phi"
	"github.com/rollcall-io/rollcall/fanout/viewer"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/identity"
)

func (g *guarded) gate(id string) (*guest, *natsgate.Gate) {
	g.t.Helper()
	p := g.connect(identity.Natsgate, id)
	gate, err := natsgate.New(p.nc, door.Config{Edge: edge.Config{ID: id, Detector: &phi.Config{}, ClockResolution: time.Second}})
	if err != nil {
		g.t.Fatal(err)
	}
	g.run(p, gate.Run)
	select {
	case <-gate.Ready():
	case <-time.After(time.Minute):
		g.t.Fatal("the gate does not hear devices")
	}
	return p, gate
}

// A talker is a device that speaks NATS as docs/natsgate.md tells clients to: it comes when it
// is told to, opens a session when it hears that it has none, and tries again when it
// hears nothing.
type talker struct {
	*guest
	g            *guarded
	user, device string

	opens, unanswered atomic.Int64
	session           subjects.DeviceSession
	seq               uint32
}

func (g *guarded) talker(user, device string) *talker {
	return &talker{guest: g.connect(identity.Device, user, device), g: g, user: user, device: device}
}

// ask sends an operation and reads the answer.
func (d *talker) ask(op subjects.DeviceOp, request, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	m, err := d.nc.Request(d.g.names.Device(op, d.user, d.device), body, 5*time.Second)
	if err != nil {
		return err
	}
	var refusal subjects.DeviceRefusal
	if err := json.Unmarshal(m.Data, &refusal); err != nil || refusal.Error != nil {
		return errors.Join(err, refusal.Error)
	}
	return json.Unmarshal(m.Data, answer)
}

// step does what is due, and says when to come again.
func (d *talker) step() (wait time.Duration) {
	const again = time.Second
	var answer subjects.DeviceOpenAnswer
	var err error
	if d.session == (subjects.DeviceSession{}) {
		yes := true
		err = d.ask(subjects.DeviceOpen, subjects.DeviceOpenRequest{Device: d.device, Foreground: &yes, Active: &yes}, &answer)
		if err == nil {
			d.opens.Add(1)
			d.session, d.seq = subjects.DeviceSession{SessionID: answer.SessionID, SessionEpoch: answer.SessionEpoch}, 0
		}
	} else {
		d.seq++
		err = d.ask(subjects.DeviceHeartbeat, subjects.DeviceHeartbeatRequest{DeviceSession: d.session, Seq: d.seq}, &answer.DeviceAnswer)
	}
	switch {
	case err == nil:
		return time.Duration(answer.NextHeartbeatInMs) * time.Millisecond
	case errors.Is(err, &subjects.DeviceError{Code: subjects.DeviceUnregistered}):
		d.session = subjects.DeviceSession{}
		return time.Millisecond
	}
	d.unanswered.Add(1)
	return again
}

// talk goes on until ctx ends.
func (d *talker) talk(ctx context.Context) {
	for wait := time.Duration(0); ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
			wait = d.step()
		}
	}
}

// A crowd of talkers, and a viewer who looks at all of them.
type crowd struct {
	*guarded
	talkers []*talker
	client  *viewer.Client
	offline atomic.Int64 // times that the viewer saw somebody go
	stop    context.CancelFunc
}

func (g *guarded) crowd(n int) *crowd {
	g.t.Helper()
	c := &crowd{guarded: g}
	ctx, stop := context.WithCancel(g.ctx)
	c.stop = stop
	g.t.Cleanup(stop)
	var users []string
	for i := range n {
		d := g.talker(fmt.Sprintf("user *%d", i), "phone.1")
		c.talkers, users = append(c.talkers, d), append(users, d.user)
		go d.talk(ctx)
	}
	_, c.client = g.viewer("vera", users...)
	go func() {
		for change := range c.client.Changes() {
			if change.View.Status == rollcall.StatusOffline {
				c.offline.Add(1)
			}
		}
	}()
	time.Sleep(2 * time.Minute)
	c.wantAll("in the beginning", rollcall.StatusOnline)
	c.offline.Store(0)
	return c
}

func (c *crowd) wantAll(when string, status rollcall.Status) {
	c.t.Helper()
	for _, d := range c.talkers {
		if s, _ := c.client.State(d.user); s.View.Status != status {
			c.t.Errorf("%s, %s shows as %q (%s), want %q", when, d.user, s.View.Status, s.Reason, status)
		}
	}
}

// wantSteady says that nobody was shown offline, and how many sessions were opened in all.
func (c *crowd) wantSteady(when string, opens int64) {
	c.t.Helper()
	c.wantShown(when)
	var got int64
	for _, d := range c.talkers {
		got += d.opens.Load()
	}
	if got != opens {
		c.t.Errorf("%s, %d sessions have been opened, want %d", when, got, opens)
	}
}

// wantSessions says that these gates hold one session of each talker, or do so soon.
func (c *crowd) wantSessions(when string, gates ...*natsgate.Gate) {
	c.t.Helper()
	sessions := 0
	for range 60 {
		sessions = 0
		for _, g := range gates {
			sessions += g.Door().Sessions()
		}
		if sessions == len(c.talkers) {
			return
		}
		time.Sleep(time.Second)
	}
	c.t.Errorf("%s, %d talkers have %d sessions", when, len(c.talkers), sessions)
}

// wantShown says that nobody was shown offline.
func (c *crowd) wantShown(when string) {
	c.t.Helper()
	c.wantAll(when, rollcall.StatusOnline)
	if n := c.offline.Load(); n > 0 {
		c.t.Errorf("%s, somebody was shown offline %d times", when, n)
	}
}

const talkers = 12

func gates(t *testing.T, test func(*testing.T, *guarded)) {
	lab.Bubble(t, func(t *testing.T) {
		g := newGuarded(t)
		g.keeper("k")
		g.fanout("f")
		test(t, g)
	})
}

// Whichever gate NATS hands a heartbeat, it reaches the session; who leaves is shown so.
func TestDevicesSpeakNATS(t *testing.T) {
	gates(t, func(t *testing.T, g *guarded) {
		_, a := g.gate("gate.1")
		_, b := g.gate("gate *2")
		c := g.crowd(talkers)
		time.Sleep(10 * time.Minute)
		c.wantSteady("after ten minutes", talkers)
		if a.Door().Sessions() == 0 || b.Door().Sessions() == 0 {
			t.Error("one gate has all the sessions: no test of two")
		}
		c.stop()
		time.Sleep(100*time.Second + time.Second) // the bound of falling silent
		c.wantAll("after they fell silent", rollcall.StatusOffline)
	})
}

// Of one that is killed the others know nothing; its devices find out by their next heartbeat.
func TestGateDies(t *testing.T) {
	gates(t, func(t *testing.T, g *guarded) {
		first, a := g.gate("gate-1")
		g.gate("gate-2")
		c := g.crowd(talkers)
		lost := int64(a.Door().Sessions())
		first.kill()
		time.Sleep(5 * time.Minute) // the lease of the first one runs out
		c.wantSteady("after a gate died", talkers+lost)
		g.gate("gate-3")
		time.Sleep(2 * time.Minute)
		c.wantSteady("after another one came", talkers+lost)
	})
}

// One that stops without a word is handed requests all the same, as NATS does not know. Its devices go to the
// other one; how often they, and some of the other's, must try and open is chance.
func TestGateIsPaused(t *testing.T) {
	gates(t, func(t *testing.T, g *guarded) {
		first, a := g.gate("gate-1")
		_, b := g.gate("gate-2")
		c := g.crowd(talkers)
		first.link.Freeze()
		time.Sleep(2 * time.Minute)
		c.wantShown("while a gate was paused")
		c.wantSessions("while a gate was paused", b)
		first.link.Thaw()
		time.Sleep(5 * time.Minute)
		c.wantShown("after it woke")
		c.wantSessions("after it woke", a, b)
	})
}

func TestGateDrains(t *testing.T) {
	gates(t, func(t *testing.T, g *guarded) {
		first, a := g.gate("gate-1")
		g.gate("gate-2")
		c := g.crowd(talkers)
		moved := int64(a.Door().Sessions())
		began := time.Now()
		if err := a.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 31*time.Second {
			t.Errorf("draining took %v", took)
		}
		if err := <-first.done; err != nil {
			t.Errorf("a drained gate ends with %v", err)
		}
		first.done <- nil
		time.Sleep(5 * time.Minute)
		c.wantSteady("after a gate left", talkers+moved)
		for _, d := range c.talkers {
			if n := d.unanswered.Load(); n > 0 {
				t.Errorf("%s was not answered %d times", d.user, n)
			}
		}
	})
}

// While NATS is away no heartbeat arrives, and nobody counts as dead for it.
func TestGatesWithoutNATS(t *testing.T) {
	outages := []time.Duration{40 * time.Second, 10 * time.Minute}
	if testing.Short() {
		outages = outages[:1]
	}
	for _, outage := range outages {
		gates(t, func(t *testing.T, g *guarded) {
			_, a := g.gate("gate-1")
			_, b := g.gate("gate-2")
			c := g.crowd(talkers)
			time.Sleep(5 * time.Minute) // φ knows them
			g.server.Stop()
			time.Sleep(outage)
			g.server.Start()
			time.Sleep(5 * time.Minute)
			c.wantShown(fmt.Sprint("after an outage of ", outage))
			if n := a.Door().Node().Stats().Timeouts + b.Door().Node().Stats().Timeouts; n > 0 {
				t.Errorf("after an outage of %s: %d found dead", outage, n)
			}
		})
	}
}

// A gate that is cut off ends nobody, and its devices find another one.
func TestGateIsCutOff(t *testing.T) {
	gates(t, func(t *testing.T, g *guarded) {
		first, a := g.gate("gate-1")
		g.gate("gate-2")
		c := g.crowd(talkers)
		lost := int64(a.Door().Sessions())
		first.link.Cut()
		time.Sleep(2 * time.Minute)
		first.link.Heal()
		time.Sleep(5 * time.Minute)
		c.wantSteady("after a gate was cut off", talkers+lost)
		if n := a.Door().Node().Stats().Timeouts; n > 0 {
			t.Errorf("the gate that heard nobody found %d dead", n)
		}
	})
}

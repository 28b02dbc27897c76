package fanout_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/fanout"
	"github.com/rollcall-io/rollcall/fanout/internal/stage"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/subjects"
)

// A gallery is many viewers on one connection, each with targets of its own.
type gallery struct {
	*raw    // asks for all of them, by changing its id
	inbox   chan *nats.Msg
	ids     map[string]string          // viewers by subscription
	targets map[string][]string        // by viewer
	last    map[string]map[string]seen // by viewer and target
	count   map[string]int             // messages, by viewer
}

type seen struct {
	status rollcall.Status
	at     time.Time
}

func newGallery(s *stage.Stage, viewers, each int, all []string) *gallery {
	s.T.Helper()
	g := &gallery{
		raw: newRaw(s, "gallery"), inbox: make(chan *nats.Msg, 1<<16), ids: map[string]string{},
		targets: map[string][]string{}, last: map[string]map[string]seen{}, count: map[string]int{},
	}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range viewers {
		id := fmt.Sprintf("viewer-%d", i)
		for _, n := range random.Perm(len(all))[:each] {
			g.targets[id] = append(g.targets[id], all[n])
		}
		subject := s.Fabric.ViewEventsAll(id)
		if _, err := g.nc.ChanSubscribe(subject, g.inbox); err != nil {
			s.T.Fatal(err)
		}
		g.ids[subject], g.id, g.last[id] = id, id, map[string]seen{}
		g.do(subjects.OpSubscribe, g.targets[id]...)
	}
	return g
}

// listen takes down what comes until nothing has come for the given time.
func (g *gallery) listen(quiet time.Duration) {
	g.t.Helper()
	for {
		select {
		case m := <-g.inbox:
			message, err := subjects.DecodeMessage(m.Data)
			if err != nil {
				g.t.Fatalf("%v in %s", err, m.Data)
			}
			if len(message.Changes) == 0 {
				continue // a position, which bounds nothing
			}
			viewer := g.ids[m.Sub.Subject]
			g.count[viewer]++
			for _, c := range message.Changes {
				g.last[viewer][c.Target] = seen{c.Status, time.Now()}
			}
		case <-time.After(quiet):
			return
		}
	}
}

// latest finds that every viewer was told the same of all its targets last, and
// returns when the last of them was.
func (g *gallery) latest(status rollcall.Status) (at time.Time) {
	g.t.Helper()
	for viewer, targets := range g.targets {
		for _, target := range targets {
			got := g.last[viewer][target]
			if got.status != status {
				g.t.Fatalf("%s has %s as %q, want %q", viewer, target, got.status, status)
			}
			if got.at.After(at) {
				at = got.at
			}
		}
	}
	return at
}

// The bound until the last viewer has the last change: the time in which the store
// took the views, and [fanout.LongestHold]. In virtual time sending takes none.
func TestTheLastViewerHasTheLastChangeWithinTheBound(t *testing.T) {
	quiet := func(*stage.Stage, *gallery, []string) {}
	const aMessage = 500*time.Millisecond + time.Microsecond // until the next is allowed
	for _, test := range []struct {
		name          string
		viewers, each int
		before        func(s *stage.Stage, g *gallery, all []string)
		least         time.Duration // else the case tests nothing
		hold          time.Duration
		messages      int // that each viewer gets at most
	}{
		{"after a quiet time", 1000, 200, quiet, 0, aMessage, 2},
		{"after the rate was used up", 200, 200, flap, 400 * time.Millisecond, aMessage, 2},
		{"more changes than a message holds", 20, 1200, quiet, 0, 3 * aMessage, 4},
		{"both", 20, 1200, flap, 1400 * time.Millisecond, 3 * aMessage, 4},
	} {
		t.Run(test.name, func(t *testing.T) {
			lab.Bubble(t, func(t *testing.T) {
				s := stage.New(t, 1)
				all := users(5000)
				s.PutAll(all, rollcall.Active)
				s.Start(fanout.Config{})
				g := newGallery(s, test.viewers, test.each, all)
				test.before(s, g, all)
				clear(g.count)
				begin := time.Now()
				s.PutAll(all, rollcall.Offline)
				written := time.Since(begin)
				g.listen(time.Second) // longer than any message is held
				hold := fanout.LongestHold(test.each, fanout.DefaultWindow)
				if hold != test.hold {
					t.Errorf("a change is held for %s at most, want %s", hold, test.hold)
				}
				took := g.latest(rollcall.StatusOffline).Sub(begin)
				if took > written+hold {
					t.Errorf("the last change was told after %s, the bound is %s + %s", took, written, hold)
				}
				if took < test.least {
					t.Errorf("the last change was told after %s already, want a viewer who waits for %s", took, test.least)
				}
				most := 0
				for _, n := range g.count {
					most = max(most, n)
				}
				if most > test.messages {
					t.Errorf("a viewer got %d messages, want at most %d", most, test.messages)
				}
				t.Logf("written in %s, the last told after %s, bound %s; %d messages at most", written, took, written+hold, most)
			})
		})
	}
}

// flap changes some users over and over until nobody has a message to spare. It stops
// a moment after a message went out: the viewer of that one has the longest to wait.
func flap(s *stage.Stage, g *gallery, all []string) {
	for i := range 60 {
		s.PutAll(all[:len(all)/50], []rollcall.State{rollcall.Idle, rollcall.Active}[i%2])
		g.inbox <- <-g.inbox // waits for the first
		g.listen(time.Millisecond)
	}
}

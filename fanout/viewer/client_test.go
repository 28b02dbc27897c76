package viewer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/fanout"
	"github.com/rollcall-io/rollcall/fanout/internal/stage"
	"github.com/rollcall-io/rollcall/fanout/viewer"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/subjects"
)

// A watcher is a running client that remembers every change.
type watcher struct {
	*viewer.Client
	t    *testing.T
	link *lab.Link
	nc   *nats.Conn
	stop func()
	seen chan []viewer.Change
}

func watch(s *stage.Stage, cfg viewer.Config) *watcher {
	s.T.Helper()
	link := s.Server.NewLink()
	nc := lab.Connect(s.T, link)
	if cfg.Viewer == "" {
		cfg.Viewer = "alice"
	}
	cfg.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	c, err := viewer.New(nc, cfg)
	if err != nil {
		s.T.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); c.Run(ctx) }()
	stop := func() { cancel(); <-ended }
	s.T.Cleanup(stop)
	w := &watcher{Client: c, t: s.T, link: link, nc: nc, stop: stop, seen: make(chan []viewer.Change, 1)}
	w.seen <- nil
	go func() {
		for change := range c.Changes() {
			w.seen <- append(<-w.seen, change)
		}
	}()
	return w
}

// changes returns what was seen since the last call.
func (w *watcher) changes() []viewer.Change {
	seen := <-w.seen
	w.seen <- nil
	return seen
}

func (w *watcher) mustWatch(targets ...string) {
	w.t.Helper()
	if err := w.Watch(w.t.Context(), targets...); err != nil {
		w.t.Fatalf("watching: %v", err)
	}
}

// expect checks what is shown, as "status" or "unknown/reason"; "" is nothing.
func (w *watcher) expect(want map[string]string) {
	w.t.Helper()
	got := make(map[string]string)
	for target := range want {
		got[target] = shown(w.State(target))
	}
	if !maps.Equal(got, want) {
		w.t.Errorf("shown %v, want %v", got, want)
	}
}

func shown(state viewer.State, ok bool) string {
	switch {
	case !ok:
		return ""
	case state.Reason != "":
		return string(state.View.Status) + "/" + state.Reason
	}
	return string(state.View.Status)
}

// statuses lists what a target was shown as.
func statuses(changes []viewer.Change, target string) (all []string) {
	for _, c := range changes {
		if c.Target == target {
			all = append(all, shown(c.State, true))
		}
	}
	return all
}

func TestWatchAndUnwatch(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := stage.New(t, 4)
		s.Set("bob", rollcall.Active)
		s.Set("carol", rollcall.Offline)
		s.Start(fanout.Config{})
		w := watch(s, viewer.Config{})
		w.mustWatch("bob", "carol", "nobody")
		w.expect(map[string]string{"bob": "online", "carol": "offline", "nobody": ""})
		s.Set("carol", rollcall.Idle)
		s.Set("nobody", rollcall.Active)
		time.Sleep(time.Second)
		w.expect(map[string]string{"bob": "online", "carol": "online", "nobody": "online"})
		s.Delete("bob")
		time.Sleep(time.Second)
		w.expect(map[string]string{"bob": ""})
		changes := w.changes()
		if got := statuses(changes, "bob"); len(got) != 2 || got[1] != string(subjects.StatusWithdrawn) {
			t.Errorf("bob was shown as %v", got)
		}
		if got := statuses(changes, "carol"); len(got) != 2 {
			t.Errorf("carol was shown as %v", got)
		}
		for range 2 {
			if err := w.Unwatch(t.Context(), "carol"); err != nil {
				t.Fatal(err)
			}
		}
		s.Set("carol", rollcall.Offline)
		time.Sleep(time.Minute)
		if changes := w.changes(); len(changes) > 0 {
			t.Errorf("after the unwatch: %+v", changes)
		}
	})
}

func TestNobodyWaitsForAClientThatHasEnded(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		w := watch(stage.New(t, 1), viewer.Config{})
		waiting := make(chan error, 1)
		go func() { waiting <- w.Watch(context.Background(), "bob") }()
		time.Sleep(time.Minute) // there is no fanout
		w.stop()
		if err := <-waiting; !errors.Is(err, viewer.ErrEnded) {
			t.Errorf("Watch: %v", err)
		}
		if err := w.Unwatch(context.Background(), "bob"); !errors.Is(err, viewer.ErrEnded) {
			t.Errorf("Unwatch: %v", err)
		}
	})
}

func TestManyTargetsGoInSmallRequests(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := stage.New(t, 1)
		s.Start(fanout.Config{})
		w := watch(s, viewer.Config{})
		targets := make([]string, 2500)
		for i := range targets {
			targets[i] = fmt.Sprintf("%0*d", rollcall.MaxID, i)
		}
		asked := make(chan *nats.Msg, 100)
		for _, op := range []subjects.Op{subjects.OpSubscribe, subjects.OpUnsubscribe} {
			if _, err := w.nc.ChanSubscribe(s.Fabric.Request(op, "alice"), asked); err != nil {
				t.Fatal(err)
			}
		}
		spy := newSpy(s)
		w.mustWatch(targets...)
		if err := w.Unwatch(t.Context(), targets...); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if spy.last(t).Targets != 0 || len(asked) < 6 {
			t.Errorf("%d targets are left after %d requests", spy.last(t).Targets, len(asked))
		}
		for len(asked) > 0 {
			if m := <-asked; len(m.Data) > 200_000 {
				t.Errorf("a request of %d bytes", len(m.Data))
			}
		}
	})
}

// version is the version of what is shown of a target.
func (w *watcher) version(target string) uint64 {
	w.t.Helper()
	state, ok := w.State(target)
	if !ok {
		w.t.Fatalf("nothing is known of %s", target)
	}
	return state.View.Version
}

// start runs a client whose changes nobody reads.
func start(s *stage.Stage, cfg viewer.Config) *viewer.Client {
	s.T.Helper()
	c, err := viewer.New(lab.Connect(s.T, s.Server.NewLink()), cfg)
	if err != nil {
		s.T.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); c.Run(ctx) }()
	s.T.Cleanup(func() { cancel(); <-ended })
	return c
}

func contextFor(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}

// A spy hears what alice is told and counts what she asks for.
type spy struct {
	events, asked *nats.Subscription
	position      subjects.Position
	count         int
}

func newSpy(s *stage.Stage) *spy {
	s.T.Helper()
	nc := lab.Connect(s.T, s.Server.NewLink())
	events, err := nc.SubscribeSync(s.Fabric.ViewEventsAll("alice"))
	if err != nil {
		s.T.Fatal(err)
	}
	asked, err := nc.SubscribeSync(s.Fabric.Request(subjects.OpSubscribe, "alice"))
	if err != nil {
		s.T.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		s.T.Fatal(err)
	}
	return &spy{events: events, asked: asked}
}

// last is the position of the last message.
func (v *spy) last(t *testing.T) subjects.Position {
	t.Helper()
	for {
		m, err := v.events.NextMsg(time.Millisecond)
		if err != nil {
			return v.position
		}
		message, err := subjects.DecodeMessage(m.Data)
		if err != nil {
			t.Fatal(err)
		}
		v.position = message.Position
	}
}

// requests is how many subscribe requests there were so far.
func (v *spy) requests() int {
	for {
		if _, err := v.asked.NextMsg(time.Millisecond); err != nil {
			return v.count
		}
		v.count++
	}
}

package viewer_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/fanout"
	"github.com/rollcall-io/rollcall/fanout/internal/stage"
	"github.com/rollcall-io/rollcall/fanout/viewer"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/subjects"
)

func TestAStallTurnsViewsUnknownNotOffline(t *testing.T) { // scenario 23
	for name, stall := range map[string]struct {
		begin, end func(*stage.Stage)
		reason     string
	}{
		"keeper silent": {func(s *stage.Stage) { s.Silence(true) }, func(s *stage.Stage) { s.Silence(false) }, fanout.ReasonKeeperSilent},
		"feed behind":   {func(s *stage.Stage) { s.Announce(1000) }, func(s *stage.Stage) { s.Announce(0) }, fanout.ReasonFeedBehind},
	} {
		t.Run(name, func(t *testing.T) {
			lab.Bubble(t, func(t *testing.T) {
				s := stage.New(t, 1)
				s.Set("bob", rollcall.Active)
				s.Set("carol", rollcall.Active)
				s.Start(fanout.Config{})
				w := watch(s, viewer.Config{})
				w.mustWatch("bob", "carol")
				time.Sleep(time.Minute)
				w.changes()
				stall.begin(s)
				time.Sleep(30 * time.Second)
				unknown := "unknown/" + stall.reason
				w.expect(map[string]string{"bob": unknown, "carol": unknown})
				s.Set("carol", rollcall.Offline) // arrives, and is not shown yet
				s.StalePulse()
				time.Sleep(90 * time.Second)
				w.expect(map[string]string{"bob": unknown, "carol": unknown})
				late, err := w.Get(t.Context(), "bob")
				if err != nil || shown(late["bob"], true) != unknown {
					t.Errorf("get during the stall: %v, %+v", err, late)
				}
				stall.end(s)
				if stall.reason == fanout.ReasonFeedBehind {
					for range 1000 { // what was announced comes after all
						s.Set("dave", rollcall.Active)
					}
				}
				time.Sleep(20 * time.Second)
				w.expect(map[string]string{"bob": "online", "carol": "offline"})
				changes := w.changes()
				if got := statuses(changes, "bob"); !slices.Equal(got, []string{unknown, "online"}) {
					t.Errorf("bob was shown as %v", got)
				}
				if got := statuses(changes, "carol"); slices.Contains(got[:len(got)-1], "offline") {
					t.Errorf("carol was shown as %v", got)
				}
			})
		})
	}
}

// forge sends a message on the viewer's stream as if the fanout had.
func (w *watcher) forge(s *stage.Stage, p subjects.Position, changes ...subjects.View) {
	w.t.Helper()
	data, err := json.Marshal(subjects.Message{Position: p, Changes: changes})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.nc.Publish(s.Fabric.ViewEvents("alice", p.Shard), data); err != nil {
		w.t.Fatal(err)
	}
}

func TestLostMessagesAreNoticedWithinSeconds(t *testing.T) { // scenarios 25, 26
	lab.Bubble(t, func(t *testing.T) {
		s := stage.New(t, 1)
		s.Set("bob", rollcall.Active)
		s.Start(fanout.Config{})
		w := watch(s, viewer.Config{})
		w.mustWatch("bob")
		v := newSpy(s)
		s.Set("bob", rollcall.Idle)
		time.Sleep(5 * time.Second)
		at := v.last(t)
		wrong := subjects.View{Target: "bob", Status: rollcall.StatusOffline, Version: w.version("bob") - 1}
		w.forge(s, at, wrong) // late, with an older version
		time.Sleep(time.Second)
		w.expect(map[string]string{"bob": "online"})
		asked := v.requests()
		for _, lost := range []uint64{1, 3} { // the last message; several
			p := v.last(t)
			p.Seq += lost
			w.forge(s, p)
			time.Sleep(1500 * time.Millisecond)
			if v.requests() == asked {
				t.Errorf("%d lost messages were not noticed", lost)
			}
			// The fanout stands where it stood. The client must not ask for ever.
			time.Sleep(10 * time.Second)
			asked = v.requests()
			time.Sleep(10 * time.Second)
			if now := v.requests(); now != asked {
				t.Errorf("%d requests go on and on", now-asked)
			}
		}
		s.Set("bob", rollcall.Offline)
		time.Sleep(time.Second)
		w.expect(map[string]string{"bob": "offline"})
	})
}

func TestAReconnectDoesNotFlicker(t *testing.T) { // scenario 27
	lab.Bubble(t, func(t *testing.T) {
		s := stage.New(t, 4)
		all := []string{"bob", "carol", "dave", "erin"}
		s.PutAll(all, rollcall.Active)
		s.Start(fanout.Config{})
		w := watch(s, viewer.Config{})
		w.mustWatch(all...)
		spy := newSpy(s)
		time.Sleep(time.Second)
		w.changes()
		w.link.Cut()
		time.Sleep(20 * time.Second)
		w.expect(map[string]string{"bob": "unknown/disconnected", "erin": "unknown/disconnected"})
		s.Set("carol", rollcall.Offline)
		s.Set("dave", rollcall.Offline)
		s.Set("dave", rollcall.Active)
		time.Sleep(40 * time.Second)
		w.link.Heal()
		time.Sleep(5 * time.Second)
		if n := spy.requests(); n != 1 {
			t.Errorf("%d snapshots after the reconnect", n)
		}
		changes := w.changes()
		for _, target := range all {
			want := []string{"unknown/disconnected", "online"}
			if target == "carol" {
				want[1] = "offline"
			}
			if got := statuses(changes, target); !slices.Equal(got, want) {
				t.Errorf("%s was shown as %v", target, got)
			}
		}
		// A short cut does not show at all.
		w.link.Cut()
		time.Sleep(5 * time.Second)
		w.link.Heal()
		time.Sleep(5 * time.Second)
		if changes := w.changes(); len(changes) > 0 {
			t.Errorf("after a short cut: %+v", changes)
		}
	})
}

func TestASilentFanoutIsNoticed(t *testing.T) {
	for name, fail := range map[string]func(*stage.Running){
		"crash":  func(r *stage.Running) { r.Crash() },
		"freeze": func(r *stage.Running) { r.Link.Freeze() },
	} {
		t.Run(name, func(t *testing.T) {
			lab.Bubble(t, func(t *testing.T) {
				s := stage.New(t, 2)
				s.Set("bob", rollcall.Active)
				f := s.Start(fanout.Config{})
				w := watch(s, viewer.Config{})
				w.mustWatch("bob")
				fail(f)
				time.Sleep(90 * time.Second)
				w.expect(map[string]string{"bob": "unknown/fanout_silent"})
				s.Set("bob", rollcall.Offline)
				s.Start(fanout.Config{})
				// The server goes on routing requests to a frozen fanout until it
				// misses the answers to its pings.
				time.Sleep(10 * time.Minute)
				w.expect(map[string]string{"bob": "offline"})
			})
		})
	}
}

func TestATakeoverNeedsNoClientAction(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := stage.New(t, 2)
		s.PutAll([]string{"bob", "carol"}, rollcall.Active)
		first := s.Start(fanout.Config{})
		w := watch(s, viewer.Config{})
		w.mustWatch("bob", "carol")
		s.Set("bob", rollcall.Idle)
		time.Sleep(10 * time.Second)
		version := w.version("bob")
		w.changes()
		s.Start(fanout.Config{})
		<-first.Ended
		if !errors.Is(first.Err, rollcall.ErrNotOwner) {
			t.Errorf("the first fanout ended with %v", first.Err)
		}
		s.Set("bob", rollcall.Offline)
		time.Sleep(5 * time.Second)
		w.expect(map[string]string{"bob": "offline", "carol": "online"})
		if now := w.version("bob"); now>>22 <= version>>22 {
			t.Errorf("version %d after %d", now, version)
		}
		if got := statuses(w.changes(), "bob"); !slices.Equal(got, []string{"offline"}) {
			t.Errorf("bob was shown as %v", got)
		}
	})
}

func TestTwoClientsOfOneViewer(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := stage.New(t, 1)
		s.PutAll([]string{"a", "b", "c"}, rollcall.Active)
		s.Start(fanout.Config{})
		one, two := watch(s, viewer.Config{}), watch(s, viewer.Config{})
		one.mustWatch("a", "b")
		two.mustWatch("b", "c")
		if err := two.Unwatch(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		s.PutAll([]string{"a", "b", "c"}, rollcall.Offline)
		time.Sleep(3 * time.Second)
		one.expect(map[string]string{"a": "offline", "b": "offline", "c": ""})
		two.expect(map[string]string{"a": "", "b": "", "c": "offline"})
	})
}

func TestASlowReaderGetsTheNewest(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := stage.New(t, 1)
		s.PutAll([]string{"bob", "carol"}, rollcall.Offline)
		s.Start(fanout.Config{})
		c := start(s, viewer.Config{Viewer: "alice"})
		if err := c.Watch(t.Context(), "bob", "carol"); err != nil {
			t.Fatal(err)
		}
		for i := range 101 {
			s.Set("bob", []rollcall.State{rollcall.Active, rollcall.Idle}[i%2])
			time.Sleep(time.Second)
		}
		s.Set("carol", rollcall.Background)
		time.Sleep(time.Second)
		got := map[string]string{}
		for range 2 {
			change := <-c.Changes()
			got[change.Target] = change.View.State
		}
		if got["bob"] != "active" || got["carol"] != "background" {
			t.Errorf("read %v", got)
		}
		time.Sleep(time.Second)
		select {
		case change := <-c.Changes():
			t.Errorf("and then %+v", change)
		default:
		}
	})
}

func TestRefusals(t *testing.T) { // scenario 29
	lab.Bubble(t, func(t *testing.T) {
		s := stage.New(t, 4)
		s.Start(fanout.Config{})
		w := watch(s, viewer.Config{})
		many := make([]string, 10_001)
		for i := range many {
			many[i] = string(rune('a'+i%26)) + time.Duration(i).String()
		}
		for name, row := range map[string]struct {
			targets []string
			want    subjects.Code
		}{
			"none": {nil, subjects.CodeNoTargets}, "10,001": {many, subjects.CodeTooManyTargets},
			"empty": {[]string{"bob", ""}, subjects.CodeInvalidID}, "not UTF-8": {[]string{"\xff"}, subjects.CodeInvalidID},
			"10,000": {many[:10_000], ""}, "one more": {[]string{"* > . "}, subjects.CodeTooManyTargets},
		} {
			if name == "one more" {
				continue // after the others
			}
			checkCode(t, name, w.Watch(t.Context(), row.targets...), row.want)
		}
		checkCode(t, "one more", w.Watch(t.Context(), "* > . "), subjects.CodeTooManyTargets)
		if err := w.Unwatch(t.Context(), many[:10_000]...); err != nil {
			t.Fatal(err)
		}
		s.Set("* > . ", rollcall.Active)
		w.mustWatch("* > . ")
		time.Sleep(time.Second)
		w.expect(map[string]string{"* > . ": "online"})
	})
}

func checkCode(t *testing.T, name string, err error, want subjects.Code) {
	t.Helper()
	var refusal *subjects.Error
	if errors.As(err, &refusal); want == "" && err != nil || want != "" && (refusal == nil || refusal.Code != want) {
		t.Errorf("%s: %v, want %q", name, err, want)
	}
}

func TestAWatchWithoutFanoutIsAnsweredLater(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		s := stage.New(t, 1)
		s.Set("bob", rollcall.Active)
		w := watch(s, viewer.Config{})
		ctx, cancel := contextFor(t, 3*time.Second)
		defer cancel()
		if err := w.Watch(ctx, "bob"); err == nil {
			t.Fatal("answered by nobody")
		}
		w.expect(map[string]string{"bob": ""})
		s.Start(fanout.Config{})
		time.Sleep(12 * time.Second)
		w.expect(map[string]string{"bob": "online"})
	})
}

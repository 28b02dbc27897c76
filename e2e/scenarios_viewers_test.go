package e2e_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/e2e"
	"github.com/rollcall-io/rollcall/edge"
	"github.com/rollcall-io/rollcall/fanout/viewer"
	"github.com/rollcall-io/rollcall/subjects"
)

// A viewer subscribes while changes of the target are in flight: snapshot and events
// together give the last state, whatever their order.
func TestScenario24SubscribeRacesChanges(t *testing.T) {
	const rounds, users = 300, 4
	scenario(t, e2e.Options{}, func(t *testing.T, f *stage) {
		targets := names("u", users)
		v := f.StartViewer("vera", "somebody else")
		g := f.StartEdge("g1")
		devices := f.connectAll(g, targets)
		random := rand.New(rand.NewPCG(24, 24))
		moment := func() time.Duration { return time.Duration(random.IntN(40)) * time.Millisecond }
		last := slices.Repeat([]edge.State{active}, users)
		for round := range rounds {
			for _, p := range []*e2e.Process{v.Process, g.Process, f.fanout.Process, f.keeper.Process} {
				p.Link.Delay(moment())
			}
			if round%2 == 1 {
				if err := v.Unwatch(t.Context(), targets...); err != nil {
					t.Fatal(err)
				}
			}
			watched := make(chan error, 1)
			time.AfterFunc(2*moment(), func() { watched <- v.Watch(t.Context(), targets...) })
			for range 6 {
				time.Sleep(moment())
				i := random.IntN(users)
				last[i] = []edge.State{active, idle, background}[random.IntN(3)]
				say(t, devices[i], last[i])
			}
			if err := <-watched; err != nil {
				t.Fatal(err)
			}
			f.At((f.Now() + 10*second).Truncate(second))
			for i, target := range targets {
				want := map[edge.State]string{active: "active", idle: "idle", background: "background"}[last[i]]
				if s, _ := v.State(target); s.View.State != want {
					t.Fatalf("round %d: %s is shown as %q, want %q", round, target, s.View.State, want)
				}
			}
		}
	})
}

// An event with an older version arrives late, or again: the client drops it.
func TestScenario25LateEventIsDropped(t *testing.T) {
	scenario(t, e2e.Options{}, func(t *testing.T, f *stage) {
		v := f.StartViewer("vera", "ann")
		wire := f.Overhear("vera")
		g := f.StartEdge("g1")
		phone := f.Connect(g, "ann", "phone")
		f.At(100 * second)
		phone.Close()
		f.At(200 * second)
		f.Connect(g, "ann", "phone")
		f.At(210 * second)
		want := []string{"ann online@0", "ann offline@120", "ann online@200"}
		v.Want(want...)
		for _, late := range wire.News() {
			wire.Repeat(late)
			f.At(f.Now() + 10*second)
			if got := v.Status("ann"); got != rollcall.StatusOnline {
				t.Errorf("after a late event ann is %s, want online", got)
			}
		}
		v.Want(want...)
	})
}

// A viewer loses messages: it notices the gap and has the full state within seconds.
func TestScenario26LostMessages(t *testing.T) {
	t.Run("without a word", func(t *testing.T) {
		for lost := range 3 {
			scenario(t, e2e.Options{Shards: 1}, func(t *testing.T, f *stage) { f.loseMessage(lost) })
		}
	})
	t.Run("with the connection", func(t *testing.T) {
		scenario(t, e2e.Options{}, func(t *testing.T, f *stage) {
			users := names("u", 50)
			v := f.StartViewer("vera", users...)
			devices := f.connectAll(f.StartEdge("g1"), users)
			f.At(100 * second)
			for _, d := range devices[:25] {
				d.Close()
			}
			f.At(119*second + 900*time.Millisecond)
			v.Link.Cut() // the offlines come and are lost
			f.At(121 * second)
			v.Link.Heal()
			f.At(125 * second)
			for i, u := range users {
				want := "online offline"
				if i >= 25 {
					want = "online"
				}
				wantStatuses(t, v.RowsOf(u), want)
			}
		})
	})
}

// loseMessage drops one of three messages of changes, and the repetitions of its
// number if it is the last, before a reducer that asks when it notices.
func (f *stage) loseMessage(lost int) {
	f.T.Helper()
	t, targets := f.T, []string{"ann", "bob", "carol"}
	wire := f.Overhear("vera")
	devices := f.connectAll(f.StartEdge("g1"), targets)
	f.At(10 * second)
	r := viewer.NewReducer()
	r.Want(targets...)
	subscribe := func() {
		body, err := json.Marshal(subjects.Request{Targets: targets})
		if err != nil {
			t.Fatal(err)
		}
		reply, _ := wire.Ask(subjects.OpSubscribe, body)
		r.Reply(reply, viewer.Answer{Asked: targets, Base: map[int]bool{0: true}}, time.Now())
	}
	subscribe()
	for _, d := range devices {
		d.Close()
		f.At(f.Now() + 5*second)
	}
	f.At(60 * second)
	var noticed time.Duration
	dropped, changes := e2e.Heard{}, 0
	for _, h := range wire.Heard() {
		if len(h.Changes) > 0 {
			if changes++; changes == lost+1 {
				dropped = h
				continue
			}
		}
		r.Message(h.Message, time.Now())
		if noticed == 0 && len(r.Lost(time.Now())) > 0 {
			noticed = h.At
		}
	}
	if changes != 3 || dropped.At == 0 {
		t.Fatalf("%d messages of changes, want 3", changes)
	}
	if d := noticed - dropped.At; d <= 0 || d > 5*second {
		t.Errorf("lost message %d: noticed after %s, want within 5 s", lost, d)
	}
	if s, _ := r.State(targets[lost]); s.View.Status != rollcall.StatusOnline {
		t.Errorf("%s is %s, want still online: the message was lost", targets[lost], s.View.Status)
	}
	subscribe()
	for _, target := range targets {
		if s, _ := r.State(target); s.View.Status != rollcall.StatusOffline {
			t.Errorf("after the snapshot %s is %s, want offline", target, s.View.Status)
		}
	}
	if lost := r.Lost(time.Now()); len(lost) > 0 {
		t.Errorf("still lost: %v", lost)
	}
}

// A viewer is away for a minute: then one snapshot, and no flicker through offline.
func TestScenario27ViewerAwayForAMinute(t *testing.T) {
	scenario(t, e2e.Options{}, func(t *testing.T, f *stage) {
		stay := names("stays", 20)
		v := f.StartViewer("vera", append(stay, "leaves", "comes", "returns")...)
		wire := f.Overhear("vera")
		g := f.StartEdge("g1")
		f.connectAll(g, stay)
		leaves, returns := f.Connect(g, "leaves", "phone"), f.Connect(g, "returns", "phone")
		f.At(100 * second)
		v.Link.Cut()
		wire.Requests()
		leaves.Close()
		returns.Close()
		f.At(125 * second)
		f.Connect(g, "comes", "phone")
		f.Connect(g, "returns", "phone")
		f.At(160 * second)
		v.Link.Heal()
		f.At(300 * second)
		asked := slices.DeleteFunc(wire.Requests(), func(op subjects.Op) bool { return op == subjects.OpRefresh })
		if !slices.Equal(asked, []subjects.Op{subjects.OpSubscribe}) {
			t.Errorf("asked %v, want one snapshot", asked)
		}
		for _, u := range append(stay, "returns") {
			wantStatuses(t, v.RowsOf(u), "online unknown online")
		}
		wantStatuses(t, v.RowsOf("leaves"), "online unknown offline")
		wantStatuses(t, known(v.RowsOf("comes")), "online")
	})
}

// A second subscription adds to the first; unsubscribing twice is no error.
func TestScenario28SecondSubscription(t *testing.T) {
	scenario(t, e2e.Options{}, func(t *testing.T, f *stage) {
		v := f.StartViewer("vera", "ann")
		g := f.StartEdge("g1")
		devices := f.connectAll(g, []string{"ann", "bob"})
		f.At(100 * second)
		if err := v.Watch(t.Context(), "ann", "bob", "bob"); err != nil {
			t.Fatal(err)
		}
		for _, d := range devices {
			d.Close()
		}
		f.At(200 * second)
		for _, u := range []string{"ann", "bob"} {
			wantStatuses(t, v.RowsOf(u), "online offline")
		}
		for range 2 {
			if err := v.Unwatch(t.Context(), "ann"); err != nil {
				t.Error(err)
			}
		}
		wire := f.Overhear("vera")
		f.connectAll(g, []string{"ann", "bob"})
		f.At(300 * second)
		wantStatuses(t, v.RowsOf("ann"), "online offline")
		wantStatuses(t, v.RowsOf("bob"), "online offline online")
		for _, h := range wire.News() {
			for _, c := range h.Changes {
				if c.Target != "bob" {
					t.Errorf("told of %s: %s", c.Target, fmt.Sprint(c))
				}
			}
		}
		for range 2 { // everything, by hand
			if _, code := wire.Ask(subjects.OpUnsubscribe, nil); code != "" {
				t.Errorf("unsubscribing from everything: %s", code)
			}
		}
	})
}

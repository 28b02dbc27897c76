package e2e_test

import (
	"fmt"
	"testing"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/e2e"
	"github.com/rollcall-io/rollcall/edge"
)

// 5,000 users of one edge go at once, and a viewer watches 200 of them: a handful of
// messages with all 200 changes.
func TestScenario36FiveThousandGoAtOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		leave func(*e2e.Edge, []*e2e.Device)
		bound func(rollcall.Bounds) rollcall.Window
	}{
		"close": {func(_ *e2e.Edge, devices []*e2e.Device) {
			for _, d := range devices {
				d.Close()
			}
		}, func(b rollcall.Bounds) rollcall.Window { return b.Close }},
		"crash": {func(g *e2e.Edge, _ []*e2e.Device) { g.Kill() },
			func(b rollcall.Bounds) rollcall.Window { return b.EdgeCrash }},
	} {
		t.Run(name, func(t *testing.T) {
			scenario(t, e2e.Options{}, func(t *testing.T, f *stage) {
				users := names("u", 5000)
				watched := users[1000:1200]
				v := f.StartViewer("vera", watched...)
				g := f.StartEdge("g1")
				devices := f.connectAll(g, users)
				f.At(100 * second)
				wire := f.Overhear("vera")
				tc.leave(g, devices)
				bound := tc.bound(f.Params.Bounds())
				f.At(100*second + bound.Latest + second)
				told, messages := make(map[string]int), wire.News()
				for _, m := range messages {
					if at := m.At - 100*second; !(rollcall.Window{Earliest: bound.Earliest, Latest: bound.Latest + second}).Contains(at) {
						t.Errorf("a message %s after they went", at)
					}
					for _, c := range m.Changes {
						if told[c.Target]++; c.Status != rollcall.StatusOffline {
							t.Errorf("%s: %s", c.Target, c.Status)
						}
					}
				}
				if len(told) != len(watched) {
					t.Errorf("told of %d users, want %d", len(told), len(watched))
				}
				for u, n := range told {
					if n != 1 {
						t.Errorf("%s: told %d times", u, n)
					}
				}
				if len(messages) > 3*f.Names.Shards() {
					t.Errorf("%d messages, want at most three in each shard", len(messages))
				}
				for _, u := range watched {
					wantStatuses(t, v.RowsOf(u), "online offline")
				}
				t.Logf("%d messages", len(messages))
			})
		})
	}
}

// 1,000 devices reconnect in the same second to edges that have just restarted: their
// renewals and heartbeats spread.
func TestScenario37ReconnectStorm(t *testing.T) {
	const count, perEdge = 50, 20
	scenario(t, e2e.Options{}, func(t *testing.T, f *stage) {
		edges := make([]*e2e.Edge, count)
		start := func() {
			for i := range edges {
				edges[i] = f.StartEdge(fmt.Sprintf("g%d", i))
			}
		}
		connect := func() {
			for i, g := range edges {
				for c := range perEdge {
					f.Connect(g, fmt.Sprintf("u%d-%d", i, c), "phone")
				}
			}
		}
		start()
		connect()
		f.At(100 * second)
		for _, g := range edges {
			g.Kill()
		}
		f.At(105 * second)
		start()
		load := f.MeasureRenewals()
		f.At(110 * second)
		connect()
		f.At(1200 * second)
		early, late := load.Beats(110*second, 170*second), load.Beats(900*second, 1100*second)
		renewed, _ := load.Peak()
		t.Logf("busiest second: %d connections renewed; %d heartbeats at first, %d a quarter of an hour later", renewed, early, late)
		// On average a sixtieth is renewed each second, whole leases at a time.
		if renewed > 1000/8 {
			t.Errorf("%d of 1,000 connections renewed in one second", renewed)
		}
		// On average a thirtieth of the devices beats each second, from the start.
		if most := 1000 / 10; early == 0 || early > most || late == 0 || late > most {
			t.Errorf("%d heartbeats in one second at first and %d later, want at most %d", early, late, most)
		}
		if s := f.keeper.Stats(); s.FalseOfflines != 0 || s.LeaseExpiries != 0 || s.Online != 1000 {
			t.Errorf("%d false offlines, %d expiries, %d online", s.FalseOfflines, s.LeaseExpiries, s.Online)
		}
	})
}

// A user flaps for ten minutes, coming and going every second or changing state ten
// times a second: a bounded number of events, and the right last state.
func TestScenario38Flapping(t *testing.T) {
	t.Run("coming and going", func(t *testing.T) {
		scenario(t, e2e.Options{}, func(t *testing.T, f *stage) {
			v := f.StartViewer("vera", "ann")
			g := f.StartEdge("g1")
			for range 300 {
				phone := f.Connect(g, "ann", "phone")
				f.At(f.Now() + second)
				phone.Close()
				f.At(f.Now() + second)
			}
			f.At(700 * second)
			v.Want("ann online@0", "ann offline@619")
		})
	})
	t.Run("changing state", func(t *testing.T) {
		scenario(t, e2e.Options{}, func(t *testing.T, f *stage) {
			v := f.StartViewer("vera", "ann")
			wire := f.Overhear("vera")
			phone := f.Connect(f.StartEdge("g1"), "ann", "phone")
			for i := range 6000 {
				f.At(f.Now() + second/10)
				say(t, phone, []edge.State{idle, active}[i%2])
			}
			say(t, phone, idle)
			f.At(f.Now() + 2*second)
			if s, _ := v.State("ann"); s.View.State != "idle" {
				t.Errorf("in the end ann is %q, want idle", s.View.State)
			}
			// Twenty at once and two a second.
			if got := len(wire.News()); got > 20+2*602 {
				t.Errorf("%d events for 6,000 changes", got)
			} else {
				t.Logf("%d events for 6,000 changes", got)
			}
		})
	})
}

package e2e_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/e2e"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/internal/trace"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// connectAll connects a phone of each user.
func (f *stage) connectAll(g *e2e.Edge, users []string) (devices []*e2e.Device) {
	f.T.Helper()
	for _, u := range users {
		devices = append(devices, f.Connect(g, u, "phone"))
	}
	return devices
}

// An edge is killed: exactly its connections end, not before last renewal + TTL +
// debounce, and at most one sweep later.
func TestScenario13EdgeKilled(t *testing.T) {
	scenario(t, e2e.Options{}, func(t *testing.T, f *stage) {
		g1, g2 := f.StartEdge("g1"), f.StartEdge("g2")
		lost, both, others := names("lost", 40), names("both", 5), names("other", 40)
		v := f.StartAudience(30*second, append(append(lost, both...), others...)...)
		f.connectAll(g1, append(lost, both...))
		f.connectAll(g2, others)
		for _, u := range both {
			f.Connect(g2, u, "laptop")
		}
		f.At(300 * second)
		renewed := make(map[string]time.Duration)
		for _, u := range lost {
			renewed[u] = f.Renewed("g1", u)
		}
		g1.Kill()
		f.At(300*second + f.Params.Bounds().EdgeCrash.Latest)
		for _, u := range lost {
			rows := v.RowsOf(u)
			if len(rows) != 2 || rows[1].Status != rollcall.StatusOffline {
				t.Fatalf("%s: %v, want online and offline", u, rows)
			}
			earliest := renewed[u] + f.Params.LeaseTTL + f.Params.Debounce
			if at := rows[1].At; at < earliest || at > earliest+f.Params.Sweep {
				t.Errorf("%s: offline at %s, want %s or one sweep later", u, at, earliest)
			}
		}
		f.At(1000 * second)
		for _, u := range append(both, others...) {
			if rows := v.RowsOf(u); len(rows) != 1 {
				t.Errorf("%s: %v, want online once", u, rows)
			}
		}
		if s := f.keeper.Stats(); s.Connections != 45 || s.LeaseExpiries != 4 {
			t.Errorf("%d connections, %d expired leases, want 45 and one in each shard", s.Connections, s.LeaseExpiries)
		}
	})
}

// The edge restarts in 5 s under its id, and its devices return within 10: nothing.
func TestScenario14EdgeRestarts(t *testing.T) {
	scenario(t, e2e.Options{}, func(t *testing.T, f *stage) {
		users := names("u", 100)
		v := f.StartViewer("vera", users...)
		g := f.StartEdge("g1")
		f.connectAll(g, users)
		f.At(100 * second)
		before := len(v.Rows())
		g.Kill()
		f.At(105 * second)
		g = f.StartEdge("g1")
		for _, u := range users {
			f.At(f.Now() + 95*time.Millisecond)
			f.Connect(g, u, "phone")
		}
		f.At(600 * second)
		if rows := v.Rows()[before:]; before != len(users) || len(rows) > 0 {
			t.Errorf("%d publications before the restart, then %v", before, rows)
		}
		if s := f.keeper.Stats(); s.EdgeRestarts != 4 || s.LeaseExpiries != 0 || s.Mismatches != 0 {
			t.Errorf("%d restarts, %d expiries, %d mismatches; want 4, 0, 0", s.EdgeRestarts, s.LeaseExpiries, s.Mismatches)
		}
	})
}

// An edge dies while the keeper clears the connections of another: both are cleared. A
// keeper that is killed half-way through 10,000 is continued by the next.
func TestScenario15KeeperKilledWhileClearing(t *testing.T) {
	for killed, count := range map[bool]int{false: 6000, true: 10_000} {
		t.Run(fmt.Sprintf("keeper killed %v", killed), func(t *testing.T) {
			scenario(t, e2e.Options{Shards: 1}, func(t *testing.T, f *stage) {
				many, few := names("many", count), names("few", 500)
				v := f.StartViewer("vera", many[0], many[count/2], many[count-1], few[0], "zoe")
				g1, g2 := f.StartEdge("g1"), f.StartEdge("g2")
				f.connectAll(g1, many)
				f.connectAll(g2, few)
				f.Connect(f.StartEdge("g3"), "zoe", "phone")
				f.At(100 * second)
				g1.Kill()
				expiry := f.Renewed("g1", many[0]) + f.Params.LeaseTTL
				f.At(expiry - second)
				f.keeper.Link.Delay(10 * time.Millisecond) // so that clearing takes a while
				bucket := f.Names.LeasesBucket(0)
				before := f.Written(bucket)
				for f.Written(bucket) < before+uint64(count/4) {
					f.At(f.Now() + time.Millisecond)
				}
				if n := f.Written(bucket) - before; n >= uint64(count) {
					t.Fatalf("%d records are written: too late to be half-way", n)
				}
				g2.Kill()
				if killed {
					f.keeper.Kill()
					f.At(f.Now() + 2*second)
					f.keeper = f.StartKeeper()
				}
				cleared := f.Now()
				f.At(cleared + f.Params.Bounds().EdgeCrash.Latest + 30*second)
				for key, record := range f.Bucket(f.Names.ViewsBucket(0)) {
					view := new(wire.View)
					if kind, user, err := subjects.ParseKey(key); err != nil || kind != subjects.KindView {
						continue
					} else if err := subjects.Decode([]byte(record.Value), view); err != nil {
						t.Error(err)
					} else if online := view.State != wire.State_STATE_OFFLINE; online != (user == "zoe") {
						t.Fatalf("%s is shown as %s", user, view.State)
					}
				}
				if s := f.keeper.Stats(); s.Connections != 1 || s.Online != 1 || s.Leases != 1 {
					t.Errorf("left: %d connections, %d online, %d leases; want zoe's", s.Connections, s.Online, s.Leases)
				}
				for _, u := range []string{many[0], many[count/2], many[count-1], few[0]} {
					if rows := v.RowsOf(u); len(rows) != 2 || rows[1].Status != rollcall.StatusOffline {
						t.Errorf("%s: %v, want online and offline", u, rows)
					}
				}
				if rows := v.RowsOf("zoe"); len(rows) != 1 {
					t.Errorf("zoe: %v, want online once", rows)
				}
			})
		})
	}
}

// The keeper is down for ten minutes while edges go on: nobody who is there goes
// offline; who left meanwhile does, as last seen when it was.
func TestScenario16KeeperDownForTenMinutes(t *testing.T) {
	scenario(t, e2e.Options{}, func(t *testing.T, f *stage) {
		stays := names("stays", 20)
		v := f.StartAudience(30*second, append([]string{"closes", "falls silent", "crashes", "comes"}, stays...)...)
		g1, g2 := f.StartEdge("g1"), f.StartEdge("g2")
		f.connectAll(g1, stays)
		closes, silent := f.Connect(g1, "closes", "phone"), f.Connect(g1, "falls silent", "phone")
		f.Connect(g2, "crashes", "phone")
		f.At(300 * second)
		f.keeper.Kill()
		f.At(400 * second)
		crashed := f.Renewed("g2", "crashes")
		g2.Kill()
		f.At(500 * second)
		silent.Silence()
		f.At(610 * second)
		closes.Close()
		f.At(700 * second)
		f.Connect(g1, "comes", "phone")
		f.At(900 * second)
		f.keeper = f.StartKeeper()
		back := f.Now()
		f.At(1300 * second)
		for _, u := range stays {
			wantStatuses(t, v.RowsOf(u), "online unknown online")
		}
		wantStatuses(t, known(v.RowsOf("comes")), "online")
		for user, left := range map[string]struct {
			latest time.Duration // after the return
			seen   [2]time.Duration
		}{
			"closes":       {f.Params.Debounce, [2]time.Duration{610 * second, 610 * second}},
			"falls silent": {f.Params.Debounce, [2]time.Duration{470 * second, 500 * second}},
			"crashes":      {f.Params.LongestRenewal() + f.Params.Sweep + f.Params.Debounce, [2]time.Duration{crashed, 400 * second}},
		} {
			rows := v.RowsOf(user)
			wantStatuses(t, rows, "online unknown online offline")
			if len(rows) == 4 && rows[3].At > back+left.latest+second {
				t.Errorf("%s: offline %s after the keeper's return, want at most %s", user, rows[3].At-back, left.latest)
			}
			if seen := f.Since(rollcall.Micros(f.ViewOf(user).Seen)); seen < left.seen[0] || seen > left.seen[1] {
				t.Errorf("%s: last seen at %s, want %v", user, seen, left.seen)
			}
		}
	})
}

// wantStatuses fails unless just these were shown one after the other.
func wantStatuses(t *testing.T, rows []trace.Row, want string) {
	t.Helper()
	var got []string
	for _, r := range rows {
		got = append(got, string(r.Status))
	}
	if got = slices.Compact(got); strings.Join(got, " ") != want {
		t.Errorf("shown %v, want %s", rows, want)
	}
}

// known leaves out where nothing was known. Of a target that is first heard of when an
// interruption ends, that may be shown or not: a reader who is quick sees it.
func known(rows []trace.Row) []trace.Row {
	return slices.DeleteFunc(rows, func(r trace.Row) bool { return r.Status == rollcall.StatusUnknown })
}

// The store is down for ten minutes while edges and devices stay: nobody goes offline
// when it returns, except who left meanwhile.
func TestScenario17ServerDownForTenMinutes(t *testing.T) {
	scenario(t, e2e.Options{}, func(t *testing.T, f *stage) {
		users := names("u", 50)
		v := f.StartViewer("vera", append(users, "leaves")...)
		g := f.StartEdge("g1")
		f.connectAll(g, users)
		leaves := f.Connect(g, "leaves", "phone")
		f.At(300 * second)
		f.Server.Stop()
		f.At(500 * second)
		leaves.Close()
		f.At(900 * second)
		f.Server.Start()
		f.At(902 * second)
		f.At(1500 * second)
		for _, u := range users {
			wantStatuses(t, v.RowsOf(u), "online unknown online")
		}
		rows := v.RowsOf("leaves")
		wantStatuses(t, rows, "online unknown online offline")
		if at := rows[len(rows)-1].At; at < 920*second || at > 925*second {
			t.Errorf("who left meanwhile is offline at %s, want a debounce after the return", at)
		}
		s := f.keeper.Stats()
		if s.LeaseExpiries != 0 || s.Gaps != 4 || s.Mismatches != 0 || s.FalseOfflines != 0 {
			t.Errorf("%d expiries, %d gaps, %d mismatches, %d false offlines; want only a gap in each shard",
				s.LeaseExpiries, s.Gaps, s.Mismatches, s.FalseOfflines)
		}
	})
}

// The store loses its last 30 s of acknowledged writes, of the log, of the buckets or
// of both: one longest renewal later the state is right again, and nobody was shown
// offline who was there all the time.
func TestScenario18StoreLosesItsTail(t *testing.T) {
	logs := func(f *stage) []string { return []string{f.Names.LogStream(0)} }
	buckets := func(f *stage) []string {
		return []string{subjects.KVStream(f.Names.LeasesBucket(0)), subjects.KVStream(f.Names.ViewsBucket(0))}
	}
	streams := map[string]func(*stage) []string{
		"log":     logs,
		"leases":  func(f *stage) []string { return buckets(f)[:1] },
		"views":   func(f *stage) []string { return buckets(f)[1:] },
		"buckets": buckets,
		"all":     func(f *stage) []string { return append(logs(f), buckets(f)...) },
	}
	for name, lost := range streams {
		t.Run(name, func(t *testing.T) {
			scenario(t, e2e.Options{Shards: 1}, func(t *testing.T, f *stage) { f.loseTail(lost(f), false) })
		})
		t.Run(name+" and the keeper restarts", func(t *testing.T) {
			scenario(t, e2e.Options{Shards: 1}, func(t *testing.T, f *stage) { f.loseTail(lost(f), true) })
		})
	}
}

// loseTail has the streams lose 30 s in which devices came, left and went idle; the
// keeper may have to start on what is left.
func (f *stage) loseTail(streams []string, restart bool) {
	f.T.Helper()
	t := f.T
	stay, come, leave, calm := names("stays", 30), names("comes", 10), names("leaves", 10), names("calms", 10)
	everybody := append(append(append(stay, come...), leave...), calm...)
	v := f.StartViewer("vera", everybody...)
	g := f.StartEdge("g1")
	f.connectAll(g, stay)
	leavers, calmers := f.connectAll(g, leave), f.connectAll(g, calm)
	f.At(200 * second)
	var snapshots []*lab.Snapshot
	for _, stream := range streams {
		snapshots = append(snapshots, f.Server.Snapshot(stream))
	}
	f.At(203 * second) // what happens from here on is acknowledged, and lost
	f.connectAll(g, come)
	for i := range leavers {
		leavers[i].Close()
		say(t, calmers[i], idle)
	}
	f.At(230 * second) // those who left are offline by now
	if restart {
		f.keeper.Kill()
	}
	f.Server.Stop()
	for _, s := range snapshots {
		f.Server.Restore(s)
	}
	f.Server.Start()
	if restart {
		f.keeper = f.StartKeeper()
	}
	for _, at := range []time.Duration{230*second + f.Params.LongestRenewal() + f.Params.Debounce + second, 600 * second} {
		f.At(at)
		f.wantTruth(v, "online active", append(stay, come...)...)
		f.wantTruth(v, "online idle", calm...)
		f.wantTruth(v, "offline ", leave...)
	}
	for _, r := range v.Rows() {
		if r.Status == rollcall.StatusOffline && r.User[:5] != "leave" {
			t.Errorf("%s was shown offline at %s", r.User, r.At)
		}
	}
	if s := f.keeper.Stats(); s.LeaseExpiries != 0 || s.Connections != 50 {
		t.Errorf("%d expiries, %d connections; want 0 and 50", s.LeaseExpiries, s.Connections)
	}
}

// Devices that moved to another edge in what was lost: the edge they left denies them,
// and the one that they came to says in time that they are there.
func TestScenario18TheLostTailHeldAMove(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprint("the keeper restarts ", restart), func(t *testing.T) {
			scenario(t, e2e.Options{Shards: 1}, func(t *testing.T, f *stage) { f.loseMove(restart) })
		})
	}
}

func (f *stage) loseMove(restart bool) {
	f.T.Helper()
	moved := names("moves", 10)
	v := f.StartViewer("vera", moved...)
	g1, g2 := f.StartEdge("g1"), f.StartEdge("g2")
	f.connectAll(g1, moved)
	f.connectAll(g2, names("stays", 1))
	f.At(200 * second)
	var snapshots []*lab.Snapshot
	for _, stream := range []string{f.Names.LogStream(0), subjects.KVStream(f.Names.LeasesBucket(0)), subjects.KVStream(f.Names.ViewsBucket(0))} {
		snapshots = append(snapshots, f.Server.Snapshot(stream))
	}
	f.At(203 * second)
	f.connectAll(g2, moved) // acknowledged, and lost
	f.At(205 * second)
	if restart {
		f.keeper.Kill()
	}
	f.Server.Stop()
	for _, s := range snapshots {
		f.Server.Restore(s)
	}
	f.Server.Start()
	if restart {
		f.keeper = f.StartKeeper()
	}
	f.At(500 * second)
	f.wantTruth(v, "online active", moved...)
	for _, r := range v.Rows() {
		if r.Status == rollcall.StatusOffline {
			f.T.Errorf("%s was shown offline at %s", r.User, r.At)
		}
	}
}

// wantTruth fails unless the targets are shown so, as "status state".
func (f *stage) wantTruth(v *e2e.Viewer, want string, targets ...string) {
	f.T.Helper()
	for _, target := range targets {
		s, _ := v.State(target)
		if got := fmt.Sprintf("%s %s", s.View.Status, s.View.State); got != want {
			f.T.Errorf("at %s %s is shown as %q, want %q", f.Now(), target, got, want)
			return
		}
	}
}

// A stale keeper wakes after its successor took over: none of its writes counts.
func TestScenario19StaleKeeperWakes(t *testing.T) {
	scenario(t, e2e.Options{}, func(t *testing.T, f *stage) {
		v := f.StartViewer("vera", "ann", "bob", "carol")
		g := f.StartEdge("g1")
		phone := f.Connect(g, "ann", "phone")
		bobs := f.Connect(g, "bob", "phone")
		stale := f.keeper
		f.At(98 * second)
		stale.Link.Delay(second)
		f.At(100 * second)
		phone.Close()
		carols := f.Connect(g, "carol", "phone")
		f.At(101*second + 500*time.Millisecond)
		stale.Link.Freeze() // with its writes about carol on the way
		f.At(105 * second)
		f.keeper = f.StartKeeper()
		f.At(110 * second)
		carols.Close()
		bobs.Close()
		f.At(150 * second)
		rows := len(v.Rows())
		before := f.usersAndViews()
		stale.Link.Delay(0)
		stale.Link.Thaw()
		if err := stale.Ended(); !errors.Is(err, rollcall.ErrNotOwner) {
			t.Errorf("the stale keeper ended with %v, want %v", err, rollcall.ErrNotOwner)
		}
		f.At(170 * second)
		if after := f.usersAndViews(); !maps.Equal(before, after) {
			t.Errorf("the stale keeper has written: %v, was %v", after, before)
		}
		if got := v.Rows()[rows:]; len(got) > 0 {
			t.Errorf("shown after the stale keeper woke: %v", got)
		}
		for _, u := range []string{"ann", "bob", "carol"} {
			if got := v.Status(u); got != rollcall.StatusOffline {
				t.Errorf("%s is %s, want offline", u, got)
			}
		}
		f.Connect(g, "ann", "phone") // and the new keeper goes on
		f.At(171 * second)
		if got := v.Status("ann"); got != rollcall.StatusOnline {
			t.Errorf("ann is %s, want online", got)
		}
	})
}

// usersAndViews is what the buckets hold of users.
func (f *stage) usersAndViews() map[string]e2e.Record {
	all := make(map[string]e2e.Record)
	for shard := range f.Names.Shards() {
		for _, bucket := range []string{f.Names.LeasesBucket(shard), f.Names.ViewsBucket(shard)} {
			for key, record := range f.Bucket(bucket) {
				kind, _, _ := subjects.ParseKey(key)
				if kind == subjects.KindUser || kind == subjects.KindView || kind == subjects.KeyOwner {
					all[bucket+"/"+key] = record
				}
			}
		}
	}
	return all
}

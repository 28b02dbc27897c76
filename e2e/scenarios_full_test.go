package e2e_test

import (
	"bytes"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/e2e"
)

// The disk of the store is full for ten minutes. Meanwhile people come and leave, an edge crashes, a gateway
// and perhaps a keeper start again. Nobody who is there is ever shown offline; viewers see unknown. With
// room again everything that happened is caught up, and everything else is as before.
func TestFullStore(t *testing.T) {
	options := func(log *bytes.Buffer) e2e.Options {
		return e2e.Options{Shards: 2, Logger: slog.New(slog.NewTextHandler(log, nil))}
	}
	t.Run("all go on", func(t *testing.T) {
		var log bytes.Buffer
		scenario(t, options(&log), func(t *testing.T, f *stage) {
			fullForTenMinutes(t, f, func() {})
			if s := f.keeper.Stats(); s.FalseOfflines != 0 || s.Online != 22 || s.Connections != 22 {
				t.Errorf("in the end %+v", s)
			}
		})
		saysSo(t, &log, `msg="the store is full and refuses writes, trying on; 'rollcall doctor' says where" shard=0 .*what=ticks`,
			`msg="the store is full and refuses writes, trying on; 'rollcall doctor' says where" edge=g1 what=presence.log.0.g1`,
			`msg="the store takes writes again" shard=0 .*what=ticks after=`, `msg="the store takes writes again" edge=g1 what=presence.log.0.g1 after=`)
	})
	t.Run("the keeper starts again", func(t *testing.T) {
		var log bytes.Buffer
		scenario(t, options(&log), func(t *testing.T, f *stage) {
			fullForTenMinutes(t, f, func() {
				f.keeper.Kill()
				f.keeper = f.StartKeeper()
			})
		})
		saysSo(t, &log, `msg="shard interrupted, taking it over again" group=keeper shard=0 .*insufficient resources`)
	})
	t.Run("keepers and fanouts in groups", func(t *testing.T) {
		var log bytes.Buffer
		shared(t, options(&log), func(t *testing.T, c *crew) {
			fullForTenMinutes(t, c.stage, func() {
				c.kill("a")
				c.start("a")
			})
		})
		saysSo(t, &log)
	})
}

// saysSo fails unless a log of trouble has these lines, and few others.
func saysSo(t *testing.T, log *bytes.Buffer, want ...string) {
	t.Helper()
	for _, pattern := range want {
		if n := len(regexp.MustCompile(pattern).FindAllString(log.String(), -1)); n != 1 {
			t.Errorf("%d lines of the log say %s", n, pattern)
		}
	}
	if n := strings.Count(log.String(), "\n"); n > 120 {
		t.Errorf("%d lines are logged:\n%s", n, log)
	}
}

func fullForTenMinutes(t *testing.T, f *stage, meanwhile func()) {
	steady, watched := names("s", 20), []string{"leaver", "newcomer", "crashed", "moved"}
	v := f.StartViewer("vera", append(watched, steady...)...)
	g, crashing, restarting := f.StartEdge("g1"), f.StartEdge("g2"), f.StartEdge("g3")
	f.connectAll(g, steady)
	leaver := f.Connect(g, "leaver", "phone")
	f.Connect(crashing, "crashed", "phone")
	f.Connect(restarting, "moved", "phone")
	f.At(100 * second)

	makeRoom := f.Fill(4 << 20)
	full := f.Now()
	if full > 110*second {
		t.Fatalf("it took %s to fill the store", full)
	}
	f.At(120 * second)
	leaver.Close()
	f.Connect(g, "newcomer", "phone")
	crashing.Kill()
	restarting.Kill()
	restarting = f.StartEdge("g3")
	f.Connect(restarting, "moved", "phone")
	f.At(200 * second)
	meanwhile()
	var late *e2e.Viewer
	came := make(chan time.Duration)
	go func() { // it is answered when its interest can be stored
		late = f.StartViewer("late", "s000", "leaver")
		came <- f.Now()
	}()
	f.At(700 * second)
	for _, u := range append(watched, steady...) {
		if got := v.Status(u); got != rollcall.StatusUnknown && u != "newcomer" {
			t.Errorf("while the store is full %s is shown %s", u, got)
		}
	}
	if got := g.Stats(); got.Refusals == 0 || got.Pending == 0 || got.Pending > 3 {
		t.Errorf("the edge has %d changes pending, refused %d times", got.Pending, got.Refusals)
	}

	makeRoom()
	if at := <-came; at > 710*second {
		t.Errorf("who subscribes meanwhile is answered at %s", at)
	}
	f.At(715 * second) // the longest pause of whoever tries again, and the time to take over
	for _, u := range append([]string{"newcomer", "moved"}, steady...) {
		if got := v.Status(u); got != rollcall.StatusOnline {
			t.Errorf("15 s after there is room, %s is shown %s", u, got)
		}
	}
	f.At(1000 * second)
	shown := func(v *e2e.Viewer, user string) (statuses []rollcall.Status) {
		for _, row := range v.RowsOf(user) {
			statuses = append(statuses, row.Status)
		}
		return slices.Compact(statuses)
	}
	const online, unknown, offline = rollcall.StatusOnline, rollcall.StatusUnknown, rollcall.StatusOffline
	for _, u := range append([]string{"moved"}, steady...) {
		if got := shown(v, u); !slices.Equal(got, []rollcall.Status{online, unknown, online}) {
			t.Errorf("%s was shown %v", u, got)
		}
	}
	for _, u := range []string{"leaver", "crashed"} {
		if got := shown(v, u); !slices.Equal(got, []rollcall.Status{online, unknown, online, offline}) {
			t.Errorf("%s was shown %v", u, got)
		}
	}
	if got := late.Status("s000"); got != online {
		t.Errorf("who subscribed meanwhile sees %s", got)
	}
	if got := late.Status("leaver"); got != offline {
		t.Errorf("who subscribed meanwhile sees the leaver as %s", got)
	}
}

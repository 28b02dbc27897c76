package rebuild_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/interval"
	"github.com/rollcall-io/rollcall/ledger/rebuild"
	"github.com/rollcall-io/rollcall/ledger/store"
)

// A month of signs of life and inputs, in whole seconds, with gaps on either side of both
// caps and pauses on either side of both idle times.
func month(rnd *rand.Rand, users int) (list []arrival) {
	for u := range users {
		for d := range int64(30) {
			at := d*day + (8+rnd.Int64N(4))*hour
			e := ledger.Event{User: fmt.Sprint("u", u), Device: "d", Session: fmt.Sprint(u, "-", d), Kind: ledger.KindOpen}
			for range 100 + rnd.IntN(200) {
				e.At = at
				list = append(list, arrival{e, at})
				at += []int64{20, 30, 45, 60, 61, 90, 119, 120, 121, 300}[rnd.IntN(10)] * sec
				e.Kind = ledger.KindBeat
				if rnd.IntN(6) == 0 {
					active := e
					active.Kind, active.At = ledger.KindActive, e.At+sec
					list = append(list, arrival{active, active.At})
				}
			}
		}
	}
	slices.SortStableFunc(list, func(a, b arrival) int { return cmp.Compare(a.stored, b.stored) })
	return list
}

// seconds counts second by second what a user has on each day.
func seconds(d ledger.Definition, list []arrival, user string) (connected, active map[interval.Date]int64) {
	const month = 31 * 24 * 3600
	online, used := make([]bool, month), make([]bool, month)
	last := map[string]int64{}
	mark := func(seconds []bool, from, to int64) {
		for s := from; s < to; s++ {
			seconds[s] = true
		}
	}
	for _, a := range list {
		if a.User != user {
			continue
		}
		at := a.At / sec
		if a.Kind == ledger.KindActive {
			mark(used, at, at+int64(d.Idle/time.Second))
			continue
		}
		if before, known := last[a.Session]; known && at-before <= int64(d.Gaps.Cap/time.Second) {
			mark(online, before, at)
		}
		last[a.Session] = at
		mark(online, at, at+int64(d.Gaps.Grace/time.Second))
	}
	connected, active = map[interval.Date]int64{}, map[interval.Date]int64{}
	for s := range online {
		if online[s] {
			connected[interval.Date(s/86400)] += sec
			if used[s] {
				active[interval.Date(s/86400)] += sec
			}
		}
	}
	return connected, active
}

// TestRedefined recomputes a month under a wider gap cap and a longer idle time. Old and
// new figures stand side by side, each exactly as counting by the second has them; no day
// has less, and most have more.
func TestRedefined(t *testing.T) {
	users := 5
	if testing.Short() {
		users = 2
	}
	list := month(rand.New(rand.NewPCG(30, 30)), users)
	wide := usual
	wide.Version, wide.Gaps.Cap, wide.Idle = "wide", 2*time.Minute, 10*time.Minute
	s := open(t)
	for _, d := range []ledger.Definition{usual, wide} {
		done := run(t, rebuild.Config{
			Store: s, Source: split(list, 2), Definition: d, Bounds: interval.Interval{From: 0, To: 30 * day}, Zones: zones(t, "UTC"),
		})
		if done.Version != d.Version || done.Rejected > 0 {
			t.Errorf("%+v", done)
		}
	}
	figures := func(version string, m ledger.Measure) map[string]map[interval.Date]int64 {
		got := map[string]map[interval.Date]int64{}
		for _, d := range all(t, s.Daily(t.Context(), store.DailyKey{Definition: version, Zone: "UTC", Measure: m}, 0, 30)) {
			if got[d.User] == nil {
				got[d.User] = map[interval.Date]int64{}
			}
			got[d.User][d.Date] = d.Union
		}
		return got
	}
	for _, m := range []ledger.Measure{ledger.Connected, ledger.Active} {
		before, after := figures("1", m), figures("wide", m)
		more := 0
		for u := range users {
			user := fmt.Sprint("u", u)
			for d, got := range map[*ledger.Definition]map[interval.Date]int64{&usual: before[user], &wide: after[user]} {
				connected, active := seconds(*d, list, user)
				want := map[ledger.Measure]map[interval.Date]int64{ledger.Connected: connected, ledger.Active: active}[m]
				for date := range interval.Date(30) {
					if got[date] != want[date] {
						t.Fatalf("%s of %s on %s under %s: %d, want %d", m, user, date, d.Version, got[date], want[date])
					}
				}
			}
			for date := range interval.Date(30) {
				switch old, new := before[user][date], after[user][date]; {
				case new < old || old == 0:
					t.Errorf("%s of %s on %s: %d before, %d after", m, user, date, old, new)
				case new > old:
					more++
				}
			}
		}
		if days := 30 * users; more < days*9/10 {
			t.Errorf("%s: only %d of %d days have more", m, more, days)
		}
	}
}

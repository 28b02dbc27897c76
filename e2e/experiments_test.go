package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/e2e"
	"github.com/rollcall-io/rollcall/internal/lab"
)

const second = time.Second

// whole starts a fabric with one keeper and one fanout.
func whole(t *testing.T, o e2e.Options) *e2e.Fabric {
	f := e2e.New(t, o)
	f.StartKeeper()
	f.StartFanout()
	return f
}

// bubble runs a test on a whole fabric in virtual time.
func bubble(t *testing.T, o e2e.Options, test func(t *testing.T, f *e2e.Fabric)) {
	lab.Bubble(t, func(t *testing.T) { test(t, whole(t, o)) })
}

func TestCloseIsPublishedAfterTheDebounce(t *testing.T) {
	bubble(t, e2e.Options{}, func(t *testing.T, f *e2e.Fabric) {
		v := f.StartViewer("vera", "ann")
		phone := f.Connect(f.StartEdge("g1"), "ann", "phone")
		f.At(300 * second)
		phone.Close()
		f.At(400 * second)
		v.Want("ann online@0", "ann offline@320")
	})
}

func TestOneLostHeartbeatIsNotSeen(t *testing.T) {
	bubble(t, e2e.Options{}, func(t *testing.T, f *e2e.Fabric) {
		v := f.StartViewer("vera", "ann")
		g := f.StartEdge("g1")
		conn, err := g.Node.Connect("ann", "phone", e2e.Active)
		if err != nil {
			t.Fatal(err)
		}
		for i, seq := 1, uint32(1); i <= 20; i, seq = i+1, seq+1 {
			f.At(time.Duration(i) * 30 * second)
			if i != 7 { // this one is lost on its way
				conn.Beat(seq)
			}
		}
		v.Want("ann online@0")
	})
}

func TestOfflineOnlyAfterTheLastDevice(t *testing.T) {
	bubble(t, e2e.Options{}, func(t *testing.T, f *e2e.Fabric) {
		v := f.StartViewer("vera", "ann")
		g1, g2 := f.StartEdge("g1"), f.StartEdge("g2")
		phone, tablet := f.Connect(g1, "ann", "phone"), f.Connect(g2, "ann", "tablet")
		f.At(100 * second)
		phone.Close()
		f.At(110 * second)
		tablet.Close()
		f.At(200 * second)
		v.Want("ann online@0", "ann offline@130")
	})
}

func TestBackWithinTheDebounceIsNotSeen(t *testing.T) {
	bubble(t, e2e.Options{}, func(t *testing.T, f *e2e.Fabric) {
		v := f.StartViewer("vera", "ann")
		g := f.StartEdge("g1")
		phone := f.Connect(g, "ann", "phone")
		f.At(100 * second)
		phone.Close()
		f.At(110 * second)
		f.Connect(g, "ann", "phone")
		f.At(300 * second)
		v.Want("ann online@0")
	})
}

func TestLateCloseOfAnOldEdgeIsRejected(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		f := e2e.New(t, e2e.Options{})
		k := f.StartKeeper()
		f.StartFanout()
		v := f.StartViewer("vera", "ann")
		g1, g2 := f.StartEdge("g1"), f.StartEdge("g2")
		f.At(10 * second)
		old := f.Connect(g1, "ann", "phone")
		f.At(100 * second)
		g1.Link.Cut()
		old.Close()
		f.Connect(g2, "ann", "phone")
		f.At(130 * second)
		g1.Link.Heal()
		f.At(300 * second)
		v.Want("ann online@10")
		if got := k.Stats().RejectedStale; got != 1 {
			t.Errorf("rejected_stale = %d, want 1", got)
		}
		if edge := f.LeaseOf("ann", "phone"); edge != "g2" {
			t.Errorf("the lease belongs to %q, want g2", edge)
		}
	})
}

// TestRenewalsAreSpread starts 20 edges with 250 connections each together.
func TestRenewalsAreSpread(t *testing.T) {
	for _, tc := range []struct {
		name   string
		jitter float64
		peak   [2]int // connections renewed in the busiest second
	}{
		{"without jitter", 0, [2]int{5000, 5000}},
		{"with jitter", 0.1, [2]int{500, 1000}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := rollcall.Default()
			p.Jitter = tc.jitter
			bubble(t, e2e.Options{Params: p}, func(t *testing.T, f *e2e.Fabric) {
				load := f.MeasureRenewals()
				for i := range 20 {
					g := f.StartEdge(fmt.Sprintf("g%d", i))
					for c := range 250 {
						f.Connect(g, fmt.Sprintf("u%d-%d", i, c), "phone")
					}
				}
				f.At(600 * second)
				peak, writes := load.Peak()
				t.Logf("peak: %d connections renewed in a second, with %d KV writes in it", peak, writes)
				if peak < tc.peak[0] || peak > tc.peak[1] {
					t.Errorf("peak of %d connections renewed in a second, want %d to %d", peak, tc.peak[0], tc.peak[1])
				}
			})
		})
	}
}

// TestTTLShorterThanTheRenewalFlaps shows why Validate refuses such timing.
func TestTTLShorterThanTheRenewalFlaps(t *testing.T) {
	for debounce, publications := range map[time.Duration]int{20 * second: 1, 0: 33} {
		t.Run(fmt.Sprintf("debounce %s", debounce), func(t *testing.T) {
			p := rollcall.Default()
			p.LeaseTTL, p.Renewal, p.Jitter, p.Debounce = 50*second, 60*second, 0, debounce
			lab.Bubble(t, func(t *testing.T) {
				f := e2e.New(t, e2e.Options{Params: p, Unchecked: true})
				k := f.StartKeeper()
				f.StartFanout()
				v := f.StartViewer("vera", "ann")
				f.Connect(f.StartEdge("g1"), "ann", "phone")
				f.At(1000 * second)
				if got := k.Stats().LeaseExpiries; got != 16 {
					t.Errorf("%d leases expired, want 16", got)
				}
				if got := len(v.Rows()); got != publications {
					t.Errorf("%d publications, want %d: %v", got, publications, v.Rows())
				}
			})
		})
	}
}

func TestEdgeRestartIsNotSeen(t *testing.T) {
	bubble(t, e2e.Options{}, func(t *testing.T, f *e2e.Fabric) {
		users := names("u", 50)
		v := f.StartViewer("vera", users...)
		g := f.StartEdge("g1")
		for _, u := range users {
			f.Connect(g, u, "phone")
		}
		f.At(100 * second)
		g.Kill()
		f.At(105 * second)
		g = f.StartEdge("g1")
		random := rand.New(rand.NewPCG(1, 1))
		for _, u := range users {
			f.At(f.Now() + time.Duration(random.IntN(100))*time.Millisecond)
			f.Connect(g, u, "phone")
		}
		f.At(400 * second)
		if rows := v.Rows(); len(rows) != len(users) {
			t.Errorf("%d publications for %d users who came once: %v", len(rows), len(users), rows[len(users):])
		}
	})
}

func TestKeeperKilledDuringADebounce(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		f := e2e.New(t, e2e.Options{})
		k := f.StartKeeper()
		f.StartFanout()
		v := f.StartViewer("vera", "ann")
		phone := f.Connect(f.StartEdge("g1"), "ann", "phone")
		f.At(100 * second)
		phone.Close()
		f.At(110 * second)
		k.Kill()
		f.At(115 * second)
		f.StartKeeper()
		f.At(200 * second)
		v.Want("ann online@0", "ann offline@120")
	})
}

func TestServerAwayForTenMinutes(t *testing.T) {
	bubble(t, e2e.Options{}, func(t *testing.T, f *e2e.Fabric) {
		users := names("u", 20)
		v := f.StartViewer("vera", users...)
		for i, u := range users {
			f.Connect(f.StartEdge(fmt.Sprintf("g%d", i)), u, "phone")
		}
		f.At(300 * second)
		f.Server.Stop()
		f.At(300*second + f.Params.Outage + 5*second)
		for _, u := range users {
			if got := v.Status(u); got != rollcall.StatusUnknown {
				t.Errorf("%s is %s while the server is away, want unknown", u, got)
			}
		}
		f.At(900 * second)
		f.Server.Start()
		f.At(1500 * second)
		for _, r := range v.Rows() {
			if r.Status == rollcall.StatusOffline {
				t.Errorf("%s went offline at %s", r.User, r.At)
			}
		}
		for _, u := range users {
			if got := v.Status(u); got != rollcall.StatusOnline {
				t.Errorf("%s is %s at the end, want online", u, got)
			}
		}
	})
}

func TestEdgeCutOffForTenMinutes(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		f := e2e.New(t, e2e.Options{})
		k := f.StartKeeper()
		f.StartFanout()
		users := names("u", 20)
		v := f.StartViewer("vera", users...)
		g := f.StartEdge("g1")
		for _, u := range users {
			f.Connect(g, u, "phone")
		}
		f.At(300 * second)
		g.Link.Freeze()
		f.At(900 * second)
		g.Link.Thaw()
		healed := f.Now()
		f.At(1200 * second)
		crash := f.Params.Bounds().EdgeCrash
		for _, u := range users {
			rows := v.RowsOf(u)
			if len(rows) != 3 {
				t.Fatalf("%s: %v, want online, offline, online", u, rows)
			}
			if d := rows[1].At - 300*second; !crash.Contains(d) {
				t.Errorf("%s: offline %s after the cut, want %v", u, d, crash)
			}
			if d := rows[2].At - healed; d > 5*second {
				t.Errorf("%s: online %s after the heal", u, d)
			}
		}
		if got := k.Stats().FalseOfflines; got != uint64(len(users)) {
			t.Errorf("false_offlines = %d, want %d", got, len(users))
		}
	})
}

func TestLogLosesItsTail(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		f := e2e.New(t, e2e.Options{Shards: 1})
		k := f.StartKeeper()
		f.StartFanout()
		users := names("u", 40)
		v := f.StartViewer("vera", users...)
		g := f.StartEdge("g1")
		var devices []*e2e.Device
		for _, u := range users[:30] {
			devices = append(devices, f.Connect(g, u, "phone"))
		}
		f.At(200 * second)
		snapshot := f.Server.Snapshot(f.Names.LogStream(0))
		f.At(210 * second) // what happens from here on is acknowledged, and lost
		for _, u := range users[30:] {
			f.Connect(g, u, "phone")
		}
		for _, d := range devices[:10] {
			d.Close()
		}
		f.At(230 * second)
		f.Server.Stop()
		f.Server.Restore(snapshot)
		f.Server.Start()
		f.At(230*second + f.Params.LongestRenewal())
		for i, u := range users {
			want := rollcall.StatusOnline
			if i < 10 {
				want = rollcall.StatusOffline
			}
			if got := v.Status(u); got != want {
				t.Errorf("%s is %s, want %s", u, got, want)
			}
		}
		s := k.Stats()
		if s.LogLost != 1 {
			t.Errorf("log_lost = %d, want 1", s.LogLost)
		}
		t.Logf("repaired %d connections", s.Repaired)
		for _, r := range v.Rows() {
			if r.Status == rollcall.StatusOffline && r.User >= users[10] {
				t.Errorf("%s went offline at %s", r.User, r.At)
			}
		}
	})
}

func TestStoreClockJumpsBack(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		f := e2e.New(t, e2e.Options{})
		k := f.StartKeeper()
		f.StartFanout()
		v := f.StartViewer("vera", "ann", "bob")
		g := f.StartEdge("g1")
		f.Connect(g, "ann", "phone")
		bob := f.Connect(g, "bob", "phone")
		f.At(100 * second)
		f.Server.Skew(-2 * second)
		bob.Close()
		f.At(1000 * second)
		if got := k.Stats().LeaseExpiries; got != 0 {
			t.Errorf("%d leases expired", got)
		}
		rows := v.RowsOf("bob")
		if len(rows) != 2 || rows[1].At < 120*second || rows[1].At > 122*second {
			t.Errorf("bob: %v, want offline 20 to 22 s after the close at 100", rows)
		}
		if rows := v.RowsOf("ann"); len(rows) != 1 {
			t.Errorf("ann: %v, want online once", rows)
		}
	})
}

func names(prefix string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("%s%03d", prefix, i)
	}
	return list
}

package edge

import (
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/edge/phi"
	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/subjects"
)

// loose is a node with pipelines and without a store.
func loose(t testing.TB, shards int) *Node {
	t.Helper()
	return looseWith(t, shards, nil)
}

func looseWith(t testing.TB, shards int, detector *phi.Config) *Node {
	t.Helper()
	n, err := New(nil, Config{ID: "gw", Detector: detector})
	if err != nil {
		t.Fatal(err)
	}
	names, err := subjects.New("presence", shards)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.open(fabric.Fabric{Names: names, Params: rollcall.Default()}); err != nil {
		t.Fatal(err)
	}
	return n
}

func (n *Node) mustConnect(t testing.TB, user, device string) *Conn {
	t.Helper()
	c, err := n.Connect(user, device, State{Foreground: true})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestBeatTakesAscendingSequencesOnly(t *testing.T) {
	n := loose(t, 1)
	c := n.mustConnect(t, "alice", "phone")
	for _, step := range []struct {
		seq  uint32
		want bool
	}{{0, false}, {1, true}, {1, false}, {5, true}, {4, false}, {6, true}, {math.MaxUint32 - 1, true}, {7, false}} {
		if got := c.Beat(step.seq); got != step.want {
			t.Errorf("beat %d: %v", step.seq, got)
		}
	}
	if s := n.Stats(); s.LateBeats != 4 {
		t.Errorf("%d late beats counted, want 4", s.LateBeats)
	}
	c.Close()
	if c.Beat(math.MaxUint32) {
		t.Error("a closed connection took a beat")
	}
	if s := n.Stats(); s.LateBeats != 4 {
		t.Error("a beat of a closed connection counted as late")
	}
}

func TestBeatAllocatesNothing(t *testing.T) {
	c := loose(t, 1).mustConnect(t, "alice", "phone")
	seq := uint32(0)
	if allocs := testing.AllocsPerRun(1000, func() { seq++; c.Beat(seq) }); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func TestConcurrentBeats(t *testing.T) {
	n := loose(t, 1)
	c := n.mustConnect(t, "alice", "phone")
	const beats = 10_000
	var taken atomic.Int64
	var group sync.WaitGroup
	for g := range 4 {
		group.Go(func() {
			for seq := uint32(1); seq <= beats; seq++ {
				if c.Beat(seq) {
					taken.Add(1)
				}
				if g == 0 && seq%1000 == 0 {
					n.pipelines[0].takeBeats()
					c.SetState(State{Foreground: seq%2000 == 0})
				}
			}
		})
	}
	group.Wait()
	if taken.Load() != beats {
		t.Errorf("%d sequence numbers taken, want each of %d once", taken.Load(), beats)
	}
	n.pipelines[0].takeBeats()
	if s := n.Stats(); s.Beats+s.BeatsDropped != beats {
		t.Errorf("%d collected + %d dropped, want %d", s.Beats, s.BeatsDropped, beats)
	}
}

func TestStampsAreReadNearNow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Duration(rapid.Int64Range(0, int64(20*365*24*time.Hour)).Draw(t, "now"))
		ago := time.Duration(rapid.Int64Range(int64(-time.Hour), int64(maxIdle)).Draw(t, "ago"))
		then := max(now-ago, 0)
		s := stampOf(then)
		if got := s.instant(now); got != then.Truncate(time.Millisecond) {
			t.Fatalf("%v read as %v at %v", then, got, now)
		}
		if d := s.before(now) - (now - then); d.Abs() >= time.Millisecond {
			t.Fatalf("%v off", d)
		}
	})
}

// Silence is never found before the idle timeout, and never later than one check
// interval after it, whatever the resolution and whenever the last beat came.
func TestSilenceIsFoundInTime(t *testing.T) {
	for _, resolution := range []time.Duration{0, time.Second} {
		for _, preset := range rollcall.PresetNames {
			t.Run(fmt.Sprintf("%s/%v", preset, resolution), func(t *testing.T) {
				lab.Bubble(t, func(t *testing.T) { silence(t, preset, resolution) })
			})
		}
	}
}

func silence(t *testing.T, preset string, resolution time.Duration) {
	params, _ := rollcall.Preset(preset)
	w := newWorld(t, 1, params)
	e := w.start(Config{ClockResolution: resolution})
	random := e.config.rand(99)
	last := map[*Conn]time.Time{}
	var mu sync.Mutex
	for i := range 60 {
		beats := i % 4
		first := time.Duration(random.Int64N(int64(params.Heartbeat)))
		steps := make([]time.Duration, beats)
		for k := range steps {
			steps[k] = time.Duration(random.Int64N(int64(params.Heartbeat)))
		}
		go func() {
			time.Sleep(first)
			c := e.connect(fmt.Sprint("user", i), "phone")
			mu.Lock()
			last[c] = time.Now()
			mu.Unlock()
			for k, step := range steps {
				time.Sleep(step)
				c.Beat(uint32(k + 1))
				mu.Lock()
				last[c] = time.Now()
				mu.Unlock()
			}
		}()
	}
	time.Sleep(4*params.Heartbeat + params.IdleTimeout + params.CheckInterval)
	synctest.Wait()
	if len(e.dead) != 60 {
		t.Fatalf("%d of 60 found dead", len(e.dead))
	}
	for c, sign := range last {
		if after := e.deadAt[c].Sub(sign); after < params.IdleTimeout || after > params.IdleTimeout+params.CheckInterval {
			t.Errorf("found %v after the last sign of life, want %v to %v", after, params.IdleTimeout, params.IdleTimeout+params.CheckInterval)
		}
	}
	if s := e.Stats(); s.Timeouts != 60 || s.Suspects != 0 || s.Connections != 0 {
		t.Errorf("%+v", s)
	}
}

func BenchmarkBeat(b *testing.B) {
	c := loose(b, 4).mustConnect(b, "alice", "phone")
	seq := uint32(0)
	b.ReportAllocs()
	for b.Loop() {
		seq++
		// A ring that is always full would measure the counter of lost beats.
		if seq%ringSize == 0 {
			for i := range c.ring {
				c.ring[i].Store(0)
			}
		}
		c.Beat(seq)
	}
}

// Many connections, as a gateway has them: most are not in the cache.
func BenchmarkBeatCold(b *testing.B) {
	n := loose(b, 4)
	conns := make([]*Conn, 1<<17)
	for i := range conns {
		conns[i] = n.mustConnect(b, fmt.Sprint("user-", i), "phone")
	}
	i := 0
	for b.Loop() {
		conns[(i*7919)&(len(conns)-1)].Beat(uint32(i>>17) + 1)
		i++
	}
}

func BenchmarkConnect(b *testing.B) {
	n := loose(b, 4)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		n.mustConnect(b, fmt.Sprint("user-", i), "phone")
		i++
	}
}

// perConnection is the heap that a connection takes beside its ids, backlog apart.
func perConnection(t testing.TB, connections int, detector *phi.Config) float64 {
	n := looseWith(t, 4, detector)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	ids := 0
	for i := range connections {
		user := fmt.Sprintf("user-%09d", i)
		n.mustConnect(t, user, "phone").Beat(1)
		ids += 24 // what the allocator takes for 14 + 5 bytes
	}
	for _, p := range n.pipelines {
		p.takeBeats()
		p.registered = true
		for len(p.fill(0)) > 0 {
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	held := float64(after.HeapAlloc-before.HeapAlloc) - float64(ids)
	runtime.KeepAlive(n)
	return held / float64(connections)
}

func TestMemory(t *testing.T) {
	if size := unsafe.Sizeof(Conn{}); size > 128 {
		t.Errorf("a Conn is %d bytes", size)
	}
	for _, tc := range []struct {
		connections int
		detector    *phi.Config
		most        float64
	}{{100_000, nil, 200}, {230_000, nil, 200}, {100_000, &phi.Config{}, 250}} {
		if got := perConnection(t, tc.connections, tc.detector); got > tc.most {
			t.Errorf("%.0f bytes a connection at %d, want at most %v", got, tc.connections, tc.most)
		} else {
			t.Logf("%.0f bytes a connection at %d, detector %v", got, tc.connections, tc.detector != nil)
		}
	}
}

func BenchmarkMemory(b *testing.B) {
	for b.Loop() {
		b.ReportMetric(perConnection(b, 1_000_000, nil), "B/conn")
		b.ReportMetric(perConnection(b, 1_000_000, &phi.Config{}), "B/conn-with-detector")
	}
}

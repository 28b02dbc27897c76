package edge

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/edge/phi"
	"github.com/rollcall-io/rollcall/edge/phi/trial"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/subjects"
)

// A habit is how heartbeats of a kind of device reach an edge. These are invented after
// what such devices are known for; nobody's heartbeats were recorded.
type habit struct {
	name string
	// lost is the share of heartbeats that never come, late of those that hang in a
	// network for up to hang.
	lost, late float64
	hang       time.Duration
	// roams says that it goes to the background, where timers come once a minute or, sometimes, minutes late.
	roams bool
}

var habits = []habit{
	{name: "desktops by cable", late: 0.0005, hang: 2 * time.Second},
	{name: "laptops by wireless", lost: 0.002, late: 0.01, hang: 12 * time.Second},
	{name: "phones on the move", lost: 0.01, late: 0.03, hang: 25 * time.Second, roams: true},
}

// device lives until its time is over.
type device struct {
	habit
	params rollcall.Params
	random *rand.Rand
	conn   *Conn
}

func (d *device) live(until time.Time) {
	foreground, change := true, time.Now().Add(d.stay(true))
	for seq := uint32(1); time.Now().Before(until); seq++ {
		time.Sleep(d.pause(foreground))
		if d.roams && time.Now().After(change) {
			foreground = !foreground
			change = time.Now().Add(d.stay(foreground))
			d.conn.SetState(State{Foreground: foreground})
		}
		if d.random.Float64() < d.lost {
			continue
		}
		time.AfterFunc(d.delay(), func() { d.conn.Beat(seq) })
	}
}

func (d *device) stay(foreground bool) time.Duration {
	mean := 40 * time.Minute
	if foreground {
		mean = 8 * time.Minute
	}
	return time.Duration(d.random.ExpFloat64() * float64(mean))
}

func (d *device) pause(foreground bool) time.Duration {
	jittered := time.Duration((1 - d.params.Jitter*d.random.Float64()) * float64(d.params.Heartbeat))
	if foreground || !d.roams {
		return jittered
	}
	whole := time.Now().Add(jittered).Truncate(time.Minute).Add(time.Minute)
	if d.random.Float64() < 0.02 {
		whole = whole.Add(time.Duration(1+d.random.IntN(4)) * time.Minute)
	}
	return time.Until(whole)
}

func (d *device) delay() time.Duration {
	usual := time.Duration((20 + 60*d.random.ExpFloat64()) * float64(time.Millisecond))
	if d.random.Float64() < d.late {
		return usual + time.Duration(d.random.Float64()*float64(d.hang))
	}
	return usual
}

// recorded has an edge that cuts nobody off take the heartbeats of devices with a habit, and
// reads their intervals from what it publishes as raw history.
func recorded(t *testing.T, h habit, params rollcall.Params, devices int, length, resolution time.Duration) []trial.Connection {
	var r recorder
	lab.Bubble(t, func(t *testing.T) {
		patient := params
		patient.IdleTimeout = maxIdle
		w := newWorld(t, 1, params)
		_, err := w.nc.Subscribe(w.names.BeatsSubjects(0), func(m *nats.Msg) { r.take(t, m.Data) })
		w.must(err)
		e := w.start(Config{Params: &patient, ClockResolution: resolution})
		var group sync.WaitGroup
		for i := range devices {
			d := device{h, params, rand.New(rand.NewPCG(7, uint64(i))), e.connect(fmt.Sprint("user", i), h.name)}
			group.Go(func() { d.live(time.Now().Add(length)) })
		}
		group.Wait()
		time.Sleep(2 * params.Renewal) // the last collection
		if s := e.Stats(); s.BeatsDropped > 0 || s.Timeouts > 0 {
			t.Errorf("%+v", s)
		}
	})
	return r.connections()
}

type recorder struct {
	mu   sync.Mutex
	seen map[uint64][]sighting // by connection
}

type sighting struct {
	at         time.Duration
	foreground bool
}

func (r *recorder) take(t *testing.T, data []byte) {
	m, beats, err := subjects.DecodeBeats(data)
	if err != nil {
		t.Error(err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen == nil {
		r.seen = make(map[uint64][]sighting)
	}
	for _, b := range beats {
		at := time.Duration(m.Base)*time.Microsecond + time.Duration(b.Offset)*time.Millisecond
		r.seen[b.Conn] = append(r.seen[b.Conn], sighting{at, b.Flags&subjects.FlagForeground != 0})
	}
}

// connections are cut where a device went to the background or came back, since an edge
// starts over there.
func (r *recorder) connections() []trial.Connection {
	var all []trial.Connection
	for _, seen := range r.seen {
		slices.SortFunc(seen, func(a, b sighting) int { return int(a.at - b.at) })
		var c trial.Connection
		for i, s := range seen[1:] {
			if s.foreground != seen[i].foreground {
				all, c = append(all, c), nil
				continue
			}
			c = append(c, s.at-seen[i].at)
		}
		all = append(all, c)
	}
	return all
}

// synthetic connections last eight hours each.
func synthetic(hours int, next func(*rand.Rand) float64) []trial.Connection {
	random := rand.New(rand.NewPCG(1, 2))
	all := make([]trial.Connection, hours/8)
	for i := range all {
		for length := time.Duration(0); length < 8*time.Hour; {
			interval := time.Duration(max(next(random), 0.001) * float64(time.Second))
			all[i] = append(all[i], interval)
			length += interval
		}
	}
	return all
}

var distributions = []struct {
	name string
	next func(*rand.Rand) float64 // seconds
}{
	{"exponential intervals, mean 15 s", func(r *rand.Rand) float64 { return 15 * r.ExpFloat64() }},
	{"normal intervals, 28.5 s, deviation 1.5 s", func(r *rand.Rand) float64 { return 28.5 + 1.5*r.NormFloat64() }},
	{"bimodal intervals: normal, one heartbeat of twenty missing", func(r *rand.Rand) float64 {
		interval := 28.5 + 1.5*r.NormFloat64()
		for r.IntN(20) == 0 {
			interval += 28.5 + 1.5*r.NormFloat64()
		}
		return interval
	}},
}

var evidence = flag.String("evidence", "", "the `file` to write the table of false and true detections to")

// How many false and true detections there are at each threshold beside the fixed timeout. With
// -evidence on 10,000 connection hours of each kind, otherwise on a few, and fewer in short runs.
func TestDetections(t *testing.T) {
	hours, devices, resolution := 80, 40, time.Second
	if testing.Short() {
		hours, devices = 16, 16
	}
	if *evidence != "" {
		hours, devices, resolution = 10_000, 400, 0
	}
	var out bytes.Buffer
	out.WriteString(detectionsHead)
	section := func(name string, all []trial.Connection, params rollcall.Params) {
		fmt.Fprintf(&out, "\n%s: heartbeat %s, ", name, params.Heartbeat)
		if err := trial.Table(&out, all, params); err != nil {
			t.Fatal(err)
		}
		neverWorse(t, name, all, params)
	}
	for _, d := range distributions {
		section(d.name, synthetic(hours, d.next), rollcall.Default())
	}
	length := time.Duration(hours/devices) * time.Hour
	for _, h := range habits {
		section("recorded, "+h.name, recorded(t, h, rollcall.Default(), devices, length, resolution), rollcall.Default())
	}
	phones := habits[len(habits)-1]
	section("recorded, preset mobile, "+phones.name, recorded(t, phones, rollcall.Mobile(), devices, length, resolution), rollcall.Mobile())
	t.Logf("\n%s", &out)
	if *evidence != "" {
		if err := os.WriteFile(*evidence, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

const detectionsHead = `False and true detections of the φ detector beside the fixed timeout, made by "task phi".

False: connections declared dead that spoke again, in 1,000 hours of living connections. Seconds: from a death at any
moment until it is declared, to which an edge adds up to a check interval. Left with the default pause (as many heartbeats may
be missing as under the fixed timeout), right without one. "Recorded" intervals are what an edge published as raw
history; its devices are invented (edge/recorded_test.go), not people's.
`

// neverWorse holds what must be true of any row: nothing is found later than by the fixed
// timeout, and what the fixed timeout takes for dead, φ does as well.
func neverWorse(t *testing.T, name string, all []trial.Connection, params rollcall.Params) {
	t.Helper()
	fixed := trial.Run(all, trial.Fixed(params))
	mean := math.Inf(1)
	for _, threshold := range slices.Backward(trial.Thresholds) {
		d, err := phi.New(phi.Config{Threshold: threshold}, params)
		if err != nil {
			t.Fatal(err)
		}
		r := trial.Run(all, trial.Accrual(d))
		if r.Quantile(1) > params.IdleTimeout || r.Mean() > fixed.Mean() || r.False < fixed.False || r.Watched != fixed.Watched {
			t.Errorf("%s, φ ≥ %v: %v, fixed %v", name, threshold, r, fixed)
		}
		if got := r.Mean().Seconds(); got > mean {
			t.Errorf("%s, φ ≥ %v: found later than at a higher threshold", name, threshold)
		} else {
			mean = got
		}
	}
}

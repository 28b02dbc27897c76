package rebuild

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/ledger/definition"
	"github.com/rollcall-io/rollcall/ledger/interval"
	"github.com/rollcall-io/rollcall/ledger/raw"
	"github.com/rollcall-io/rollcall/ledger/store"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// A crowd is what an edge publishes of its connections: two heartbeats of every one in
// each renewal, jittered, with flags.
type crowd struct {
	conns  int
	length time.Duration
	// life is how long a connection lasts until another one takes its place; 0 for ever.
	life time.Duration
}

var begin = time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)

const (
	period = 50 * time.Second
	stride = 25_000 // ms between two heartbeats
)

// messages makes the messages one by one, the same ones each time.
func (c crowd) messages(names subjects.Names, each func(raw.Message) error) error {
	random := rand.New(rand.NewPCG(1, 4))
	at := begin
	var failed error
	say := func(beats bool, subject string, data []byte, err error) {
		if failed = cmp.Or(failed, err); failed == nil {
			failed = each(raw.Message{Beats: beats, Stream: "S", Subject: subject, Time: at.Add(5 * time.Second), Data: data})
		}
	}
	var entries []*wire.Entry
	log := func() {
		data, err := subjects.EncodeFrame(&wire.Frame{Version: 1, Incarnation: 7, Number: 1, Entries: entries})
		say(false, names.Log(0, "g1"), data, err)
		entries = nil
	}
	tell := func(kind wire.Kind, slot, number int) {
		entries = append(entries, &wire.Entry{
			Kind: kind, At: at.UnixMicro(), Conn: uint64(number), Epoch: at.UnixMicro() + int64(slot),
			User: fmt.Sprint("user-", slot/2), Device: fmt.Sprint("device-", slot), State: wire.State_STATE_ACTIVE,
		})
		if len(entries) == subjects.MaxEntries {
			log()
		}
	}
	numbers := make([]int, c.conns)
	list := make([]subjects.Beat, 0, 2*c.conns)
	for ; at.Sub(begin) < c.length && failed == nil; at = at.Add(period) {
		for slot := range numbers {
			generation := 0
			if c.life > 0 {
				generation = int((at.Sub(begin) + c.life*time.Duration(slot)/time.Duration(c.conns)) / c.life)
			}
			number := generation*c.conns + slot + 1
			if before := numbers[slot]; before != number {
				if before > 0 {
					tell(wire.Kind_KIND_CLOSE, slot, before)
				}
				tell(wire.Kind_KIND_OPEN, slot, number)
				numbers[slot] = number
			}
		}
		if len(entries) > 0 {
			log()
		}
		list = list[:0]
		for _, number := range numbers {
			first := int32(random.IntN(3000))
			list = append(list, subjects.Beat{Conn: uint64(number), Offset: first, Flags: 3},
				subjects.Beat{Conn: uint64(number), Offset: first + stride - int32(random.IntN(2000)), Flags: 3})
		}
		slices.SortStableFunc(list, func(a, b subjects.Beat) int { return cmp.Compare(a.Conn, b.Conn) })
		data, err := subjects.Encode(subjects.PackBeats(7, rollcall.Micros(at.UnixMicro()), stride, 0, list))
		say(true, names.Beats(0, "g1"), data, err)
	}
	return failed
}

// A recording is the source of messages that were or are being made. It does what a shard's
// streams do, but for the server.
type recording struct {
	names  subjects.Names
	play   func(each func(raw.Message) error) error
	passed func() // after each message
}

func (recording) Name() string { return "recording" }

func (r recording) Parts() []Part { return []Part{r} }

func (recording) Reach(context.Context) (Reach, error) {
	return Reach{Interval: interval.Interval{To: interval.Latest}}, nil
}

func (r recording) Read(_ context.Context, w Window, _ []byte, to Sink) error {
	decoder := raw.New(r.names, w.Lateness, veiled{to, func(device string) string { return device }})
	part := shardPart{streams: streams{names: r.names}}
	err := r.play(func(m raw.Message) error {
		decoder.Add(m)
		err := to.Reached(m.Time.Add(-time.Minute).UnixMilli(), 0, func() ([]byte, error) { return part.save(raw.Position{}, decoder) })
		if r.passed != nil {
			r.passed()
		}
		return err
	})
	decoder.Flush()
	return err
}

// rebuilt rebuilds a recording into a new store.
func rebuilt(t testing.TB, r recording, c crowd, limit time.Duration) Summary {
	t.Helper()
	s, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	zone, err := interval.LoadZone("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	d := definition.Default()
	d.Limit = limit
	bounds := interval.Interval{From: begin.Add(-24 * time.Hour).UnixMilli(), To: begin.Add(c.length + 24*time.Hour).UnixMilli()}
	done, err := Run(t.Context(), Config{Store: s, Source: r, Definition: d, Bounds: bounds, Zones: []*interval.Zone{zone}})
	if err != nil || done.Rejected > 0 || done.Sessions == 0 {
		t.Fatalf("%+v, %v", done, err)
	}
	return done
}

func oneShard(t testing.TB) subjects.Names {
	t.Helper()
	names, err := subjects.New("presence", 1)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// BenchmarkRebuild is the way from raw messages to daily totals in a SQLite file: decoding,
// sessions, rows, intervals, checkpoints and totals of three measures.
func BenchmarkRebuild(b *testing.B) {
	for _, c := range []crowd{{2_000, 8 * time.Hour, 0}, {50_000, 8 * time.Hour, 0}, {2_000, 8 * time.Hour, time.Hour}} {
		b.Run(fmt.Sprintf("connections=%d,life=%v", c.conns, cmp.Or(c.life, c.length)), func(b *testing.B) {
			var messages []raw.Message
			bytes := 0
			r := recording{names: oneShard(b)}
			if err := c.messages(r.names, func(m raw.Message) error {
				messages = append(messages, m)
				bytes += len(m.Data)
				return nil
			}); err != nil {
				b.Fatal(err)
			}
			var peak uint64
			var now runtime.MemStats
			r.play = func(each func(raw.Message) error) error {
				for _, m := range messages {
					if err := each(m); err != nil {
						return err
					}
				}
				return nil
			}
			runtime.GC()
			runtime.ReadMemStats(&now)
			before, n := now.HeapAlloc, 0
			r.passed = func() {
				if n++; n%50 == 0 {
					runtime.ReadMemStats(&now)
					peak = max(peak, now.HeapAlloc-min(before, now.HeapAlloc))
				}
			}
			events := int64(0)
			start := processor()
			for b.Loop() {
				events += rebuilt(b, r, c, 7*24*time.Hour).Events
			}
			b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
			b.ReportMetric(float64(events)/(processor()-start).Seconds(), "events/cpu-s")
			b.ReportMetric(float64(peak)/(1<<20), "peak-MiB")
			b.ReportMetric(float64(bytes)*float64(b.N)/float64(events), "B/event")
		})
	}
}

// TestMemory: what a rebuild holds depends on the sessions that are open or may go on, not
// on the length of the history: ten times as long, it is the same.
func TestMemory(t *testing.T) {
	conns, hours := 500, 4*time.Hour
	if testing.Short() {
		conns, hours = 100, 3*time.Hour
	}
	peak := func(length time.Duration) (peak uint64, events int64) {
		c := crowd{conns, length, 30 * time.Minute}
		var now runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&now)
		before, n := now.HeapAlloc, 0
		r := recording{names: oneShard(t)}
		r.play = func(each func(raw.Message) error) error { return c.messages(r.names, each) }
		r.passed = func() {
			if n++; n%40 == 0 {
				runtime.GC()
				runtime.ReadMemStats(&now)
				peak = max(peak, now.HeapAlloc-min(before, now.HeapAlloc))
			}
		}
		return peak, rebuilt(t, r, c, 2*time.Hour).Events
	}
	short, few := peak(hours)
	long, many := peak(10 * hours)
	t.Logf("%.1f MiB of %d events, %.1f MiB of %d", float64(short)/(1<<20), few, float64(long)/(1<<20), many)
	const batch = 4 << 20 // of rows, which only the long one fills
	if long > short+batch || many < 9*few {
		t.Errorf("%d bytes, then %d", short, long)
	}
}

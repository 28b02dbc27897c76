package union_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/interval"
	"github.com/rollcall-io/rollcall/ledger/raw"
	"github.com/rollcall-io/rollcall/ledger/session"
	"github.com/rollcall-io/rollcall/ledger/union"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// A day of heartbeats as an edge publishes them: two of every connection in each
// renewal, jittered, with flags.
type stream struct {
	names    subjects.Names
	messages []raw.Message
	beats    int
	bytes    int
}

func newStream(b testing.TB, conns int, length time.Duration) *stream {
	names, err := subjects.New("presence", 1)
	if err != nil {
		b.Fatal(err)
	}
	s := &stream{names: names}
	begin := time.Date(2026, 7, 1, 20, 0, 0, 0, time.UTC)
	frame := &wire.Frame{Version: 1, Incarnation: 7, Number: 1}
	for i := range conns {
		if len(frame.Entries) == subjects.MaxEntries {
			s.log(b, begin, frame)
			frame.Entries = nil
		}
		frame.Entries = append(frame.Entries, &wire.Entry{
			Kind: wire.Kind_KIND_OPEN, At: begin.UnixMicro(), Conn: uint64(i + 1), Epoch: begin.UnixMicro() + int64(i),
			User: fmt.Sprintf("user-%d", i/2), Device: fmt.Sprintf("device-%d", i), State: wire.State_STATE_ACTIVE,
		})
	}
	s.log(b, begin, frame)
	const period, stride = 50 * time.Second, 25_000
	random := rand.New(rand.NewPCG(1, 4))
	for at := begin.Add(period); at.Sub(begin) < length; at = at.Add(period) {
		list := make([]subjects.Beat, 0, 2*conns)
		for i := range conns {
			first := int32(random.IntN(3000)) - stride
			list = append(list, subjects.Beat{Conn: uint64(i + 1), Offset: first, Flags: 3},
				subjects.Beat{Conn: uint64(i + 1), Offset: first + stride - int32(random.IntN(2000)), Flags: 3})
		}
		data, err := subjects.Encode(subjects.PackBeats(7, rollcall.Micros(at.UnixMicro()), stride, 0, list))
		if err != nil {
			b.Fatal(err)
		}
		s.beats, s.bytes = s.beats+len(list), s.bytes+len(data)
		s.messages = append(s.messages, raw.Message{
			Beats: true, Stream: "BEATS", Subject: names.Beats(0, "g1"), Seq: uint64(len(s.messages)), Time: at.Add(5 * time.Second), Data: data,
		})
	}
	return s
}

func (s *stream) log(b testing.TB, at time.Time, f *wire.Frame) {
	data, err := subjects.EncodeFrame(f)
	if err != nil {
		b.Fatal(err)
	}
	s.messages = append(s.messages, raw.Message{Stream: "LOG", Subject: s.names.Log(0, "g1"), Time: at, Data: data})
}

// rebuild makes daily unions of everything.
func (s *stream) rebuild(b testing.TB, each func(i int, builder *session.Builder)) (totals int) {
	zone, err := interval.LoadZone("Europe/Berlin")
	if err != nil {
		b.Fatal(err)
	}
	refuse := func(r ledger.Rejected) { b.Fatalf("in quarantine: %+v", r) }
	board := union.New(zone, refuse)
	d := ledger.Definition{
		Gaps: interval.Gaps{Cap: time.Minute, Grace: 30 * time.Second}, Idle: 5 * time.Minute,
		Limit: 7 * 24 * time.Hour, Lateness: 15 * time.Minute,
	}
	builder, err := session.New(session.Config{Definition: d, Session: func(row ledger.Session, _ bool) { board.Add(row) }, Reject: refuse})
	if err != nil {
		b.Fatal(err)
	}
	decoder := raw.New(s.names, d.Lateness, raw.Into(builder, refuse))
	for i, m := range s.messages {
		decoder.Add(m)
		builder.Advance(m.Time.UnixMilli() - 60_000)
		if each != nil {
			each(i, builder)
		}
	}
	decoder.Flush()
	builder.Flush()
	board.Publish(func(union.Total) { totals++ })
	return totals
}

// BenchmarkRebuild is the way from raw messages to daily unions, decoding included.
func BenchmarkRebuild(b *testing.B) {
	for conns, length := range map[int]time.Duration{2_000: 8 * time.Hour, 50_000: 90 * time.Minute} {
		b.Run(fmt.Sprintf("connections=%d", conns), func(b *testing.B) {
			s := newStream(b, conns, length)
			runtime.GC()
			b.ReportAllocs()
			start := processor()
			for b.Loop() {
				if s.rebuild(b, nil) == 0 {
					b.Fatal("no totals")
				}
			}
			b.ReportMetric(float64(s.beats)*float64(b.N)/b.Elapsed().Seconds(), "beats/s")
			b.ReportMetric(float64(s.beats)*float64(b.N)/(processor()-start).Seconds(), "beats/cpu-s")
			b.ReportMetric(float64(s.bytes)/float64(s.beats), "B/beat")
		})
	}
}

// TestMemory: what a builder holds depends on the open sessions and the lateness, not
// on the length of the history.
func TestMemory(t *testing.T) {
	const conns = 5_000
	s := newStream(t, conns, 3*time.Hour)
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	held := func() float64 {
		runtime.GC()
		runtime.ReadMemStats(&now)
		return float64(int64(now.HeapAlloc)-int64(before.HeapAlloc)) / conns
	}
	var early, late float64
	s.rebuild(t, func(i int, builder *session.Builder) {
		switch i {
		case len(s.messages) / 3:
			early = held()
		case len(s.messages) - 1:
			late = held()
		}
		runtime.KeepAlive(builder)
	})
	t.Logf("%.0f bytes per open session after one hour, %.0f after three", early, late)
	if late > early*1.1 || late > 4000 {
		t.Errorf("%.0f bytes per open session, after a third of the time %.0f", late, early)
	}
}

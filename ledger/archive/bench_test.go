package archive

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/ledger/raw"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// busy is what edges write to a shard: every connection beats all the time, every 27 to
// 30 s, and its edge tells of it every 54 to 66 s.
func busy(b testing.TB, edges, conns int, length time.Duration) (h *history, beats int) {
	h = &history{names: namesOf(b, 1)}
	rnd := rand.New(rand.NewPCG(1, 4))
	start := time.Date(2026, 7, 1, 20, 0, 0, 0, time.UTC)
	type edge struct {
		name string
		due  time.Time
		last time.Time
		next []int64 // ms: the next heartbeat of every connection
	}
	var all []*edge
	for i := range edges {
		e := &edge{name: fmt.Sprintf("gateway-%d", i), last: start, due: start.Add(within(rnd, time.Minute))}
		frame := &wire.Frame{Version: 1, Incarnation: 7, Number: 1}
		for c := range conns {
			e.next = append(e.next, start.UnixMilli()+rnd.Int64N(30_000))
			frame.Entries = append(frame.Entries, &wire.Entry{
				Kind: wire.Kind_KIND_OPEN, At: start.UnixMicro(), Conn: uint64(c + 1), Epoch: start.UnixMicro() + rnd.Int64N(1_000_000),
				User: fmt.Sprintf("user-%d", rnd.IntN(edges*conns)), Device: fmt.Sprintf("device-%d-%d", i, c), State: wire.State_STATE_ACTIVE,
				Origin: &wire.Origin{ClientType: []string{"ios", "web"}[rnd.IntN(2)], ClientVersion: "7.1.2", Channel: "store", Region: "eu"},
			})
			if len(frame.Entries) == subjects.MaxEntries || c == conns-1 {
				data, err := subjects.EncodeFrame(frame)
				if err != nil {
					b.Fatal(err)
				}
				h.add(false, h.names.Log(0, e.name), start, data)
				frame.Entries = nil
			}
		}
		all = append(all, e)
	}
	for {
		e := all[0]
		for _, o := range all {
			if o.due.Before(e.due) {
				e = o
			}
		}
		if e.due.Sub(start) > length {
			return h, beats
		}
		var list []subjects.Beat
		for c := range e.next {
			for ; e.next[c] < e.due.UnixMilli(); e.next[c] += 27_000 + rnd.Int64N(3_000) {
				list = append(list, subjects.Beat{Conn: uint64(c + 1), Offset: int32(e.next[c] - e.due.UnixMilli()), Flags: 3})
			}
		}
		data, err := subjects.Encode(subjects.PackBeats(7, rollcall.MicrosOf(e.due), 28_500, 0, list))
		if err != nil {
			b.Fatal(err)
		}
		h.add(true, h.names.Beats(0, e.name), e.due, data)
		beats += len(list)
		e.last, e.due = e.due, e.due.Add(54*time.Second+within(rnd, 12*time.Second))
	}
}

// sizeOf is how many bytes files of events have.
func sizeOf(b testing.TB, dir string) (bytes int64) {
	a, err := Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	hours, err := a.Hours()
	if err != nil {
		b.Fatal(err)
	}
	for _, h := range hours {
		bytes += h.Bytes
	}
	return bytes
}

// peak is the most memory in use while f runs, above what was before.
func peak(f func()) uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	before := m.HeapInuse
	var most atomic.Uint64
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			runtime.ReadMemStats(&m)
			most.Store(max(most.Load(), m.HeapInuse))
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	f()
	close(stop)
	<-done
	return most.Load() - before
}

// archiveAll archives a history, five minutes at a time, and merges every hour.
func (h *history) archiveAll(b testing.TB, dir string, merge bool) {
	w, err := NewWriter(b.Context(), h.names, 0, Config{Dir: dir, Device: pseudonym})
	if err != nil {
		b.Fatal(err)
	}
	last := h.messages[0].Time
	for i, m := range h.messages {
		if err := w.Add(m); err != nil {
			b.Fatal(err)
		}
		if m.Time.Sub(last) < defaultEvery && i < len(h.messages)-1 {
			continue
		}
		last = m.Time
		if err := w.Commit(b.Context(), m.Time.UnixMilli()); err != nil {
			b.Fatal(err)
		}
		if merge {
			if err := mergeAll(b.Context(), w.place); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkArchive is the way from messages of the streams to files that count, decoding
// and syncing included; with merging, also to one file an hour.
func BenchmarkArchive(b *testing.B) {
	h, beats := busy(b, 20, 1_000, 2*time.Hour+10*time.Minute)
	for _, merge := range []bool{false, true} {
		b.Run(fmt.Sprintf("merge=%v", merge), func(b *testing.B) {
			root, n := b.TempDir(), 0
			dir := func() string { return filepath.Join(root, fmt.Sprint(n)) }
			var most uint64
			runtime.GC()
			b.ReportAllocs()
			start := processor()
			for b.Loop() {
				os.RemoveAll(dir())
				n++
				most = max(most, peak(func() { h.archiveAll(b, dir(), merge) }))
			}
			all := float64(beats) * float64(n)
			used := processor() - start
			b.ReportMetric(all/b.Elapsed().Seconds(), "beats/s")
			b.ReportMetric(all/used.Seconds(), "beats/cpu-s")
			b.ReportMetric(float64(used.Nanoseconds())/all, "cpu-ns/beat")
			b.ReportMetric(float64(sizeOf(b, dir()))/float64(beats), "B/beat")
			b.ReportMetric(float64(most)/(1<<20), "peak-MiB")
		})
	}
}

// BenchmarkRead is the way back.
func BenchmarkRead(b *testing.B) {
	h, _ := busy(b, 20, 1_000, time.Hour+10*time.Minute)
	dir := b.TempDir()
	h.archiveAll(b, dir, true)
	a, err := Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	events := 0
	start := processor()
	for b.Loop() {
		if err := a.Read(b.Context(), everything, func(Event) error { events++; return nil }); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(events)/(processor()-start).Seconds(), "events/cpu-s")
}

var _ raw.Sink = (*telling)(nil)

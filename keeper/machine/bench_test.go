package machine

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

const crowd = 100_000

// crowdFrames are frames of the most entries that one may hold, about a crowd of
// users with one device each.
func crowdFrames(kinds ...wire.Kind) (frames []*wire.Frame) {
	for i := 0; i < crowd; i += subjects.MaxEntries / len(kinds) {
		f := &wire.Frame{Version: 1, Incarnation: 1, Number: uint64(len(frames) + 2)}
		for _, kind := range kinds {
			for k := range subjects.MaxEntries / len(kinds) {
				f.Entries = append(f.Entries, crowdEntry(kind, i+k))
			}
		}
		frames = append(frames, f)
	}
	return frames
}

func crowdEntry(kind wire.Kind, i int) *wire.Entry {
	e := &wire.Entry{
		Kind: kind, At: int64(start), Conn: uint64(i + 1), Epoch: int64(start) - int64(i),
		User: fmt.Sprintf("user-%07d", i), Device: "phone-1", State: wire.State_STATE_ACTIVE,
	}
	switch kind {
	case wire.Kind_KIND_STATE:
		e.State = wire.State_STATE_IDLE
	case wire.Kind_KIND_CLOSE:
		e.Seen, e.Reason = int64(start), wire.Reason_REASON_CLOSED
	}
	return e
}

var helloFrame = &wire.Frame{Version: 1, Incarnation: 1, Number: 1, Entries: []*wire.Entry{{Kind: wire.Kind_KIND_HELLO}}}

// applyAll is one run of a new machine over the frames.
func applyAll(frames []*wire.Frame) *Machine {
	m := New(rollcall.Default(), 0)
	from := Source{Edge: "g1"}
	m.Apply(start, 1, from, helloFrame)
	for i, f := range frames {
		m.Apply(start, uint64(i+2), from, f)
		if i%10 == 9 {
			m.dirtyUsers = m.forTake()
		}
	}
	return m
}

// forTake forgets what is to be written, without making records of it.
func (m *Machine) forTake() []*user {
	for _, u := range m.dirtyUsers {
		u.dirty, u.viewDirty = false, false
	}
	return m.dirtyUsers[:0]
}

func reportEntries(b *testing.B, entries int) {
	b.ReportMetric(float64(entries)*float64(b.N)/b.Elapsed().Seconds(), "entries/s")
}

func BenchmarkApplyOpens(b *testing.B) {
	frames := crowdFrames(wire.Kind_KIND_OPEN)
	for b.Loop() {
		applyAll(frames)
	}
	reportEntries(b, crowd)
}

func BenchmarkApplyMixed(b *testing.B) {
	frames := crowdFrames(wire.Kind_KIND_OPEN, wire.Kind_KIND_STATE, wire.Kind_KIND_STATE, wire.Kind_KIND_CLOSE)
	entries := 0
	for _, f := range frames {
		entries += len(f.Entries)
	}
	for b.Loop() {
		applyAll(frames)
	}
	reportEntries(b, entries)
}

// State changes of users who are there: what a running shard mostly does.
func BenchmarkApplyStates(b *testing.B) {
	m := applyAll(crowdFrames(wire.Kind_KIND_OPEN))
	toIdle, toActive := crowdFrames(wire.Kind_KIND_STATE), crowdFrames(wire.Kind_KIND_STATE)
	for _, f := range toActive {
		for _, e := range f.Entries {
			e.State = wire.State_STATE_ACTIVE
		}
	}
	from := Source{Edge: "g1"}
	for b.Loop() {
		for _, frames := range [][]*wire.Frame{toIdle, toActive} {
			for _, f := range frames {
				m.Apply(start, m.seq+1, from, f)
				m.dirtyUsers = m.forTake()
			}
		}
	}
	reportEntries(b, 2*crowd)
}

// Renewals of one edge with many connections.
func BenchmarkApplyRenewals(b *testing.B) {
	m := applyAll(crowdFrames(wire.Kind_KIND_OPEN))
	e := m.edges["g1"]
	f := &wire.Frame{Version: 1, Incarnation: 1, Entries: []*wire.Entry{
		{Kind: wire.Kind_KIND_RENEW, Count: uint64(len(e.claims)), Digest: uint64(e.digest)},
	}}
	for b.Loop() {
		m.Apply(start, m.seq+1, Source{Edge: "g1"}, f)
	}
	if m.stats.Mismatches > 0 {
		b.Fatal("the digest does not agree")
	}
	reportEntries(b, 1)
}

func BenchmarkDecodeAndApplyOpens(b *testing.B) { decodeAndApply(b, wire.Kind_KIND_OPEN) }

func BenchmarkDecodeAndApplyMixed(b *testing.B) {
	decodeAndApply(b, wire.Kind_KIND_OPEN, wire.Kind_KIND_STATE, wire.Kind_KIND_STATE, wire.Kind_KIND_CLOSE)
}

func decodeAndApply(b *testing.B, kinds ...wire.Kind) {
	var encoded [][]byte
	entries := 0
	for _, f := range crowdFrames(kinds...) {
		data, err := subjects.EncodeFrame(f)
		if err != nil {
			b.Fatal(err)
		}
		encoded = append(encoded, data)
		entries += len(f.Entries)
	}
	for b.Loop() {
		m := applyAll(nil)
		for i, data := range encoded {
			f, err := subjects.DecodeFrame(data)
			if err != nil {
				b.Fatal(err)
			}
			m.Apply(start, uint64(i+2), Source{Edge: "g1"}, f)
			m.dirtyUsers = m.forTake()
		}
	}
	reportEntries(b, entries)
}

// What the runner does in between: records of everybody who changed.
func BenchmarkTake(b *testing.B) {
	m := applyAll(crowdFrames(wire.Kind_KIND_OPEN))
	for b.Loop() {
		for _, u := range m.users {
			u.viewDirty = true
			m.markDirty(u)
		}
		m.Take()
	}
	reportEntries(b, crowd)
}

// BenchmarkMemory reports what a user with one connection costs, ids not shared
// with the frame included.
func BenchmarkMemory(b *testing.B) {
	var before, after runtime.MemStats
	for b.Loop() {
		frames := crowdFrames(wire.Kind_KIND_OPEN)
		runtime.GC()
		runtime.ReadMemStats(&before)
		m := applyAll(frames)
		m.dirtyUsers, m.unsettled = nil, nil
		runtime.GC()
		runtime.ReadMemStats(&after)
		runtime.KeepAlive(frames)
		runtime.KeepAlive(m)
	}
	b.ReportMetric((float64(after.HeapAlloc)-float64(before.HeapAlloc))/crowd, "bytes/user")
}

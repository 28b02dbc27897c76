package machine

import (
	"encoding/binary"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// A fuzzed log is a list of messages: one byte who (0 is a tick, 1 to 3 an edge),
// one byte how many seconds later, signed, two bytes the length of the frame, and
// the frame.
func appendFuzzed(log []byte, who byte, later int8, frame []byte) []byte {
	log = append(log, who, byte(later))
	log = binary.BigEndian.AppendUint16(log, uint16(len(frame)))
	return append(log, frame...)
}

func nextFuzzed(log []byte) (who byte, later int8, frame, rest []byte) {
	n := min(int(binary.BigEndian.Uint16(log[2:])), len(log)-4)
	return log[0] % 4, int8(log[1]), log[4 : 4+n], log[4+n:]
}

// FuzzApply applies whatever can be decoded, in any order, and loads what was
// written in the middle of it: nothing panics and nothing contradicts itself.
func FuzzApply(f *testing.F) {
	for _, seed := range fuzzSeeds(f) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, log []byte) {
		p := quick(8_000_000_000)
		s, m, at := newStore(), New(p, 0), start
		for seq := uint64(1); len(log) >= 4 && seq <= 300; seq++ { // more find no more, slowly
			who, later, data, rest := nextFuzzed(log)
			log, at = rest, at+rollcall.Micros(later)*second
			msg := message{at: at, seq: seq, from: Source{Edge: string('0' + rune(who)), Tick: who == 0}}
			if frame, err := subjects.DecodeFrame(data); err == nil {
				msg.frame = frame
			}
			msg.applyTo(m)
			mustHold(t, m)
			if later&3 == 3 {
				s.write(m.Take(), -1)
			}
		}
		s.write(m.Take(), -1)
		s.Checkpoint = m.Checkpoint()
		loaded := Load(p, 0, s.copied())
		mustHold(t, loaded)
		loaded.Apply(at+300*second, m.seq+1, Source{Tick: true}, nil)
		mustHold(t, loaded)
	})
}

// fuzzSeeds are logs in which something happens.
func fuzzSeeds(t testing.TB) (seeds [][]byte) {
	frame := func(number uint64, entries ...*wire.Entry) []byte {
		b, err := subjects.EncodeFrame(&wire.Frame{Version: 1, Incarnation: 1, Number: number, Entries: entries})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	hello := &wire.Entry{Kind: wire.Kind_KIND_HELLO}
	open := &wire.Entry{Kind: wire.Kind_KIND_OPEN, Conn: 1, Epoch: int64(start), User: "u", Device: "d", State: wire.State_STATE_ACTIVE}
	as := func(k wire.Kind, e *wire.Entry) *wire.Entry {
		e = proto.CloneOf(e)
		e.Kind = k
		return e
	}
	var opened, crashed, moved, listed []byte
	opened = appendFuzzed(opened, 1, 0, frame(1, hello, open, as(wire.Kind_KIND_CLOSE, open)))
	opened = appendFuzzed(opened, 0, 9, nil)
	crashed = appendFuzzed(crashed, 1, 0, frame(1, hello, open))
	for range 6 {
		crashed = appendFuzzed(crashed, 0, 8, nil)
	}
	moved = appendFuzzed(moved, 1, 0, frame(1, hello, open))
	moved = appendFuzzed(moved, 2, 1, frame(1, hello, open, as(wire.Kind_KIND_STATE, open)))
	moved = appendFuzzed(moved, 1, 127, frame(2, as(wire.Kind_KIND_CLOSE, open), &wire.Entry{Kind: wire.Kind_KIND_LEAVE}))
	listed = appendFuzzed(listed, 3, 0, frame(1, hello, open, &wire.Entry{Kind: wire.Kind_KIND_RENEW, Count: 7}))
	listed = appendFuzzed(listed, 3, -1, frame(2, &wire.Entry{Kind: wire.Kind_KIND_ROSTER_BEGIN}))
	listed = appendFuzzed(listed, 3, 3, []byte("not a frame"))
	listed = appendFuzzed(listed, 3, 3, frame(3, &wire.Entry{Kind: wire.Kind_KIND_ROSTER_END}))
	return [][]byte{opened, crashed, moved, listed, append(append(append([]byte{}, crashed...), moved...), listed...)}
}

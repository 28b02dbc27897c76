package subjects_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// beatColumns draws beats as PackBeats wants them.
var beatColumns = rapid.Custom(func(t *rapid.T) []subjects.Beat {
	var beats []subjects.Beat
	conns := rapid.SliceOfNDistinct(rapid.Uint64(), 0, 8, rapid.ID).Draw(t, "conns")
	slices.Sort(conns)
	for _, conn := range conns {
		offsets := rapid.SliceOfN(rapid.Int32Range(-1<<29, 1<<29), 1, 6).Draw(t, "offsets")
		slices.Sort(offsets)
		for _, offset := range offsets {
			beats = append(beats, subjects.Beat{Conn: conn, Offset: offset, Flags: rapid.Uint8().Draw(t, "flags")})
		}
	}
	return beats
})

func TestBeatsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		beats := beatColumns.Draw(t, "beats")
		stride := rapid.Int32Range(-1<<29, 1<<29).Draw(t, "stride")
		base := rollcall.Micros(rapid.Int64().Draw(t, "base"))
		b, err := subjects.Encode(subjects.PackBeats(7, base, stride, 3, beats))
		if err != nil {
			t.Fatal(err)
		}
		m, got, err := subjects.DecodeBeats(b)
		if err != nil || !slices.Equal(got, beats) {
			t.Fatalf("%v came back as %v, %v", beats, got, err)
		}
		if m.Incarnation != 7 || rollcall.Micros(m.Base) != base || m.Dropped != 3 {
			t.Fatalf("head: %v", m)
		}
	})
}

// The goal of the design: at most four bytes a heartbeat.
func TestBeatsAreSmall(t *testing.T) {
	var beats []subjects.Beat
	for conn := range uint64(1000) {
		first := int32(conn * 7919 % 28500)
		for k := range int32(2) {
			jitter := int32(conn*104729%3001) - 1500
			beats = append(beats, subjects.Beat{Conn: 100 + conn, Offset: first + k*(28500+jitter), Flags: subjects.FlagForeground})
		}
	}
	b, err := subjects.Encode(subjects.PackBeats(1, 1, 28500, 0, beats))
	if err != nil {
		t.Fatal(err)
	}
	if each := float64(len(b)) / float64(len(beats)); each > 4 {
		t.Errorf("%.2f bytes a heartbeat", each)
	}
}

func TestMalformedBeats(t *testing.T) {
	good := func() *wire.Beats {
		return subjects.PackBeats(1, 1, 100, 0, []subjects.Beat{{Conn: 1, Offset: 1}, {Conn: 1, Offset: 2}, {Conn: 5, Offset: 3}})
	}
	for name, spoil := range map[string]func(*wire.Beats){
		"no version":           func(m *wire.Beats) { m.Version = 0 },
		"next version":         func(m *wire.Beats) { m.Version = subjects.WireVersion + 1 },
		"missing count":        func(m *wire.Beats) { m.Counts = m.Counts[:1] },
		"count of none":        func(m *wire.Beats) { m.Counts[0] = -2 },
		"absurd count":         func(m *wire.Beats) { m.Counts[0] = math.MaxInt32 },
		"offset left over":     func(m *wire.Beats) { m.Offsets = append(m.Offsets, 0); m.Flags[1]++ },
		"offset missing":       func(m *wire.Beats) { m.Offsets = m.Offsets[:2]; m.Flags[1]-- },
		"offset out of range":  func(m *wire.Beats) { m.Offsets[0], m.Offsets[1] = math.MaxInt32, math.MaxInt32 },
		"flags without length": func(m *wire.Beats) { m.Flags = m.Flags[:1] },
		"flags too short":      func(m *wire.Beats) { m.Flags[1] = 1 },
		"flags too long":       func(m *wire.Beats) { m.Flags[1] = math.MaxUint32 },
		"flags too large":      func(m *wire.Beats) { m.Flags[0] = 256 },
		"connection twice":     func(m *wire.Beats) { m.Conns[1] = 0 },
		"connection wraps":     func(m *wire.Beats) { m.Conns[1] = math.MaxUint64 },
	} {
		m := good()
		spoil(m)
		b, err := subjects.Encode(m)
		if err != nil {
			t.Fatal(err)
		}
		head, beats, err := subjects.DecodeBeats(b)
		if !errors.Is(err, subjects.ErrMalformed) && !errors.Is(err, subjects.ErrVersion) {
			t.Errorf("%s: %v", name, err)
		}
		if head != nil || beats != nil {
			t.Errorf("%s: half a message was returned", name)
		}
	}
}

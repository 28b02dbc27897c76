package subjects

import (
	"fmt"
	"math"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// A Beat is one heartbeat in the raw history.
type Beat struct {
	Conn   uint64
	Offset int32 // milliseconds since the base of the message
	Flags  uint8 // bit 0 foreground, bit 1 active
}

// Flags of a [Beat].
const (
	FlagForeground = 1 << iota
	FlagActive
)

// MaxBeats is the most beats that one message may hold.
const MaxBeats = 1 << 20

// PackBeats writes beats, sorted by connection and then by offset, as columns. Offsets
// and stride must lie within ±2^29, six days, so that differences fit. The
// stride is the expected distance of two beats of a connection in milliseconds;
// the closer, the smaller.
func PackBeats(incarnation uint64, base rollcall.Micros, stride int32, dropped uint64, beats []Beat) *wire.Beats {
	m := &wire.Beats{
		Version: WireVersion, Incarnation: incarnation, Base: int64(base), Stride: stride, Dropped: dropped,
	}
	var conn uint64
	for i := 0; i < len(beats); {
		n := i
		for n < len(beats) && beats[n].Conn == beats[i].Conn {
			if n == i {
				m.Offsets = append(m.Offsets, beats[n].Offset)
			} else {
				m.Offsets = append(m.Offsets, beats[n].Offset-beats[n-1].Offset-stride)
			}
			m.Flags = appendRun(m.Flags, uint32(beats[n].Flags))
			n++
		}
		m.Conns = append(m.Conns, beats[i].Conn-conn)
		m.Counts = append(m.Counts, int32(n-i)-usualBeats)
		conn, i = beats[i].Conn, n
	}
	return m
}

// usualBeats in one renewal period; counts are written relative to it.
const usualBeats = 2

func appendRun(runs []uint32, value uint32) []uint32 {
	if n := len(runs); n > 0 && runs[n-2] == value {
		runs[n-1]++
		return runs
	}
	return append(runs, value, 1)
}

// DecodeBeats reads and checks a message of the beats stream.
func DecodeBeats(b []byte) (*wire.Beats, []Beat, error) {
	m := new(wire.Beats)
	if err := decode(b, m); err != nil {
		return nil, nil, err
	}
	if err := checkVersion(m.Version); err != nil {
		return nil, nil, err
	}
	beats, err := unpackBeats(m)
	if err != nil {
		return nil, nil, err
	}
	return m, beats, nil
}

func unpackBeats(m *wire.Beats) ([]Beat, error) {
	bad := func(what string, v any) error { return fmt.Errorf("%w: %s %v", ErrMalformed, what, v) }
	if len(m.Conns) != len(m.Counts) {
		return nil, bad("connections and counts differ:", len(m.Conns))
	}
	if len(m.Offsets) > MaxBeats {
		return nil, bad("beats:", len(m.Offsets))
	}
	flags, err := unpackRuns(m.Flags, len(m.Offsets))
	if err != nil {
		return nil, err
	}
	beats := make([]Beat, 0, len(m.Offsets))
	var conn uint64
	for i, d := range m.Conns {
		if i > 0 && conn+d <= conn {
			return nil, bad("connection out of order after", conn)
		}
		conn += d
		n := int64(m.Counts[i]) + usualBeats
		if n < 1 || n > int64(len(m.Offsets)-len(beats)) {
			return nil, bad("count", n)
		}
		var offset int64
		for k := range n {
			step := int64(m.Offsets[len(beats)])
			if k > 0 {
				step += int64(m.Stride)
			}
			if offset += step; offset < math.MinInt32 || offset > math.MaxInt32 {
				return nil, bad("offset", offset)
			}
			beats = append(beats, Beat{conn, int32(offset), flags[len(beats)]})
		}
	}
	if len(beats) != len(m.Offsets) {
		return nil, bad("offsets without a connection:", len(m.Offsets)-len(beats))
	}
	return beats, nil
}

func unpackRuns(runs []uint32, want int) ([]uint8, error) {
	if len(runs)%2 != 0 {
		return nil, fmt.Errorf("%w: flags without a length", ErrMalformed)
	}
	values := make([]uint8, 0, want)
	for i := 0; i < len(runs); i += 2 {
		if runs[i] > math.MaxUint8 || int(runs[i+1]) > want-len(values) {
			return nil, fmt.Errorf("%w: flags run %d × %d", ErrMalformed, runs[i], runs[i+1])
		}
		for range runs[i+1] {
			values = append(values, uint8(runs[i]))
		}
	}
	if len(values) != want {
		return nil, fmt.Errorf("%w: flags for %d of %d beats", ErrMalformed, len(values), want)
	}
	return values, nil
}

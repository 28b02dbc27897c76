package subjects

import (
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/proto"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// WireVersion is the version of frames, beats and control messages that this
// code writes, and the newest that it reads.
const WireVersion = 1

// Limits of a frame. An edge cuts its frames below them.
const (
	MaxEntries    = 1000
	MaxFrameBytes = 512 << 10
	MaxActivity   = 64 // bytes of an activity label
	MaxClient     = 64 // bytes of each word about a client
)

// Errors of the decoders.
var (
	ErrMalformed = errors.New("subjects: malformed message")
	ErrVersion   = errors.New("subjects: newer version")
)

// EncodeFrame writes a frame; it fails only for ids that are not UTF-8.
func EncodeFrame(f *wire.Frame) ([]byte, error) { return encode(f) }

// DecodeFrame reads and checks a frame. It fails with [ErrMalformed] or
// [ErrVersion]; what it returns holds only acceptable ids.
func DecodeFrame(b []byte) (*wire.Frame, error) {
	if len(b) > MaxFrameBytes {
		return nil, fmt.Errorf("%w: %d bytes", ErrMalformed, len(b))
	}
	f := new(wire.Frame)
	if err := decode(b, f); err != nil {
		return nil, err
	}
	if err := checkVersion(f.Version); err != nil {
		return nil, err
	}
	if len(f.Entries) > MaxEntries {
		return nil, fmt.Errorf("%w: %d entries", ErrMalformed, len(f.Entries))
	}
	for i, e := range f.Entries {
		if err := checkEntry(e); err != nil {
			return nil, fmt.Errorf("%w: entry %d: %w", ErrMalformed, i, err)
		}
	}
	return f, nil
}

func checkEntry(e *wire.Entry) error {
	switch e.Kind {
	case wire.Kind_KIND_OPEN, wire.Kind_KIND_STATE, wire.Kind_KIND_CLOSE, wire.Kind_KIND_ROSTER:
		if err := (rollcall.Endpoint{User: e.User, Device: e.Device}).Check(); err != nil {
			return err
		}
		if e.State < 0 || e.State > wire.State_STATE_ACTIVE {
			return fmt.Errorf("state %d", e.State)
		}
		if len(e.Activity) > MaxActivity {
			return fmt.Errorf("activity of %d bytes", len(e.Activity))
		}
		return checkOrigin(e.Origin)
	}
	return nil
}

func checkOrigin(o *wire.Origin) error {
	if o == nil {
		return nil
	}
	if o.Session != "" {
		if err := rollcall.CheckID(o.Session); err != nil {
			return fmt.Errorf("session: %w", err)
		}
	}
	for _, word := range []string{o.ClientType, o.ClientVersion, o.Channel, o.Region} {
		if len(word) > MaxClient {
			return fmt.Errorf("client of %d bytes", len(word))
		}
	}
	return nil
}

// TickFrame is the message by which a keeper of the given generation lets time
// pass.
func TickFrame(generation uint64) *wire.Frame {
	return &wire.Frame{
		Version: WireVersion, Incarnation: generation,
		Entries: []*wire.Entry{{Kind: wire.Kind_KIND_TICK}},
	}
}

// EncodeControl writes a control message.
func EncodeControl(c *wire.Control) ([]byte, error) { return encode(c) }

// DecodeControl reads a control message.
func DecodeControl(b []byte) (*wire.Control, error) {
	c := new(wire.Control)
	if err := decode(b, c); err != nil {
		return nil, err
	}
	if err := checkVersion(c.Version); err != nil {
		return nil, err
	}
	return c, nil
}

// Encode writes a record or a pulse.
func Encode(m proto.Message) ([]byte, error) { return encode(m) }

// Decode reads a record or a pulse.
func Decode(b []byte, m proto.Message) error { return decode(b, m) }

func encode(m proto.Message) ([]byte, error) {
	b, err := proto.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return b, nil
}

func decode(b []byte, m proto.Message) error {
	if err := proto.Unmarshal(b, m); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return nil
}

func checkVersion(v uint32) error {
	switch {
	case v == 0: // no release ever wrote it, so this is garbage and not a newer release
		return fmt.Errorf("%w: no version", ErrMalformed)
	case v > WireVersion:
		return fmt.Errorf("%w: %d, this code reads 1 to %d", ErrVersion, v, WireVersion)
	}
	return nil
}

// A Digest identifies a set of connections and their states, whatever the order.
// The sum of all connections' hashes is compared between edge and keeper; it
// guards against loss, not against forgery.
type Digest uint64

// ConnDigest is one connection's share of a [Digest].
func ConnDigest(user, device string, epoch int64, state wire.State, activity string) Digest {
	var h xxhash.Digest
	h.Reset()
	var fixed [12]byte
	for i := range 8 {
		fixed[i] = byte(uint64(epoch) >> (8 * i))
	}
	fixed[8], fixed[9], fixed[10] = byte(len(user)), byte(len(device)), byte(state)
	h.Write(fixed[:])
	h.WriteString(user)
	h.WriteString(device)
	h.WriteString(activity)
	return Digest(h.Sum64())
}

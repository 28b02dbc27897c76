package subjects_test

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

func open(user, device string) *wire.Entry {
	return &wire.Entry{Kind: wire.Kind_KIND_OPEN, User: user, Device: device, Conn: 1, Epoch: 2, State: wire.State_STATE_ACTIVE}
}

func frame(entries ...*wire.Entry) *wire.Frame {
	return &wire.Frame{Version: subjects.WireVersion, Incarnation: 1, Number: 1, Entries: entries}
}

// repeat is n times the same entry.
func repeat(n int, e *wire.Entry) []*wire.Entry {
	entries := make([]*wire.Entry, n)
	for i := range entries {
		entries[i] = e
	}
	return entries
}

func encoded(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestFrameRoundTrip(t *testing.T) {
	for name, f := range map[string]*wire.Frame{
		"empty": frame(), "open": frame(open("alice", "phone")), "tick": subjects.TickFrame(5),
		"as many as fit": frame(repeat(subjects.MaxEntries, open(strings.Repeat("u", 128), strings.Repeat("d", 128)))...),
		"a later kind":   frame(&wire.Entry{Kind: 99}),
		"renew":          frame(&wire.Entry{Kind: wire.Kind_KIND_RENEW, Count: 3, Digest: 4}),
	} {
		b, err := subjects.EncodeFrame(f)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := subjects.DecodeFrame(b); err != nil || !proto.Equal(got, f) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRefusedFrames(t *testing.T) {
	longLabel := open("a", "d")
	longLabel.Activity = strings.Repeat("x", subjects.MaxActivity+1)
	state := func(s wire.State) *wire.Entry { e := open("a", "d"); e.State = s; return e }
	huge := frame(open("a", "d"))
	huge.ProtoReflect().SetUnknown(encoded(t, &wire.Interest{Targets: []string{strings.Repeat("x", subjects.MaxFrameBytes)}}))
	good := encoded(t, frame(open("alice", "phone")))
	for name, tc := range map[string]struct {
		body []byte
		want error
	}{
		"no version":       {encoded(t, &wire.Frame{}), subjects.ErrMalformed},
		"next version":     {encoded(t, &wire.Frame{Version: subjects.WireVersion + 1}), subjects.ErrVersion},
		"truncated":        {good[:len(good)-1], subjects.ErrMalformed},
		"too many entries": {encoded(t, frame(repeat(subjects.MaxEntries+1, &wire.Entry{Kind: wire.Kind_KIND_TICK})...)), subjects.ErrMalformed},
		"too many bytes":   {encoded(t, huge), subjects.ErrMalformed},
		"no user":          {encoded(t, frame(open("", "phone"))), subjects.ErrMalformed},
		"no device":        {encoded(t, frame(open("alice", ""))), subjects.ErrMalformed},
		"long user":        {encoded(t, frame(open(strings.Repeat("u", 129), "phone"))), subjects.ErrMalformed},
		"long label":       {encoded(t, frame(longLabel)), subjects.ErrMalformed},
		"negative state":   {encoded(t, frame(state(-1))), subjects.ErrMalformed},
		"unknown state":    {encoded(t, frame(state(4))), subjects.ErrMalformed},
	} {
		if f, err := subjects.DecodeFrame(tc.body); !errors.Is(err, tc.want) || f != nil {
			t.Errorf("%s: %v, %v", name, f, err)
		}
	}
}

func TestUnknownFieldsAreKept(t *testing.T) {
	// Field 200 of a later version, a varint.
	b := append(encoded(t, frame(open("alice", "phone"))), 0xc0, 0x0c, 0x07)
	f, err := subjects.DecodeFrame(b)
	if err != nil {
		t.Fatal(err)
	}
	if again := encoded(t, f); len(again) != len(b) {
		t.Errorf("%d bytes became %d", len(b), len(again))
	}
}

func TestEncodeRefusesIDsThatAreNotUTF8(t *testing.T) {
	if _, err := subjects.EncodeFrame(frame(open("\xff", "phone"))); !errors.Is(err, subjects.ErrMalformed) {
		t.Error(err)
	}
}

func TestControl(t *testing.T) {
	c := &wire.Control{Version: subjects.WireVersion, Kind: wire.Control_KIND_SUPERSEDED, Shard: 1, Incarnation: 2, Conns: []uint64{3}}
	b, err := subjects.EncodeControl(c)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := subjects.DecodeControl(b); err != nil || !proto.Equal(got, c) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := subjects.DecodeControl(nil); !errors.Is(err, subjects.ErrMalformed) || got != nil {
		t.Errorf("without a version: %v, %v", got, err)
	}
}

func TestDigestTellsConnectionsApart(t *testing.T) {
	base := subjects.ConnDigest("alice", "phone", 1, wire.State_STATE_ACTIVE, "")
	for name, other := range map[string]subjects.Digest{
		"user":      subjects.ConnDigest("alicf", "phone", 1, wire.State_STATE_ACTIVE, ""),
		"device":    subjects.ConnDigest("alice", "phonf", 1, wire.State_STATE_ACTIVE, ""),
		"boundary":  subjects.ConnDigest("alicep", "hone", 1, wire.State_STATE_ACTIVE, ""),
		"label":     subjects.ConnDigest("alice", "phon", 1, wire.State_STATE_ACTIVE, "e"),
		"epoch":     subjects.ConnDigest("alice", "phone", 1<<40, wire.State_STATE_ACTIVE, ""),
		"no epoch":  subjects.ConnDigest("alice", "phone", -1, wire.State_STATE_ACTIVE, ""),
		"state":     subjects.ConnDigest("alice", "phone", 1, wire.State_STATE_IDLE, ""),
		"activity":  subjects.ConnDigest("alice", "phone", 1, wire.State_STATE_ACTIVE, "typing"),
		"all other": subjects.ConnDigest("bob", "tv", 2, wire.State_STATE_IDLE, "x"),
	} {
		if other == base {
			t.Errorf("%s makes no difference", name)
		}
	}
}

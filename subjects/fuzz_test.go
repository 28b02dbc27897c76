package subjects_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

var update = flag.Bool("update", false, "write the seeds of the fuzz tests to testdata/fuzz")

// seed adds inputs to a fuzz test; with -update they are written down, so that the
// corpus stays readable by its names.
func seed[T string | []byte](f *testing.F, inputs map[string]T) {
	f.Helper()
	dir := filepath.Join("testdata", "fuzz", f.Name())
	for name, input := range inputs {
		f.Add(input)
		if !*update {
			continue
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			f.Fatal(err)
		}
		text := fmt.Sprintf("go test fuzz v1\n%T(%q)\n", input, input)
		if _, raw := any(input).([]byte); raw {
			text = fmt.Sprintf("go test fuzz v1\n[]byte(%q)\n", input)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			f.Fatal(err)
		}
	}
}

func FuzzDecodeFrame(f *testing.F) {
	absurd := open("alice", "phone")
	absurd.At, absurd.Epoch, absurd.Seen = math.MinInt64, math.MaxInt64, -1
	good := encoded(f, frame(open("alice", "phone"), &wire.Entry{Kind: wire.Kind_KIND_RENEW, Count: 1, Digest: 7}))
	seed(f, map[string][]byte{
		"empty": {}, "good": good, "truncated": good[:len(good)-3], "tick": encoded(f, subjects.TickFrame(1)),
		"version_0": encoded(f, &wire.Frame{}), "version_2": encoded(f, &wire.Frame{Version: 2}),
		"absurd_times": encoded(f, frame(absurd)), "unknown_kind": encoded(f, frame(&wire.Entry{Kind: 99})),
		"entries_1001": encoded(f, frame(repeat(1001, &wire.Entry{Kind: wire.Kind_KIND_TICK})...)),
		"no_user":      encoded(f, frame(open("", "phone"))), "bad_state": encoded(f, frame(&wire.Entry{Kind: 2, User: "a", Device: "b", State: -7})),
	})
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := subjects.DecodeFrame(b)
		if refused(t, err, got == nil) {
			return
		}
		if len(got.Entries) > subjects.MaxEntries || got.Version != subjects.WireVersion {
			t.Fatalf("%d entries, version %d", len(got.Entries), got.Version)
		}
		for _, e := range got.Entries {
			named := e.Kind >= wire.Kind_KIND_OPEN && e.Kind <= wire.Kind_KIND_CLOSE || e.Kind == wire.Kind_KIND_ROSTER
			if err := (rollcall.Endpoint{User: e.User, Device: e.Device}).Check(); named && err != nil {
				t.Fatal(err)
			}
		}
		again, err := subjects.DecodeFrame(encoded(t, got))
		if err != nil || !proto.Equal(again, got) {
			t.Fatalf("decoded again: %v", err)
		}
	})
}

// refused checks that an error is one of the package's and comes alone.
func refused(t *testing.T, err error, nothing bool) bool {
	t.Helper()
	if err == nil {
		return false
	}
	if !errors.Is(err, subjects.ErrMalformed) && !errors.Is(err, subjects.ErrVersion) {
		t.Fatalf("foreign error: %v", err)
	}
	if !nothing {
		t.Fatal("half a message was returned")
	}
	return true
}

func FuzzDecodeControl(f *testing.F) {
	good := encoded(f, &wire.Control{Version: 1, Kind: wire.Control_KIND_SUPERSEDED, Shard: 3, Incarnation: 9, Conns: []uint64{1, math.MaxUint64}})
	seed(f, map[string][]byte{
		"empty": {}, "good": good, "truncated": good[:len(good)-1],
		"version_2": encoded(f, &wire.Control{Version: 2}), "unknown_kind": encoded(f, &wire.Control{Version: 1, Kind: 77}),
	})
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := subjects.DecodeControl(b)
		if refused(t, err, got == nil) {
			return
		}
		if again, err := subjects.DecodeControl(encoded(t, got)); err != nil || !proto.Equal(again, got) {
			t.Fatalf("decoded again: %v", err)
		}
	})
}

func FuzzDecodeBeats(f *testing.F) {
	beats := []subjects.Beat{{Conn: 1, Offset: 10, Flags: 3}, {Conn: 1, Offset: 28510, Flags: 3}, {Conn: 9, Offset: -5}}
	good := encoded(f, subjects.PackBeats(1, 1, 28500, 0, beats))
	absurd := subjects.PackBeats(1, math.MinInt64, math.MinInt32, math.MaxUint64, beats)
	seed(f, map[string][]byte{
		"empty": {}, "good": good, "truncated": good[:len(good)-1], "none": encoded(f, subjects.PackBeats(1, 1, 1, 0, nil)),
		"version_2": encoded(f, &wire.Beats{Version: 2}), "absurd_times": encoded(f, absurd),
		"flags_run": encoded(f, &wire.Beats{Version: 1, Flags: []uint32{1, math.MaxUint32}}),
		"counts":    encoded(f, &wire.Beats{Version: 1, Conns: []uint64{1}, Counts: []int32{math.MaxInt32}}),
		"conns":     encoded(f, &wire.Beats{Version: 1, Conns: []uint64{1, math.MaxUint64}, Counts: []int32{-1, -1}, Offsets: []int32{1, 1}, Flags: []uint32{0, 2}}),
	})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, got, err := subjects.DecodeBeats(b)
		if refused(t, err, m == nil && got == nil) {
			return
		}
		if len(got) > subjects.MaxBeats {
			t.Fatalf("%d beats", len(got))
		}
		for i := 1; i < len(got); i++ {
			if got[i].Conn < got[i-1].Conn {
				t.Fatalf("connection %d after %d", got[i].Conn, got[i-1].Conn)
			}
		}
	})
}

func FuzzDecodeRequest(f *testing.F) {
	seed(f, map[string][]byte{
		"empty": {}, "good": []byte(`{"targets":["a","a","b"]}`), "truncated": []byte(`{"targets":["a"`), "list": []byte(`["a"]`),
		"null": []byte("null"), "surrogate": []byte(`{"targets":["\ud83d"]}`), "pair": []byte(`{"targets":["\ud83d\ude00"]}`),
		"escape_at_the_end": []byte(`{"targets":["\\"]}`), "not_utf8": []byte("{\"targets\":[\"\xff\"]}"),
		"too_many": []byte(request(subjects.MaxTargets + 1)), "wrong_type": []byte(`{"targets":[1e999]}`),
	})
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, needed := range []bool{true, false} {
			r, err := subjects.DecodeRequest(b, needed)
			if err != nil {
				if !errors.As(err, new(*subjects.Error)) || r.Targets != nil {
					t.Fatalf("%v, %v", r, err)
				}
				continue
			}
			checkTargets(t, r.Targets, needed)
		}
	})
}

func checkTargets(t *testing.T, targets []string, needed bool) {
	t.Helper()
	if needed && len(targets) == 0 || len(targets) > subjects.MaxTargets {
		t.Fatalf("%d targets", len(targets))
	}
	seen := map[string]bool{}
	for _, target := range targets {
		if err := rollcall.CheckID(target); err != nil || seen[target] {
			t.Fatalf("%q: %v, twice: %v", target, err, seen[target])
		}
		seen[target] = true
	}
}

func FuzzDecodeReply(f *testing.F) {
	seed(f, map[string][]byte{
		"empty": {}, "good": []byte(`{"shards":[{"shard":1,"generation":2,"seq":3,"feed":"live","targets":1,"views":[{"target":"a","status":"online","version":1}]}]}`),
		"truncated": []byte(`{"shards":[{`), "null": []byte("null"), "not_utf8": []byte("{\"shards\":\"\xff\"}"), "negative": []byte(`{"shards":[{"seq":-1}]}`),
	})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := subjects.DecodeReply(b)
		if refused(t, err, r.Shards == nil) {
			return
		}
		roundTrip(t, r, subjects.DecodeReply)
	})
}

func FuzzDecodeMessage(f *testing.F) {
	seed(f, map[string][]byte{
		"empty": {}, "good": []byte(`{"shard":1,"generation":2,"seq":3,"feed":"live","targets":1,"changes":[{"target":"a","status":"online","version":1,"observed_at_minute":"2026-03-29T01:59:00Z"}]}`),
		"truncated": []byte(`{"shard":1`), "null_minute": []byte(`{"changes":[{"observed_at_minute":null}]}`),
		"year_0": []byte(`{"changes":[{"observed_at_minute":"0000-01-01T00:00:00Z"}]}`), "year_9999": []byte(`{"changes":[{"last_seen_minute":"9999-12-31T23:59:59Z"}]}`),
		"west_of_year_0": []byte(`{"changes":[{"last_seen_minute":"0000-01-01T00:00:00+23:59"}]}`), "surrogate": []byte(`{"reason":"\udc00"}`),
	})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := subjects.DecodeMessage(b)
		if refused(t, err, m.Changes == nil && m.Position == subjects.Position{}) {
			return
		}
		roundTrip(t, m, subjects.DecodeMessage)
	})
}

// roundTrip checks that what was read can be written and read again.
func roundTrip[T any](t *testing.T, v T, decode func([]byte) (T, error)) {
	t.Helper()
	first, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	again, err := decode(first)
	if err != nil {
		t.Fatalf("%s: %v", first, err)
	}
	if second, err := json.Marshal(again); err != nil || !bytes.Equal(first, second) {
		t.Fatalf("%s became %s, %v", first, second, err)
	}
}

func FuzzParseToken(f *testing.F) {
	seed(f, map[string]string{
		"empty": "", "plain": "alice", "escaped": "=YS5i", "tick": "=t", "bare": "=", "trailing_bits": "=Kh",
		"line_break": "=K\ng", "of_plain": "=YWxpY2U", "padded": "=Kg==", "wildcard": "*", "two": "a.b", "not_utf8": "=_w",
	})
	f.Fuzz(func(t *testing.T, token string) {
		if id, err := subjects.ParseToken(token); err == nil && (subjects.Token(id) != token || rollcall.CheckID(id) != nil) {
			t.Fatalf("%q is read as %q, whose token is %q", token, id, subjects.Token(id))
		}
	})
}

func FuzzParseKey(f *testing.F) {
	seed(f, map[string]string{"empty": "", "owner": "owner", "user": "user.alice", "escaped": "view.=YS5i", "open": "user.", "deep": "user.a.b", "bad": "user.=t"})
	f.Fuzz(func(t *testing.T, key string) {
		kind, id, err := subjects.ParseKey(key)
		if err != nil {
			return
		}
		if again := kind + "." + subjects.Token(id); id != "" && again != key || id == "" && kind != key {
			t.Fatalf("%q is read as %q, %q", key, kind, id)
		}
	})
}

func FuzzParseInterest(f *testing.F) {
	seed(f, map[string]string{"empty": "", "good": "alice.7", "escaped": "=YS5i.0", "negative": "alice.-1", "plus": "alice.+1", "zeros": "alice.007", "deep": "alice.1.2", "huge": "alice.99999999999999999999"})
	f.Fuzz(func(t *testing.T, key string) {
		viewer, part, err := subjects.ParseInterest(key)
		if err == nil && subjects.KeyInterest(viewer, part) != key {
			t.Fatalf("%q is read as %q, %d", key, viewer, part)
		}
	})
}

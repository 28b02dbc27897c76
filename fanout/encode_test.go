package fanout

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
)

func drawView(t *rapid.T) View {
	instant := rapid.Int64Range(0, int64(latest)-1)
	return View{
		State:    rapid.SampledFrom([]rollcall.State{rollcall.Offline, rollcall.Background, rollcall.Idle, rollcall.Active}).Draw(t, "state"),
		Activity: rapid.String().Draw(t, "activity"),
		Observed: rollcall.Micros(instant.Draw(t, "observed")), Seen: rollcall.Micros(instant.Draw(t, "seen")),
	}
}

func TestEncodingIsThatOfEncodingJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		target := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"\x00\x7f\u2028", `<&>"\`, "\n\t\b\f", "plain"})).Draw(t, "target")
		g := rapid.SampledFrom([]rollcall.Granularity{rollcall.Absent, rollcall.Hidden, rollcall.Coarse, rollcall.Exact}).Draw(t, "granularity")
		now := rollcall.Micros(rapid.Int64Range(0, int64(latest)-1).Draw(t, "now"))
		version := rapid.Uint64().Draw(t, "version")
		l := trim(drawView(t), g, now)
		view := l.view("x", version)
		view.Target = target
		want, err := json.Marshal(view)
		if err != nil {
			t.Fatal(err)
		}
		if got := appendView(nil, target, l, version); string(got) != string(want) {
			t.Fatalf("view\n got %s\nwant %s", got, want)
		}
		p := subjects.Position{
			Shard: rapid.Int().Draw(t, "shard"), Generation: version, Seq: rapid.Uint64().Draw(t, "seq"),
			Feed: subjects.Feed(rapid.String().Draw(t, "feed")), Reason: rapid.String().Draw(t, "reason"), Targets: rapid.Int().Draw(t, "targets"),
		}
		want, err = json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(appendPosition([]byte{'{'}, p)) + "}"; got != string(want) {
			t.Fatalf("position\n got %s\nwant %s", got, want)
		}
	})
}

func BenchmarkTrimAndEncode(b *testing.B) {
	v := View{State: rollcall.Offline, Observed: 1_777_777_777_777_777, Seen: 1_777_777_700_000_000}
	buffer := make([]byte, 0, 512)
	b.ReportAllocs()
	for b.Loop() {
		l := trim(v, rollcall.Exact, v.Observed)
		buffer = appendView(buffer[:0], "user-1234", l, 3558<<42)
	}
}

func BenchmarkTrimAndMarshal(b *testing.B) {
	v := View{State: rollcall.Offline, Observed: 1_777_777_777_777_777, Seen: 1_777_777_700_000_000}
	b.ReportAllocs()
	for b.Loop() {
		view, _ := Trim(v, rollcall.Exact, v.Observed)
		view.Target, view.Version = "user-1234", 3558<<42
		if _, err := json.Marshal(view); err != nil {
			b.Fatal(err)
		}
	}
}

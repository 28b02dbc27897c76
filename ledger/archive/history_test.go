package archive

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/interval"
	"github.com/rollcall-io/rollcall/ledger/raw"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// begin is close to a midnight.
var begin = time.Date(2026, 11, 30, 22, 40, 0, 0, time.UTC)

var everything = interval.Interval{From: interval.Earliest, To: interval.Latest}

func namesOf(t testing.TB, shards int) subjects.Names {
	t.Helper()
	names, err := subjects.New("presence", shards)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// A history is what edges wrote to the streams of a shard.
type history struct {
	names    subjects.Names
	messages []raw.Message
	seq      [2]uint64
}

func (h *history) add(beats bool, subject string, at time.Time, data []byte) {
	stream, i := h.names.LogStream(0), 0
	if beats {
		stream, i = h.names.BeatsStream(0), 1
	}
	h.seq[i]++
	h.messages = append(h.messages, raw.Message{Beats: beats, Stream: stream, Subject: subject, Seq: h.seq[i], Time: at, Data: data})
}

// random is a history of some edges over some hours: connections of users come and go,
// heartbeats come late or twice, connections appear whose OPEN was lost, processes start
// again, and some messages are garbage.
func random(t testing.TB, seed uint64, messages int) *history {
	rnd := rand.New(rand.NewPCG(seed, 7))
	h := &history{names: namesOf(t, 1)}
	at := begin
	type edge struct {
		name        string
		incarnation uint64
		conns       []*wire.Entry
		last        uint64
	}
	edges := []*edge{{name: "g1", incarnation: 3}, {name: "g2", incarnation: 9}}
	for range messages {
		at = at.Add(time.Duration(rnd.IntN(180_000)) * time.Millisecond)
		e := edges[rnd.IntN(len(edges))]
		ago := func(most time.Duration) int64 { return at.Add(-within(rnd, most)).UnixMicro() }
		frame := &wire.Frame{Version: 1, Incarnation: e.incarnation, Number: 1}
		open := func(kind wire.Kind) {
			e.last++
			c := &wire.Entry{
				Kind: kind, At: ago(time.Minute), Conn: e.last, Epoch: ago(3 * time.Hour), User: fmt.Sprintf("user-%d", rnd.IntN(5)),
				Device: fmt.Sprintf("device-%d", rnd.IntN(2)), State: wire.State(1 + rnd.IntN(3)), Activity: []string{"", "streaming"}[rnd.IntN(2)],
			}
			if rnd.IntN(2) == 0 {
				c.Origin = &wire.Origin{Session: fmt.Sprintf("session-%d", rnd.IntN(4)), ClientType: "ios", Region: []string{"eu", "us"}[rnd.IntN(2)]}
			}
			e.conns = append(e.conns, c)
			frame.Entries = append(frame.Entries, c)
		}
		switch n := rnd.IntN(20); {
		case n < 4 || len(e.conns) == 0:
			open([]wire.Kind{wire.Kind_KIND_OPEN, wire.Kind_KIND_OPEN, wire.Kind_KIND_STATE, wire.Kind_KIND_ROSTER}[rnd.IntN(4)])
		case n < 6:
			c := e.conns[rnd.IntN(len(e.conns))]
			frame.Entries = append(frame.Entries, &wire.Entry{
				Kind: wire.Kind_KIND_STATE, At: ago(time.Minute), Conn: c.Conn, Epoch: c.Epoch, User: c.User, Device: c.Device, State: wire.State(1 + rnd.IntN(3)),
			})
		case n < 7:
			i := rnd.IntN(len(e.conns))
			c := e.conns[i]
			frame.Entries = append(frame.Entries, &wire.Entry{Kind: wire.Kind_KIND_CLOSE, At: ago(2 * time.Hour), Conn: c.Conn, Epoch: c.Epoch, User: c.User, Device: c.Device})
			e.conns = slices.Delete(e.conns, i, i+1)
		case n < 8:
			e.incarnation, e.conns = e.incarnation+1, nil
			frame.Incarnation = e.incarnation
			frame.Entries = append(frame.Entries, &wire.Entry{Kind: wire.Kind_KIND_HELLO, At: ago(time.Second)})
			open(wire.Kind_KIND_OPEN)
		case n < 9:
			h.add(rnd.IntN(2) == 0, h.names.Log(0, e.name), at, []byte("garbage "+fmt.Sprint(rnd.IntN(9))))
			continue
		default:
			h.beats(t, rnd, at, e.name, e.incarnation, e.conns)
			continue
		}
		data, err := subjects.EncodeFrame(frame)
		if err != nil {
			t.Fatal(err)
		}
		h.add(false, h.names.Log(0, e.name), at, data)
	}
	return h
}

func within(rnd *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(rnd.Int64N(int64(most)))
}

// beats of some connections, of one that is not known, and now and then of hours ago.
func (h *history) beats(t testing.TB, rnd *rand.Rand, at time.Time, edge string, incarnation uint64, conns []*wire.Entry) {
	base := at
	if rnd.IntN(5) == 0 {
		base = at.Add(-within(rnd, 4*time.Hour))
	}
	var list []subjects.Beat
	for _, c := range conns {
		for n := range int32(rnd.IntN(3)) {
			list = append(list, subjects.Beat{Conn: c.Conn, Offset: 27_000*n - 60_000 + int32(rnd.IntN(3000)), Flags: uint8(rnd.IntN(4))})
		}
		if len(list) > 0 && rnd.IntN(4) == 0 {
			list = append(list, list[len(list)-1]) // twice
		}
	}
	if rnd.IntN(10) == 0 {
		list = append(list, subjects.Beat{Conn: 1 << 20, Offset: -5})
	}
	data, err := subjects.Encode(subjects.PackBeats(incarnation, rollcall.MicrosOf(base), 27_000, 0, list))
	if err != nil {
		t.Fatal(err)
	}
	h.add(true, h.names.Beats(0, edge), at, data)
	if rnd.IntN(15) == 0 { // stored twice
		h.add(true, h.names.Beats(0, edge), at.Add(time.Second), data)
	}
}

// A telling is what a history tells, by the rules of those who read the streams, but for
// what is too late; live, also for that.
type telling struct {
	live     bool
	decoder  *raw.Decoder
	events   []Event
	rejected []ledger.Rejected
}

func (l *telling) Event(e ledger.Event) {
	o := l.decoder.Origin()
	told := Event{Event: e, Stored: o.Stored, Origin: Origin{Beats: o.Beats, Seq: o.Seq}}
	if o.Told != 0 && !l.live {
		told.At, told.Adopted = o.Told, true
	}
	told.Device = pseudonym(e.Device)
	l.events = append(l.events, told)
}
func (l *telling) Beat(c *raw.Conn, at int64, flags uint8) { l.Event(c.Beat(at, flags)) }
func (l *telling) Reject(r ledger.Rejected)                { l.rejected = append(l.rejected, r) }

func pseudonym(device string) string { return "p:" + device }

func (h *history) told() (events []Event, rejected []ledger.Rejected) {
	l := new(telling)
	l.decoder = raw.Keep(h.names, defaultHorizon, l)
	for _, m := range h.messages {
		l.decoder.Add(m)
	}
	return l.events, l.rejected
}

// order makes sets of events comparable.
func order(events []Event) []string {
	lines := make([]string, len(events))
	for i, e := range events {
		line, _ := json.Marshal(e)
		lines[i] = string(line)
	}
	slices.Sort(lines)
	return lines
}

func orderRejected(rejected []ledger.Rejected) []string {
	lines := make([]string, len(rejected))
	for i, r := range rejected {
		line, _ := json.Marshal(r)
		lines[i] = string(line)
	}
	slices.Sort(lines)
	return lines
}

// read is everything in an archive, which must come in the order of hours.
func read(t testing.TB, dir string) (events []Event, rejected []ledger.Rejected) {
	t.Helper()
	a, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	last := int64(interval.Earliest)
	err = a.Read(t.Context(), everything, func(e Event) error {
		if w := Watermark(e.Stored); w < last {
			t.Errorf("stored at %d, read behind the watermark %d", e.Stored, last)
		} else {
			last = w
		}
		events = append(events, e)
		return nil
	})
	if err == nil {
		err = a.Rejected(t.Context(), everything, func(r ledger.Rejected) error {
			rejected = append(rejected, r)
			return nil
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return events, rejected
}

// same compares what is in an archive with what must be.
func same(t testing.TB, dir string, events []Event, rejected []ledger.Rejected) {
	t.Helper()
	got, refused := read(t, dir)
	differ(t, "events", order(got), order(events))
	differ(t, "refusals", orderRejected(refused), orderRejected(rejected))
}

func differ(t testing.TB, what string, got, want []string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		var g, w string
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			t.Fatalf("%d %s, want %d; the first that differs:\n%s\n%s", len(got), what, len(want), cmp.Or(g, "-"), cmp.Or(w, "-"))
		}
	}
}

func config(dir string) Config { return Config{Dir: dir, Device: pseudonym, disk: disk{hasty: true}} }

func newWriter(t testing.TB, h *history, cfg Config) *Writer {
	t.Helper()
	w, err := NewWriter(context.Background(), h.names, 0, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

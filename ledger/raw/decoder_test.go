package raw_test

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/raw"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

const second = int64(1_000_000) // of the wire

// A tape takes events as they come.
type tape struct {
	events   []ledger.Event
	rejected []ledger.Rejected
}

func (t *tape) Event(e ledger.Event)                    { t.events = append(t.events, e) }
func (t *tape) Beat(c *raw.Conn, at int64, flags uint8) { t.Event(c.Beat(at, flags)) }
func (t *tape) Reject(r ledger.Rejected)                { t.rejected = append(t.rejected, r) }

// A scene is an edge that writes to a shard.
type scene struct {
	*testing.T
	*tape
	names   subjects.Names
	decoder *raw.Decoder
	seq     uint64
}

func newScene(t *testing.T) *scene {
	names, err := subjects.New("presence", 1)
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{T: t, tape: &tape{}, names: names}
	s.decoder = raw.New(names, time.Hour, s.tape)
	return s
}

func (s *scene) add(beats bool, subject string, at int64, data []byte) {
	s.seq++
	s.decoder.Add(raw.Message{Beats: beats, Stream: "S", Subject: subject, Seq: s.seq, Time: time.UnixMicro(at * second), Data: data})
}

func (s *scene) frame(at int64, incarnation uint64, entries ...*wire.Entry) {
	data, err := subjects.EncodeFrame(&wire.Frame{Version: 1, Incarnation: incarnation, Number: 1, Entries: entries})
	if err != nil {
		s.Fatal(err)
	}
	s.add(false, s.names.Log(0, "g1"), at, data)
}

func (s *scene) beats(at int64, incarnation, conn uint64, offsets ...int32) {
	var list []subjects.Beat
	for _, o := range offsets {
		list = append(list, subjects.Beat{Conn: conn, Offset: o * 1000, Flags: subjects.FlagForeground})
	}
	data, err := subjects.Encode(subjects.PackBeats(incarnation, rollcall.Micros(0), 20_000, 0, list))
	if err != nil {
		s.Fatal(err)
	}
	s.add(true, s.names.Beats(0, "g1"), at, data)
}

func entry(kind wire.Kind, at int64) *wire.Entry { return &wire.Entry{Kind: kind, At: at * second} }

func of(kind wire.Kind, at int64, conn uint64, epoch int64) *wire.Entry {
	return &wire.Entry{
		Kind: kind, At: at * second, Conn: conn, Epoch: epoch * second, User: "ada", Device: "phone", State: wire.State_STATE_ACTIVE,
	}
}

// said lists what the events say, as kind and second.
func (s *scene) said(want ...[2]int64) {
	s.Helper()
	var got [][2]int64
	for _, e := range s.events {
		got = append(got, [2]int64{int64(e.Kind), e.At / 1000})
	}
	if !slices.Equal(got, want) {
		s.Errorf("events %v, want %v", got, want)
	}
}

func TestBeatsWaitForTheirOpen(t *testing.T) {
	s := newScene(t)
	s.beats(30, 7, 1, 25)
	s.said()
	s.frame(31, 7, entry(wire.Kind_KIND_HELLO, 1), of(wire.Kind_KIND_OPEN, 1, 1, 1))
	s.said([2]int64{int64(ledger.KindOpen), 1}, [2]int64{int64(ledger.KindBeat), 25})
	if e := s.events[0]; e.Session != raw.SessionID("g1", 7, 1) || !e.Stated || !e.Active || e.Epoch != second {
		t.Errorf("%+v", e)
	}
}

func TestBeatsOfNobody(t *testing.T) {
	s := newScene(t)
	s.beats(30, 7, 1, 25)
	s.frame(2*3600, 7, entry(wire.Kind_KIND_HELLO, 7200))
	if len(s.rejected) != 1 || s.rejected[0].Rule != ledger.RuleInput || s.rejected[0].Source != "S 1" {
		t.Errorf("in quarantine: %+v", s.rejected)
	}
}

// A new process of an edge ends what the one before held, and so does a roster that
// does not name it; heartbeats of the old process may still come.
func TestLostConnections(t *testing.T) {
	s := newScene(t)
	s.frame(1, 7, entry(wire.Kind_KIND_HELLO, 1), of(wire.Kind_KIND_OPEN, 1, 1, 1))
	s.frame(60, 8, entry(wire.Kind_KIND_HELLO, 60), of(wire.Kind_KIND_OPEN, 60, 1, 60), of(wire.Kind_KIND_OPEN, 60, 2, 60))
	s.beats(61, 7, 1, 25)
	s.frame(90, 8, entry(wire.Kind_KIND_ROSTER_BEGIN, 90), of(wire.Kind_KIND_ROSTER, 90, 2, 60), of(wire.Kind_KIND_OPEN, 90, 3, 90), entry(wire.Kind_KIND_ROSTER_END, 90))
	open, timeout := int64(ledger.KindOpen), int64(ledger.KindTimeout)
	s.said([2]int64{open, 1}, [2]int64{timeout, 60}, [2]int64{open, 60}, [2]int64{open, 60},
		[2]int64{int64(ledger.KindBeat), 25}, [2]int64{open, 90}, [2]int64{timeout, 90})
}

func TestStatesAndEnds(t *testing.T) {
	s := newScene(t)
	state := func(at int64, to wire.State) *wire.Entry {
		e := of(wire.Kind_KIND_STATE, at, 1, 1)
		e.State, e.Activity = to, "streaming"
		return e
	}
	logout := of(wire.Kind_KIND_CLOSE, 6, 1, 1)
	logout.Reason = wire.Reason_REASON_LOGOUT
	s.frame(7, 7, of(wire.Kind_KIND_OPEN, 1, 1, 1), state(2, wire.State_STATE_BACKGROUND), state(3, wire.State_STATE_IDLE),
		state(4, wire.State_STATE_ACTIVE), state(5, wire.State_STATE_IDLE), logout)
	s.said([2]int64{int64(ledger.KindOpen), 1}, [2]int64{int64(ledger.KindBackground), 2}, [2]int64{int64(ledger.KindForeground), 3},
		[2]int64{int64(ledger.KindActive), 4}, [2]int64{int64(ledger.KindIdle), 5}, [2]int64{int64(ledger.KindLogout), 6})
	if s.events[1].Activity != "streaming" {
		t.Errorf("%+v", s.events[1])
	}
}

// What is stored too long after it happened is refused, whenever it is read.
func TestTooLate(t *testing.T) {
	s := newScene(t)
	s.frame(2*3600, 7, of(wire.Kind_KIND_OPEN, 1, 1, 1))
	s.beats(2*3600, 7, 1, 25, 3601)
	s.said([2]int64{int64(ledger.KindBeat), 3601})
	if len(s.rejected) != 2 || s.rejected[0].Rule != ledger.RuleLate || s.rejected[1].Rule != ledger.RuleLate {
		t.Errorf("in quarantine: %+v", s.rejected)
	}
}

func TestGarbage(t *testing.T) {
	s := newScene(t)
	s.add(true, s.names.Beats(0, "g1"), 1, []byte("no beats"))
	s.add(false, s.names.Log(0, "g1"), 1, []byte("no frame"))
	if len(s.rejected) != 2 || s.rejected[0].Source != "S 1" {
		t.Errorf("in quarantine: %+v", s.rejected)
	}
}

// A decoder that is restored amid a history yields what one without a crash does.
func TestSnapshot(t *testing.T) {
	play := func(crash bool) []ledger.Event {
		s := newScene(t)
		step := func() {
			if !crash {
				return
			}
			data, err := s.decoder.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			s.decoder = raw.New(s.names, time.Hour, s.tape)
			if err := s.decoder.Restore(data); err != nil {
				t.Fatal(err)
			}
		}
		s.frame(1, 7, entry(wire.Kind_KIND_HELLO, 1), of(wire.Kind_KIND_OPEN, 1, 1, 1))
		step()
		s.beats(30, 7, 1, 25)
		s.beats(30, 7, 2, 26)
		step()
		s.frame(31, 7, of(wire.Kind_KIND_OPEN, 20, 2, 20))
		step()
		s.frame(60, 7, entry(wire.Kind_KIND_ROSTER_BEGIN, 60))
		step()
		s.frame(61, 7, entry(wire.Kind_KIND_ROSTER_END, 61))
		slices.SortFunc(s.events, func(a, b ledger.Event) int {
			return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Session, b.Session))
		})
		return s.events
	}
	if a, b := play(false), play(true); !slices.Equal(a, b) || len(a) != 6 {
		t.Errorf("%v\n%v", a, b)
	}
}

// A decoder that keeps refuses nothing, and says of everything when it was stored.
func TestKeep(t *testing.T) {
	s := newScene(t)
	var stored []int64
	s.decoder = raw.Keep(s.names, time.Hour, noting{s.tape, func() { stored = append(stored, s.decoder.Origin().Stored/1000) }})
	s.beats(30, 7, 1, 25)
	s.frame(2*3600, 7, of(wire.Kind_KIND_OPEN, 1, 2, 1)) // and the heartbeat is given up
	s.beats(2*3600, 7, 2, 25)
	s.frame(3*3600, 7, of(wire.Kind_KIND_STATE, 3*3600, 3, 1)) // its OPEN was not read
	s.said([2]int64{int64(ledger.KindOpen), 1}, [2]int64{int64(ledger.KindBeat), 25},
		[2]int64{int64(ledger.KindOpen), 1}, [2]int64{int64(ledger.KindActive), 3 * 3600})
	if want := []int64{7200, 30, 7200, 10800, 10800}; !slices.Equal(stored, want) {
		t.Errorf("stored %v, want %v", stored, want)
	}
	if len(s.rejected) != 1 || s.rejected[0].Raw != raw.SessionID("g1", 7, 1)+" 25000/1" {
		t.Errorf("in quarantine: %+v", s.rejected)
	}
}

// noting calls a function before everything that a sink takes.
type noting struct {
	raw.Sink
	note func()
}

func (n noting) Event(e ledger.Event)                    { n.note(); n.Sink.Event(e) }
func (n noting) Beat(c *raw.Conn, at int64, flags uint8) { n.note(); n.Sink.Beat(c, at, flags) }
func (n noting) Reject(r ledger.Rejected)                { n.note(); n.Sink.Reject(r) }

// Nothing more is told of whoever was forgotten, also after a restart, and others go on.
func TestForget(t *testing.T) {
	s := newScene(t)
	bob := of(wire.Kind_KIND_OPEN, 1, 2, 1)
	bob.User = "bob"
	s.frame(1, 7, entry(wire.Kind_KIND_HELLO, 1), of(wire.Kind_KIND_OPEN, 1, 1, 1), bob)
	s.decoder.Forget(func(user string) bool { return user != "bob" })
	data, err := s.decoder.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	s.decoder = raw.New(s.names, time.Hour, s.tape)
	if err := s.decoder.Restore(data); err != nil {
		t.Fatal(err)
	}
	s.events = nil
	s.beats(30, 7, 1, 25)
	s.beats(30, 7, 2, 26)
	s.frame(40, 7, of(wire.Kind_KIND_CLOSE, 40, 1, 1))
	s.frame(2*3600, 8, entry(wire.Kind_KIND_HELLO, 7200))
	s.said([2]int64{int64(ledger.KindBeat), 26}, [2]int64{int64(ledger.KindTimeout), 7200})
	if len(s.rejected) > 0 {
		t.Errorf("in quarantine: %+v", s.rejected)
	}
}

package machine

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// A message is one message of a log; without a frame it cannot be read.
type message struct {
	at    rollcall.Micros
	seq   uint64
	from  Source
	frame *wire.Frame
}

func (msg message) applyTo(m *Machine) {
	if msg.frame == nil && !msg.from.Tick {
		m.Pass(msg.at, msg.seq)
		return
	}
	m.Apply(msg.at, msg.seq, msg.from, msg.frame)
}

func (msg message) String() string {
	return fmt.Sprintf("%d at %v %+v %v", msg.seq, time.Duration(msg.at-start)*time.Microsecond, msg.from, msg.frame)
}

const (
	second = rollcall.Micros(1_000_000)
	start  = 1_800_000_000 * second
)

// quick parameters make everything happen within a short history.
func quick(debounce time.Duration) rollcall.Params {
	p := rollcall.Default()
	p.Renewal, p.LeaseTTL, p.Sweep = 12*time.Second, 30*time.Second, 2*time.Second
	p.Debounce, p.Outage = debounce, 9*time.Second
	return p
}

func drawParams(t *rapid.T) rollcall.Params {
	return quick(rapid.SampledFrom([]time.Duration{8 * time.Second, 0, 3 * time.Second}).Draw(t, "debounce"))
}

// A historian invents histories. It knows from its model what is held, so that
// many entries are about something; as many are not.
type historian struct {
	*rapid.T
	model   *model
	at      rollcall.Micros
	numbers map[string]uint64
}

func newHistorian(t *rapid.T, p rollcall.Params) *historian {
	return &historian{t, newModel(p), start, make(map[string]uint64)}
}

var (
	edgeIDs     = rapid.SampledFrom([]string{"e1", "e2", "e3"})
	userIDs     = rapid.SampledFrom([]string{"u1", "u2", "u3", "u4"})
	deviceIDs   = rapid.SampledFrom([]string{"d1", "d2", "d3"})
	connNumbers = rapid.Uint64Range(1, 6)
	states      = rapid.SampledFrom([]wire.State{3, 2, 1, 3, 0})
	activities  = rapid.SampledFrom([]string{"", "", "chat", "game"})
	steps       = rapid.SampledFrom([]int{1, 0, 2, 1, 3, 0, 5, -2, 1, 2, 8, 14, 40})
	reasons     = rapid.SampledFrom([]wire.Reason{1, 2, 3, 4, 0})
	kinds       = rapid.SampledFrom([]wire.Kind{
		wire.Kind_KIND_OPEN, wire.Kind_KIND_OPEN, wire.Kind_KIND_OPEN, wire.Kind_KIND_CLOSE, wire.Kind_KIND_CLOSE,
		wire.Kind_KIND_STATE, wire.Kind_KIND_RENEW, wire.Kind_KIND_RENEW, wire.Kind_KIND_HELLO, wire.Kind_KIND_HELLO,
		wire.Kind_KIND_ROSTER_BEGIN, wire.Kind_KIND_ROSTER, wire.Kind_KIND_ROSTER_END, wire.Kind_KIND_LEAVE, 99,
	})
)

func (h *historian) chance(percent int, what string) bool {
	return rapid.IntRange(1, 100).Draw(h.T, what) <= percent
}

// next is the next message, already told to the model.
func (h *historian) next() message {
	h.at += rollcall.Micros(steps.Draw(h.T, "step")) * second
	msg := message{at: h.at, seq: h.model.seq + 1}
	if h.chance(5, "hole in the sequence") {
		msg.seq++
	}
	h.model.begin(msg.at, msg.seq)
	switch source := rapid.IntRange(0, 19).Draw(h.T, "source"); {
	case source < 6:
		msg.from.Tick = true
		h.model.tick()
	case source == 6:
		msg.from.Edge = edgeIDs.Draw(h.T, "edge")
		h.model.pass()
	default:
		msg.from.Edge = edgeIDs.Draw(h.T, "edge")
		msg.frame = h.frame(msg.from.Edge)
	}
	return msg
}

func (h *historian) frame(edge string) *wire.Frame {
	f := &wire.Frame{Version: 1, Incarnation: 1}
	if l := h.model.lease(edge); l != nil {
		f.Incarnation = l.incarnation
	}
	if h.chance(8, "another process") {
		f.Incarnation = rapid.Uint64Range(1, 3).Draw(h.T, "incarnation")
	}
	h.numbers[edge]++
	if h.chance(4, "lost frame") {
		h.numbers[edge]++
	}
	f.Number = h.numbers[edge]
	h.model.frame(edge, f.Number)
	for range rapid.IntRange(1, 5).Draw(h.T, "entries") {
		e := h.entry(edge)
		h.model.entry(edge, f.Incarnation, e)
		f.Entries = append(f.Entries, e)
	}
	h.model.framed(edge, f.Number)
	return f
}

func (h *historian) entry(edge string) *wire.Entry {
	e := &wire.Entry{Kind: kinds.Draw(h.T, "kind"), At: int64(h.now())}
	if h.model.lease(edge) == nil && h.chance(70, "hello") {
		e.Kind = wire.Kind_KIND_HELLO
	}
	switch e.Kind {
	case wire.Kind_KIND_OPEN:
		h.connection(e, edge, 10)
	case wire.Kind_KIND_ROSTER, wire.Kind_KIND_STATE:
		h.connection(e, edge, 85)
	case wire.Kind_KIND_CLOSE:
		h.connection(e, edge, 85)
		e.Reason = reasons.Draw(h.T, "reason")
		e.At = h.instant("at")
		e.Seen = h.instant("seen")
	case wire.Kind_KIND_RENEW:
		e.Count, e.Digest = h.model.digest(edge)
		if h.chance(20, "wrong digest") {
			e.Digest += rapid.Uint64Range(0, 1).Draw(h.T, "digest error")
			e.Count += rapid.Uint64Range(0, 1).Draw(h.T, "count error")
		}
	}
	return e
}

// connection names one that the edge holds, or invents one.
func (h *historian) connection(e *wire.Entry, edge string, held int) {
	e.State, e.Activity = states.Draw(h.T, "state"), activities.Draw(h.T, "activity")
	if claims := h.model.heldInOrder(edge); len(claims) > 0 && h.chance(held, "held") {
		c := claims[rapid.IntRange(0, len(claims)-1).Draw(h.T, "which")]
		e.Conn, e.User, e.Device, e.Epoch = c.conn, c.user, c.device, c.rawEpoch
		return
	}
	e.Conn = connNumbers.Draw(h.T, "conn")
	e.User, e.Device = userIDs.Draw(h.T, "user"), deviceIDs.Draw(h.T, "device")
	e.Epoch = h.instant("epoch")
}

func (h *historian) now() rollcall.Micros { return h.model.now }

// instant is now, lately, one that was there before, or absurd.
func (h *historian) instant(what string) int64 {
	now := int64(h.now())
	switch kind := rapid.IntRange(0, 11).Draw(h.T, what); kind {
	case 0:
		return rapid.SampledFrom([]int64{0, -5, 1, now + 1, now + int64(time.Hour/time.Microsecond), 1 << 62}).Draw(h.T, "absurd "+what)
	case 1, 2:
		if n := len(h.model.accepted); n > 0 {
			return h.model.accepted[rapid.IntRange(0, n-1).Draw(h.T, "same "+what)].epoch
		}
		return now
	case 3, 4, 5:
		return now - int64(rapid.IntRange(0, 60).Draw(h.T, "late "+what))*int64(second)
	default:
		return now
	}
}

// drawHistory is a whole history and what it must lead to.
func drawHistory(t *rapid.T, p rollcall.Params, longest int) ([]message, *model) {
	h := newHistorian(t, p)
	history := make([]message, rapid.IntRange(1, longest).Draw(t, "messages"))
	for i := range history {
		history[i] = h.next()
	}
	return history, h.model
}

// mustHold fails the test where a machine contradicts itself.
func mustHold(t interface {
	Helper()
	Fatalf(string, ...any)
}, m *Machine,
) {
	t.Helper()
	if err := invariants(m); err != nil {
		t.Fatalf("after message %d: %v", m.seq, err)
	}
}

// check tries a property more often than rapid does by itself: these are cheap.
func check(t *testing.T, property func(*rapid.T)) {
	t.Helper()
	for range 5 {
		rapid.Check(t, property)
	}
}

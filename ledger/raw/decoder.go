package raw

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/session"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// A Sink takes what was read.
type Sink interface {
	Event(ledger.Event)
	// Beat is a heartbeat of a connection, apart from the others because there are so
	// many; flags are those of [subjects.Beat]. See [Conn.Beat].
	Beat(c *Conn, at int64, flags uint8)
	Reject(ledger.Rejected)
}

// Into is the sink of those who build sessions. What is refused goes to reject.
func Into(b *session.Builder, reject func(ledger.Rejected)) Sink { return builder{b, reject} }

type builder struct {
	*session.Builder
	reject func(ledger.Rejected)
}

func (b builder) Event(e ledger.Event)     { b.Add(e) }
func (b builder) Reject(r ledger.Rejected) { b.reject(r) }
func (b builder) Beat(c *Conn, at int64, flags uint8) {
	if !c.Bound {
		c.Handle, c.Bound = b.Find(c.User, c.Device, c.Session), true
	}
	b.Builder.Beat(&c.Handle, c.Epoch, at, flags)
}

// A Message is one of a shard's log or beats stream.
type Message struct {
	Beats   bool // of the beats stream
	Stream  string
	Subject string
	Seq     uint64
	Time    time.Time // given by the store
	Data    []byte
}

func (m Message) ms() int64 { return m.Time.UnixMilli() }

func (m Message) source() string { return fmt.Sprintf("%s %d", m.Stream, m.Seq) }

// Decoder reads one shard. Use [New]. It is not safe for concurrent use.
type Decoder struct {
	names    subjects.Names
	lateness int64 // above which events are refused
	horizon  int64 // for which connections that have ended are remembered
	sink     Sink
	runs     map[runKey]*run
	newest   map[string]uint64 // incarnation by edge
	swept    int64
	origin   Origin
}

// An Origin is where something that a sink is given comes from.
type Origin struct {
	Beats  bool   // the stream is that of heartbeats
	Seq    uint64 // of the message
	Stored int64  // ms, its store time
	// Told is when something was told of a connection whose OPEN was not read, for the
	// event that opens it instead; 0 for every other.
	Told int64
}

// Origin is that of what the sink is being given.
func (d *Decoder) Origin() Origin { return d.origin }

// A run is one process of an edge.
type run struct {
	runKey
	conns   roll
	waiting map[uint64][]wait // heartbeats of connections that are not known yet
	listed  uint64            // the roster that is under way, or the last
	listing bool
	last    int64  // store time of its last message
	stream  string // where its heartbeats are
}

type runKey struct {
	edge        string
	incarnation uint64
}

type wait struct {
	at, stored int64
	flags      uint8
	seq        uint64
}

// New returns a decoder. The lateness is how long before its message is stored an
// event may have happened: that of the definition.
func New(names subjects.Names, lateness time.Duration, sink Sink) *Decoder {
	return &Decoder{
		names: names, lateness: lateness.Milliseconds(), horizon: lateness.Milliseconds(), sink: sink,
		runs: make(map[runKey]*run), newest: make(map[string]uint64),
	}
}

// Keep returns a decoder that refuses nothing because it is late, for those who keep
// events for later: see [Origin]. The horizon is how long connections that have ended
// are remembered, and heartbeats without one; it should be above every lateness that
// the events may be read under.
func Keep(names subjects.Names, horizon time.Duration, sink Sink) *Decoder {
	d := New(names, horizon, sink)
	d.lateness = math.MaxInt64
	return d
}

// Add reads a message. The messages of one stream must come in their order.
func (d *Decoder) Add(m Message) {
	edge, tick, err := d.names.ParseLog(m.Subject)
	d.origin = Origin{Beats: m.Beats, Seq: m.Seq, Stored: m.ms()}
	switch {
	case err != nil:
		d.malformed(m, err)
	case tick:
	case m.Beats:
		d.beats(m, edge)
	default:
		d.frame(m, edge)
	}
	if now := m.ms(); now-d.swept > max(d.horizon/8, 1) {
		d.sweep(now)
	}
}

func (d *Decoder) malformed(m Message, err error) {
	d.sink.Reject(ledger.Rejected{
		Rule: ledger.RuleInput, Reason: err.Error(), At: m.Time.UTC(), Source: m.source(), Raw: fmt.Sprintf("%x", m.Data[:min(len(m.Data), 256)]),
	})
}

func (d *Decoder) run(m Message, edge string, incarnation uint64) *run {
	k := runKey{edge, incarnation}
	r := d.runs[k]
	if r == nil {
		r = &run{runKey: k, waiting: make(map[uint64][]wait)}
		d.runs[k] = r
	}
	r.last = max(r.last, m.ms())
	return r
}

func (d *Decoder) frame(m Message, edge string) {
	f, err := subjects.DecodeFrame(m.Data)
	if err != nil {
		d.malformed(m, err)
		return
	}
	r := d.run(m, edge, f.Incarnation)
	for _, e := range f.Entries {
		d.entry(m, r, e)
	}
}

func (d *Decoder) entry(m Message, r *run, e *wire.Entry) {
	at := millis(e.At)
	switch e.Kind {
	case wire.Kind_KIND_HELLO:
		d.hello(m, r, at)
	case wire.Kind_KIND_LEAVE:
		d.lose(m, r, at, func(*Conn) bool { return true })
	case wire.Kind_KIND_ROSTER_BEGIN:
		r.listed++
		r.listing = true
	case wire.Kind_KIND_ROSTER_END:
		if r.listing {
			r.listing = false
			d.lose(m, r, at, func(c *Conn) bool { return c.listed != r.listed })
		}
	case wire.Kind_KIND_OPEN, wire.Kind_KIND_ROSTER:
		d.conn(m, r, e).listed = r.listed
	case wire.Kind_KIND_STATE:
		c := d.conn(m, r, e)
		if !c.ended {
			d.event(m, c.stated(kindOf(c.state, e.State), at, e.State, e.Activity))
			c.state = e.State
			c.heed(at, e.State == wire.State_STATE_ACTIVE)
		}
	case wire.Kind_KIND_CLOSE:
		c := d.conn(m, r, e)
		if !c.ended {
			c.ended = true
			d.event(m, c.Event(c.ending(e.Reason), at))
		}
	}
}

// hello is a process that registers: what those before it held is gone.
func (d *Decoder) hello(m Message, r *run, at int64) {
	if r.incarnation <= d.newest[r.edge] {
		return
	}
	d.newest[r.edge] = r.incarnation
	for k, old := range d.runs {
		if k.edge == r.edge && k.incarnation < r.incarnation {
			d.lose(m, old, at, func(*Conn) bool { return true })
		}
	}
}

// lose ends connections that their edge no longer holds.
func (d *Decoder) lose(m Message, r *run, at int64, which func(*Conn) bool) {
	for _, s := range r.conns {
		if c := s.conn; !c.ended && which(c) {
			c.ended, c.last = true, m.ms()
			d.event(m, c.Event(ledger.KindTimeout, at))
		}
	}
}

// conn finds the connection of an entry. Where its OPEN was not read, because the log
// was trimmed or lost, whatever is told of it later opens it; where that would be too
// late, it is opened when it is told.
func (d *Decoder) conn(m Message, r *run, e *wire.Entry) *Conn {
	c := r.conns.get(e.Conn)
	if c != nil {
		c.last = m.ms()
		return c
	}
	c = &Conn{User: e.User, Device: e.Device, Session: e.Origin.GetSession(), Epoch: e.Epoch, state: e.State, last: m.ms()}
	if o := e.Origin; o != nil {
		c.Client = ledger.Client{Type: o.ClientType, Version: o.ClientVersion, Channel: o.Channel, Region: o.Region}
	}
	if c.named = c.Session != ""; !c.named {
		c.Session = SessionID(r.edge, r.incarnation, e.Conn)
	}
	r.conns.add(e.Conn, c)
	at, origin := millis(e.Epoch), d.origin
	if e.Kind != wire.Kind_KIND_OPEN {
		d.origin.Told = millis(e.At)
		if m.ms()-at > d.lateness {
			at = d.origin.Told
		}
	}
	if e.Kind == wire.Kind_KIND_CLOSE {
		d.event(m, c.Event(ledger.KindOpen, at)) // a close tells no state
	} else {
		d.event(m, c.stated(ledger.KindOpen, at, e.State, e.Activity))
		c.heed(at, e.State == wire.State_STATE_ACTIVE)
	}
	for _, w := range r.waiting[e.Conn] {
		d.origin = Origin{Beats: true, Seq: w.seq, Stored: w.stored}
		if w.stored-w.at > d.lateness {
			d.late(m, c.Beat(w.at, w.flags))
			continue
		}
		c.heed(w.at, w.flags&subjects.FlagActive != 0)
		d.sink.Beat(c, w.at, w.flags)
	}
	delete(r.waiting, e.Conn)
	d.origin = origin
	return c
}

// event hands an event over unless it is too late.
func (d *Decoder) event(m Message, e ledger.Event) {
	if m.ms()-e.At > d.lateness {
		d.late(m, e)
		return
	}
	d.sink.Event(e)
}

// TooLate is the reason given for [ledger.RuleLate].
const TooLate = "stored later than the allowed lateness"

func (d *Decoder) late(m Message, e ledger.Event) {
	d.sink.Reject(ledger.Rejected{
		Rule: ledger.RuleLate, Reason: TooLate, At: time.UnixMilli(e.At).UTC(), Event: &e, Source: m.source(),
	})
}

func (d *Decoder) beats(m Message, edge string) {
	head, beats, err := subjects.DecodeBeats(m.Data)
	if err != nil {
		d.malformed(m, err)
		return
	}
	r, base, now := d.run(m, edge, head.Incarnation), millis(head.Base), m.ms()
	var c *Conn
	r.stream = m.Stream
	number, found, place := uint64(0), false, 0
	for _, b := range beats {
		if !found || b.Conn != number {
			number, found = b.Conn, true
			if c, place = r.conns.next(place, number); c != nil {
				c.last = now
			}
		}
		at := base + int64(b.Offset)
		switch {
		case c != nil && c.User == "": // forgotten
		case c == nil:
			r.waiting[number] = append(r.waiting[number], wait{at, now, b.Flags, m.Seq})
		case now-at > d.lateness:
			d.late(m, c.Beat(at, b.Flags))
		default:
			c.heed(at, b.Flags&subjects.FlagActive != 0)
			d.sink.Beat(c, at, b.Flags)
		}
	}
}

// longest is far above the silence that any edge allows a connection; one that is
// silent for longer is of an edge that is gone for good.
const longest = 7 * 24 * 60 * 60 * 1000

// sweep forgets the connections that have ended and nobody can speak of any more,
// and gives up on heartbeats whose connection never came.
func (d *Decoder) sweep(now int64) {
	d.swept = now
	for k, r := range d.runs {
		r.conns = slices.DeleteFunc(r.conns, func(s seat) bool {
			silence := now - s.conn.last
			return s.conn.ended && silence > d.horizon || silence > longest
		})
		for number, list := range r.waiting {
			if now-list[0].stored > d.horizon {
				d.orphans(r, number, list)
				delete(r.waiting, number)
			}
		}
		if len(r.conns) == 0 && len(r.waiting) == 0 && now-r.last > d.horizon {
			delete(d.runs, k)
		}
	}
}

func (d *Decoder) orphans(r *run, number uint64, list []wait) {
	d.origin = Origin{Beats: true, Seq: list[0].seq, Stored: list[0].stored}
	d.sink.Reject(ledger.Rejected{
		Rule: ledger.RuleInput, At: time.UnixMilli(list[0].at).UTC(),
		Reason: fmt.Sprintf("%d heartbeats of a connection that the log does not tell of", len(list)),
		Source: fmt.Sprintf("%s %d", r.stream, list[0].seq), Raw: SessionID(r.edge, r.incarnation, number) + " " + listed(list),
	})
}

// listed are heartbeats as text: their instants in ms, each with its flags.
func listed(list []wait) string {
	var b []byte
	for i, w := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, w.at, 10)
		b = append(b, '/')
		b = strconv.AppendUint(b, uint64(w.flags), 10)
	}
	return string(b)
}

// Flush says that no message comes any more.
func (d *Decoder) Flush() {
	for _, r := range d.runs {
		for number, list := range r.waiting {
			d.orphans(r, number, list)
		}
		clear(r.waiting)
	}
}

// Forget has the connections of users be nobody's: nothing more is told of them.
func (d *Decoder) Forget(gone func(user string) bool) {
	for _, r := range d.runs {
		for _, s := range r.conns {
			if c := s.conn; c.User != "" && gone(c.User) {
				*c = Conn{ended: true, last: c.last, listed: c.listed}
			}
		}
	}
}

// Glances tells of every connection, those included that ended within the horizon.
func (d *Decoder) Glances() iter.Seq[Glance] {
	return func(yield func(Glance) bool) {
		for _, r := range d.runs {
			for _, s := range r.conns {
				if !yield(Glance{s.conn.User, !s.conn.ended, r.last, s.conn.input}) {
					return
				}
			}
		}
	}
}

// Conns is how many connections the decoder knows.
func (d *Decoder) Conns() (n int) {
	for _, r := range d.runs {
		n += len(r.conns)
	}
	return n
}

// millis of store time.
func millis(us int64) int64 {
	const unit = 1000
	q := us / unit
	if us%unit < 0 {
		q--
	}
	return q
}

package live

import (
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/interval"
	"github.com/rollcall-io/rollcall/ledger/raw"
	"github.com/rollcall-io/rollcall/ledger/session"
	"github.com/rollcall-io/rollcall/ledger/store"
	"github.com/rollcall-io/rollcall/ledger/union"
	"github.com/rollcall-io/rollcall/subjects"
)

// Books are what one shard comes to so far, and what of it is not stored yet. They do
// no I/O.
type books struct {
	definition ledger.Definition
	device     func(string) string
	shards     int
	writer     string // of the checkpoints
	decoder    *raw.Decoder
	builder    *session.Builder
	boards     []board
	opened     bool            // the boards know the stored rows of their day
	gone       map[string]bool // users who were forgotten, as far as they came along

	position raw.Position
	revision int64 // of the newest checkpoint
	// generation of the last grant under which one was written; see [shard.claim].
	generation uint64
	time       int64 // ms, of the newest message
	behind     uint64
	missed     uint64 // messages that expired unread, since it was asked
	changed    bool   // something was read since the last batch

	sessions map[ledger.SessionKey]ledger.Session
	finals   int // final rows among what was taken
	rejected []ledger.Rejected
	totals   map[totalKey]store.Total
	broken   bool // the row that is being taken breaks a rule of days
}

// A board counts the days of one zone.
type board struct {
	zone
	*union.Board
}

type totalKey struct {
	zone, user string
	measure    ledger.Measure
	date       interval.Date
}

func emptyBooks(c Config, shards int) *books {
	k := &books{definition: c.Definition, device: c.Device, shards: shards, writer: rand.Text()}
	k.clear()
	return k
}

// newBooks are those of somebody who has read nothing.
func newBooks(names subjects.Names, c Config, zones []zone) (*books, error) {
	k := emptyBooks(c, names.Shards())
	builder, err := session.New(k.config())
	if err != nil {
		return nil, err
	}
	k.begin(names, builder, zones)
	return k, nil
}

func (k *books) config() session.Config {
	return session.Config{Definition: k.definition, Session: k.take, Reject: k.reject}
}

func (k *books) begin(names subjects.Names, b *session.Builder, zones []zone) {
	k.builder = b
	k.decoder = raw.New(names, k.definition.Lateness, sink{raw.Into(b, k.reject), k})
	for _, z := range zones {
		k.boards = append(k.boards, board{z, union.New(z.Zone, func(r ledger.Rejected) { k.broken = true; k.rejected = append(k.rejected, r) })})
	}
}

// A sink leaves out who was forgotten.
type sink struct {
	raw.Sink
	*books
}

// Event implements raw.Sink.
func (s sink) Event(e ledger.Event) {
	if !s.gone[e.User] {
		s.Sink.Event(e)
	}
}

// Beat implements raw.Sink.
func (s sink) Beat(c *raw.Conn, at int64, flags uint8) {
	if len(s.gone) == 0 || !s.gone[c.User] {
		s.Sink.Beat(c, at, flags)
	}
}

// Reject implements raw.Sink.
func (s sink) Reject(r ledger.Rejected) { s.Sink.Reject(r) }

// forget takes users out who were forgotten; the checkpoints must not keep their names.
func (k *books) forget(forgotten func(user string) (bool, error)) error {
	k.gone = make(map[string]bool)
	known := make(map[string]bool)
	var failed error
	gone := func(user string) bool {
		is, asked := known[user]
		if !asked && failed == nil {
			is, failed = forgotten(user)
			known[user] = is
		}
		if is {
			k.gone[user] = true
		}
		return is
	}
	k.builder.Forget(gone)
	k.decoder.Forget(gone)
	k.changed = k.changed || len(k.gone) > 0
	return failed
}

// clear forgets what waited to be stored.
func (k *books) clear() {
	k.sessions, k.rejected, k.totals = make(map[ledger.SessionKey]ledger.Session), nil, make(map[totalKey]store.Total)
	k.finals, k.changed = 0, false
}

// read takes what was stored in the streams.
func (k *books) read(s raw.Step) {
	for _, m := range s.Msgs {
		last := k.position.Log
		if m.Beats {
			last = k.position.Beats
		}
		if last > 0 && m.Seq > last+1 {
			k.missed += m.Seq - last - 1
		}
		if m.Beats {
			k.position.Beats, k.position.BeatsTime = m.Seq, m.Time
		} else {
			k.position.Log, k.position.LogTime = m.Seq, m.Time
		}
		k.time = max(k.time, m.Time.UnixMilli())
		k.decoder.Add(m)
		k.changed = true
	}
	k.behind = s.Behind
	if s.Watermark > 0 {
		k.builder.Advance(s.Watermark)
	}
}

// take is the builder's word on a session. The boards know the device by the name that the
// store has, so that a row replaces the one that was read from there.
func (k *books) take(row ledger.Session, final bool) {
	if k.broken = false; final {
		k.finals++
	}
	row.Device = k.device(row.Device)
	for _, b := range k.boards {
		b.Add(row)
	}
	if k.broken {
		row.Intervals = nil
	}
	if known, waits := k.sessions[row.Key()]; !waits || row.Revision >= known.Revision {
		k.sessions[row.Key()] = row
	}
}

func (k *books) reject(r ledger.Rejected) {
	switch {
	case r.Whole != nil:
		whole := *r.Whole
		whole.Device = k.device(whole.Device)
		r.Whole = &whole
	case r.Event != nil:
		event := *r.Event
		event.Device = k.device(event.Device)
		r.Event = &event
	}
	k.rejected = append(k.rejected, r)
}

// open has the boards know the stored rows of the days that may still change: totals are
// those of the stored rows.
func (k *books) open(from int64, stored func(interval.Interval) iter.Seq2[ledger.Session, error]) error {
	first := interval.Latest
	for _, b := range k.boards {
		b.Forget(from)
		first = min(first, b.Start(b.Date(from)))
	}
	for row, err := range stored(interval.Interval{From: first, To: interval.Latest}) {
		if err != nil {
			return err
		}
		for _, b := range k.boards {
			b.Add(row)
		}
	}
	k.opened = true
	return nil
}

// settled is the instant before which nothing changes any more, if time has come to the
// watermark, or without one to now.
func (k *books) settled(now int64) int64 {
	if w := k.builder.Watermark(); w != interval.Earliest {
		now = w
	}
	return now - (k.definition.Lateness + k.definition.Gaps.Cap).Milliseconds()
}

// publish takes the rows and totals that have changed.
func (k *books) publish() {
	k.builder.Publish()
	for _, b := range k.boards {
		b.Publish(func(t union.Total) {
			k.totals[totalKey{b.name, t.User, t.Measure, t.Date}] = store.Total{
				Zone: b.name, Measure: t.Measure, Daily: store.Daily{User: t.User, Date: t.Date, Union: t.Total, Sum: t.Sum},
			}
		})
	}
}

// waiting is how much waits to be stored that nothing else remembers. Rows of open
// sessions are no more than these.
func (k *books) waiting() int { return k.finals + len(k.rejected) }

// batch is what has changed since the last one, with the checkpoint behind it.
func (k *books) batch(source string) (store.Batch, error) {
	k.publish()
	b, err := k.mark(source)
	if err != nil {
		return store.Batch{}, err
	}
	b.Sessions, b.Rejected, b.Daily = slices.Collect(maps.Values(k.sessions)), k.rejected, slices.Collect(maps.Values(k.totals))
	k.clear()
	for _, board := range k.boards {
		board.Forget(k.settled(k.time))
	}
	return b, nil
}

// mark is the next checkpoint and nothing else.
func (k *books) mark(source string) (store.Batch, error) {
	body, err := k.checkpoint()
	if err != nil {
		return store.Batch{}, err
	}
	k.revision++
	return store.Batch{Definition: k.definition.Version, Source: source, Checkpoint: store.Checkpoint{Revision: k.revision, Body: body}}, nil
}

// errUnusable is a checkpoint that nobody can go on from.
var errUnusable = errors.New("live: unusable checkpoint")

func unusable(err error) error { return fmt.Errorf("%w: %w", errUnusable, err) }

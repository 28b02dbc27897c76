package archive

import (
	"time"

	"github.com/rollcall-io/rollcall/ledger"
)

// An Event is one of the archive. Its device is a pseudonym.
type Event struct {
	ledger.Event
	Stored int64 // ms: when the store took the message that tells of it
	Origin Origin
	// Adopted says that it opens a connection whose OPEN was not read: At is then when
	// something else was told of it. See [Event.Under].
	Adopted bool
}

// An Origin is the message that an event was read from.
type Origin struct {
	Shard int
	Beats bool // the stream is that of heartbeats
	Seq   uint64
}

// Under is the event as those see it who read the streams under a lateness, and whether
// it is too late for them: see [ledger.RuleLate]. A connection whose OPEN was not read
// opens when it was established, unless that is too long ago.
func (e Event) Under(lateness time.Duration) (seen ledger.Event, late bool) {
	seen = e.Event
	if at := established(e.Epoch); e.Adopted && e.Stored-at <= lateness.Milliseconds() {
		seen.At = at
	}
	return seen, e.Stored-seen.At > lateness.Milliseconds()
}

// established is when a connection was, in ms: that is what its epoch says.
func established(epoch int64) int64 { return time.UnixMicro(epoch).UnixMilli() }

const hour = int64(time.Hour / time.Millisecond)

// hourOf is the start of the hour that an instant lies in.
func hourOf(at int64) int64 {
	if at < 0 {
		return (at - hour + 1) / hour * hour
	}
	return at / hour * hour
}

// Watermark is how far time has come when an event is read that was stored at an instant:
// [Archive.Read] is past everything that was stored in earlier hours. So a builder of
// sessions that is advanced to it takes every event that it would take from the streams.
func Watermark(stored int64) int64 { return hourOf(stored) }

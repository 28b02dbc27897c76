package rebuild

import (
	"context"
	"time"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/interval"
	"github.com/rollcall-io/rollcall/ledger/raw"
)

// A Source is where raw events come from.
type Source interface {
	// Name tells kinds of sources apart. It is stored.
	Name() string
	Reach(ctx context.Context) (Reach, error)
	// Parts are what can be read independently of each other: no session is in two.
	Parts() []Part
}

// Reach is what a source holds: everything that was stored in an interval.
type Reach struct {
	interval.Interval
	Trimmed bool // there was more before
}

// A Part is read in one pass.
type Part interface {
	// Name tells the parts of a source apart. It is stored.
	Name() string
	// Read hands over the events of a window, and goes on behind a state that it gave to
	// [Sink.Reached]; nil is the beginning, and one that it cannot use is [ErrPlace]. It refuses what is later than the lateness.
	Read(ctx context.Context, w Window, state []byte, to Sink) error
}

// A Window is what must be read.
type Window struct {
	interval.Interval
	Lateness time.Duration
}

// window of everything that can be part of a session with an instant in the bounds.
func window(d ledger.Definition, bounds interval.Interval) Window {
	margin := (d.Limit + d.Lateness + d.Gaps.Cap).Milliseconds()
	return Window{interval.Interval{
		From: max(bounds.From-margin, interval.Earliest), To: min(bounds.To+margin, interval.Latest),
	}, d.Lateness}
}

// A Sink takes what a part reads.
type Sink interface {
	raw.Sink
	// Reached says how far store time has certainly come, which share of the part has been
	// read, from 0 to 1, and how to go on from here.
	Reached(watermark int64, share float64, state func() ([]byte, error)) error
}

package rebuild

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/archive"
	"github.com/rollcall-io/rollcall/ledger/interval"
	"github.com/rollcall-io/rollcall/ledger/raw"
	"github.com/rollcall-io/rollcall/subjects"
)

// Archive is what was archived. Its devices are pseudonyms already.
func Archive(a *archive.Archive) Source { return archived{a} }

type archived struct{ *archive.Archive }

func (archived) Name() string { return "archive" }

func (a archived) Parts() []Part { return []Part{a} }

// Reach implements Source.
func (a archived) Reach(context.Context) (r Reach, err error) {
	hours, err := a.Hours()
	if err != nil {
		return r, err
	}
	if r.To, err = a.Through(); err != nil {
		return r, err
	}
	r.From = r.To
	if len(hours) > 0 {
		r.From = hours[0].Stored.UnixMilli()
	}
	return r, nil
}

// Read goes on behind whole hours of store time, which is how the archive is in order.
func (a archived) Read(ctx context.Context, w Window, state []byte, to Sink) error {
	behind := interval.Earliest
	if state != nil {
		at, n := binary.Varint(state)
		if n <= 0 {
			return fmt.Errorf("%w: %s", ErrPlace, a.Name())
		}
		behind = at
	}
	total, err := a.within(w.Interval)
	if err != nil {
		return err
	}
	var (
		reached = behind
		read    int64
		conn    raw.Conn // of the last heartbeat
	)
	err = a.Archive.Read(ctx, w.Interval, func(e archive.Event) error {
		read++
		stored := archive.Watermark(e.Stored)
		if stored < behind {
			return nil
		}
		if stored > reached {
			reached = stored
			if err := to.Reached(reached, float64(read)/float64(total), func() ([]byte, error) {
				return binary.AppendVarint(nil, reached), nil
			}); err != nil {
				return err
			}
		}
		seen, late := e.Under(w.Lateness)
		switch {
		case late:
			to.Reject(ledger.Rejected{
				Rule: ledger.RuleLate, Reason: raw.TooLate, At: time.UnixMilli(seen.At).UTC(), Event: &seen, Source: a.Source(e.Origin),
			})
		case seen.Kind == ledger.KindBeat:
			if conn.User != seen.User || conn.Device != seen.Device || conn.Session != seen.Session || conn.Epoch != seen.Epoch {
				conn = raw.Conn{User: seen.User, Device: seen.Device, Session: seen.Session, Epoch: seen.Epoch}
			}
			to.Beat(&conn, seen.At, flags(seen))
		default:
			to.Event(seen)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return a.Rejected(ctx, w.Interval, func(r ledger.Rejected) error {
		to.Reject(r)
		return nil
	})
}

// within is how many events there may be.
func (a archived) within(bounds interval.Interval) (n int64, err error) {
	hours, err := a.Hours()
	for _, h := range hours {
		if at := h.At.UnixMilli(); at < bounds.To && at+time.Hour.Milliseconds() > bounds.From {
			n += h.Events
		}
	}
	return max(n, 1), err
}

func flags(e ledger.Event) (f uint8) {
	if e.Foreground {
		f |= subjects.FlagForeground
	}
	if e.Active {
		f |= subjects.FlagActive
	}
	return f
}

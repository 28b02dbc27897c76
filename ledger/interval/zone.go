package interval

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	// Days must not depend on whether a container image ships time zones. Go looks in
	// the system first and here last. It is in this package, not in the command, so
	// that programs and tests which use the ledger as a library get the same.
	_ "time/tzdata"
)

// A Zone is the calendar of an IANA time zone. It computes the starts of days once,
// about three years at a time, and keeps them: 8 KiB a piece, 28 KiB for the table of
// pieces. It is safe for concurrent use.
type Zone struct {
	name   string
	local  *time.Location
	pieces []atomic.Pointer[piece]
}

// A piece holds where the days of a stretch of the calendar start, and the day after.
type piece [pieceDays + 1]int64

const (
	pieceBits = 10
	pieceDays = 1 << pieceBits
)

// LoadZone finds a zone by its name in the IANA database, such as Europe/Berlin or
// UTC. Names that mean something else on every machine ("Local", "") and clocks that
// count leap seconds are refused with [ErrZone].
func LoadZone(name string) (*Zone, error) {
	if name == "" || name == "Local" || strings.HasPrefix(name, "right/") {
		return nil, fmt.Errorf("%w: %q", ErrZone, name)
	}
	local, err := time.LoadLocation(name)
	if err != nil { // whose words are the same
		return nil, fmt.Errorf("%w: %q", ErrZone, name)
	}
	pieces := int(lastDate-firstDate)>>pieceBits + 1
	return &Zone{name: name, local: local, pieces: make([]atomic.Pointer[piece], pieces)}, nil
}

// Name is the name that the zone was loaded by.
func (z *Zone) Name() string { return z.name }

// Start is the smallest instant whose local date is d. If the zone skipped d, it is
// the start of the next day that exists: the skipped day is empty.
func (z *Zone) Start(d Date) int64 {
	d = min(max(d, firstDate), lastDate+1)
	n := int(d - firstDate)
	return z.piece(n >> pieceBits)[n&(pieceDays-1)]
}

// Date is the day that an instant belongs to: the last one to have started. That is
// the local date, except after a clock was set back over midnight, when the new day
// has begun and stays.
func (z *Zone) Date(at int64) Date {
	at = min(max(at, Earliest), Latest)
	d := min(Date(floorDiv(at, dayLength)), lastDate)
	for d > firstDate && at < z.Start(d) {
		d--
	}
	for d < lastDate && at >= z.Start(d+1) {
		d++
	}
	return d
}

// Bounds is the time of the period that d lies in.
func (z *Zone) Bounds(p Period, d Date) Interval {
	return Interval{From: z.Start(p.First(d)), To: z.Start(p.Next(d))}
}

func (z *Zone) piece(k int) *piece {
	if p := z.pieces[k].Load(); p != nil {
		return p
	}
	// Whoever else computes it now arrives at the same.
	p := z.compute(firstDate + Date(k<<pieceBits))
	z.pieces[k].Store(p)
	return p
}

// compute walks the stretches of constant offset from some days before first, where
// no clock on Earth shows first or a later date yet.
func (z *Zone) compute(first Date) *piece {
	const lead = 3
	var p piece
	n := 0
	for at := (int64(first) - lead) * dayLength; n < len(p); {
		offset, end := z.stretch(at)
		for today := Date(floorDiv(at+offset, dayLength)); n < len(p) && first+Date(n) <= today; n++ {
			p[n] = at // the clock was set forward over midnight, or over more
		}
		for ; n < len(p) && int64(first+Date(n))*dayLength-offset < end; n++ {
			p[n] = int64(first+Date(n))*dayLength - offset
		}
		at = end
	}
	return &p
}

// stretch is the offset of local time at an instant and an instant up to which it
// stays, both in milliseconds.
func (z *Zone) stretch(at int64) (offset, end int64) {
	t := time.UnixMilli(at).In(z.local)
	_, seconds := t.Zone()
	_, bound := t.ZoneBounds()
	switch end = bound.UnixMilli(); {
	case bound.IsZero():
		end = maxInt64
	case end <= at:
		// For years that a rule describes, Go ends the last stretch 365 days after New
		// Year, which on 31 December of a leap year is not ahead. No rule changes the
		// clock on that day, so walking it by the hour ends where the next year begins.
		end = at + time.Hour.Milliseconds()
	}
	return int64(seconds) * 1000, end
}

// Zones loads every zone once. The zero Zones is ready, and safe for concurrent use.
// It keeps what it loaded; there are about 600 names.
type Zones struct {
	mu     sync.RWMutex
	loaded map[string]*Zone
}

// Load is [LoadZone], once for every name.
func (zs *Zones) Load(name string) (*Zone, error) {
	zs.mu.RLock()
	z := zs.loaded[name]
	zs.mu.RUnlock()
	if z != nil {
		return z, nil
	}
	z, err := LoadZone(name)
	if err != nil {
		return nil, err
	}
	zs.mu.Lock()
	defer zs.mu.Unlock()
	if known := zs.loaded[name]; known != nil {
		return known, nil
	}
	if zs.loaded == nil {
		zs.loaded = make(map[string]*Zone)
	}
	zs.loaded[name] = z
	return z, nil
}

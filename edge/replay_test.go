package edge

import (
	"fmt"
	"maps"

	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// replay is what a reader of the log knows of an edge: a keeper without its clock.
type replay struct {
	incarnation, number uint64
	registered          bool
	conns               map[uint64]*wire.Entry
	missing             map[uint64]bool // during a roster: not listed yet
	listing             bool
	epoch               int64 // the newest
}

func newReplay() *replay { return &replay{conns: map[uint64]*wire.Entry{}} }

// frame applies a frame; an error is a broken promise of the edge.
func (r *replay) frame(f *wire.Frame) error {
	if f.Incarnation < r.incarnation {
		return fmt.Errorf("frame of incarnation %d after %d", f.Incarnation, r.incarnation)
	}
	if f.Incarnation > r.incarnation {
		*r = *newReplay()
		r.incarnation = f.Incarnation
	}
	if r.number++; f.Number != r.number {
		return fmt.Errorf("frame %d, want %d", f.Number, r.number)
	}
	for _, e := range f.Entries {
		if err := r.entry(e); err != nil {
			return fmt.Errorf("frame %d: %v: %w", f.Number, e, err)
		}
	}
	return nil
}

func (r *replay) entry(e *wire.Entry) error {
	if e.Kind == hello {
		r.registered, r.listing = true, false
		return nil
	}
	if !r.registered {
		return fmt.Errorf("said without a lease")
	}
	held, holds := r.conns[e.Conn]
	switch e.Kind {
	case opened:
		if holds {
			return fmt.Errorf("opened twice")
		}
		if e.Epoch <= r.epoch || e.At != e.Epoch {
			return fmt.Errorf("epoch after %d", r.epoch)
		}
		for _, o := range r.conns {
			if o.User == e.User && o.Device == e.Device {
				return fmt.Errorf("opened before connection %d of the endpoint was closed", o.Conn)
			}
		}
		r.epoch, r.conns[e.Conn] = e.Epoch, e
	case stated:
		if !holds || held.Epoch != e.Epoch || held.User != e.User || held.Device != e.Device {
			return fmt.Errorf("state of an unknown connection")
		}
		if held.State == e.State && held.Activity == e.Activity {
			return fmt.Errorf("state told twice")
		}
		r.conns[e.Conn] = e
	case ended:
		if !holds || held.Epoch != e.Epoch {
			return fmt.Errorf("closed an unknown connection")
		}
		if e.Seen < e.Epoch || e.Seen > e.At {
			return fmt.Errorf("seen outside of the connection's life")
		}
		delete(r.conns, e.Conn)
		delete(r.missing, e.Conn)
	case renewed:
		count, digest := r.sum()
		if e.Count != count || e.Digest != digest {
			return fmt.Errorf("renewed %d connections with digest %x, the log has %d with %x", e.Count, e.Digest, count, digest)
		}
	case rosterBegin:
		if r.listing {
			return fmt.Errorf("roster in a roster")
		}
		r.listing, r.missing = true, map[uint64]bool{}
		for conn := range maps.Keys(r.conns) {
			r.missing[conn] = true
		}
	case rosterLine:
		if !r.listing || !holds || held.Epoch != e.Epoch || held.State != e.State || held.Activity != e.Activity {
			return fmt.Errorf("listed what it is not: %v", held)
		}
		delete(r.missing, e.Conn)
	case rosterEnd:
		if !r.listing || len(r.missing) > 0 {
			return fmt.Errorf("roster ended without %v", r.missing)
		}
		r.listing = false
	case left:
		if len(r.conns) > 0 {
			return fmt.Errorf("left with %d connections", len(r.conns))
		}
		r.registered = false
	default:
		return fmt.Errorf("unexpected")
	}
	return nil
}

func (r *replay) sum() (count, digest uint64) {
	for _, e := range r.conns {
		digest += uint64(subjects.ConnDigest(e.User, e.Device, e.Epoch, e.State, e.Activity))
	}
	return uint64(len(r.conns)), digest
}

// replay reads the whole log of an edge in a shard.
func (w *world) replay(shard int, edge string) (*replay, error) {
	r := newReplay()
	for _, f := range w.frames(shard, edge) {
		if err := r.frame(f.Frame); err != nil {
			return r, fmt.Errorf("sequence %d: %w", f.sequence, err)
		}
	}
	return r, nil
}

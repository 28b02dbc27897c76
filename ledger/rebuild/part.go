package rebuild

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/raw"
	"github.com/rollcall-io/rollcall/ledger/session"
	"github.com/rollcall-io/rollcall/ledger/store"
	"github.com/rollcall-io/rollcall/ledger/union"
)

// batchSize is how many sessions and refusals a transaction has.
const batchSize = 4000

// A run is a rebuild under way. What several parts write is guarded.
type run struct {
	Config
	rebuild store.Rebuild
	parts   []Part
	gone    error // of a part that begins again

	mu       sync.Mutex
	shares   []float64
	progress Progress
	summary  Summary
}

// told changes the progress and tells it.
func (r *run) told(change func(*Progress)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.progress)
	r.summary.Events = r.progress.Events
	if r.Progress != nil {
		r.Progress(r.progress)
	}
}

// place is what the store keeps of a part.
type place struct {
	Done    bool
	Builder []byte
	Source  []byte
}

// read builds the sessions of one part.
func (r *run) read(ctx context.Context, k int, p Part) error {
	b := &building{run: r, ctx: ctx, part: k, source: r.rebuild.Checkpoint(p.Name()), saved: r.Now()}
	at, err := b.place()
	if err != nil || at.Done {
		return err
	}
	err = b.from(at, p)
	if errors.Is(err, ErrPlace) {
		err = b.from(place{}, p) // what is stored already is stored once
	}
	if err != nil {
		return err
	}
	b.Flush()
	if err := b.store(place{Done: true}); err != nil {
		return err
	}
	b.tell(1)
	return nil
}

// A building is one part on its way from events to rows. It is the [Sink] of its part.
type building struct {
	*session.Builder
	*run
	ctx      context.Context
	part     int
	source   string // the name of the checkpoint
	revision int64  // of the checkpoint
	batch    store.Batch
	failed   error
	saved    time.Time
	events   int64 // since they were told
}

// place finds the place that was stored last. One that cannot be read is the beginning.
func (b *building) place() (at place, err error) {
	there, err := b.Store.Checkpoint(b.ctx, b.Definition.Version, b.source)
	if err != nil {
		return at, err
	}
	if b.revision = there.Revision; gob.NewDecoder(bytes.NewReader(there.Body)).Decode(&at) != nil {
		at = place{}
	}
	return at, nil
}

// from reads a part from a place on.
func (b *building) from(at place, p Part) (err error) {
	config := session.Config{Definition: b.Definition, Session: func(x ledger.Session, _ bool) { b.keep(x) }, Reject: b.Reject}
	if at.Source == nil {
		if b.gone != nil {
			return b.gone
		}
		b.Builder, err = session.New(config)
	} else if b.Builder, err = session.Restore(config, at.Builder); errors.Is(err, session.ErrSnapshot) {
		err = fmt.Errorf("%w: %w", ErrPlace, err)
	}
	if err != nil {
		return err
	}
	return p.Read(b.ctx, window(b.Definition, b.Bounds), at.Source, b)
}

// Event implements Sink.
func (b *building) Event(e ledger.Event) {
	b.events++
	b.Add(e)
}

// Beat implements Sink.
func (b *building) Beat(c *raw.Conn, at int64, flags uint8) {
	if !c.Bound {
		c.Handle, c.Bound = b.Find(c.User, c.Device, c.Session), true
	}
	b.events++
	b.Builder.Beat(&c.Handle, c.Epoch, at, flags)
}

// Reject implements Sink. What lies outside the period belongs to another rebuild.
func (b *building) Reject(r ledger.Rejected) {
	in := b.Bounds.From <= r.At.UnixMilli() && r.At.UnixMilli() < b.Bounds.To
	if r.Whole != nil {
		in = b.touches(*r.Whole)
	}
	if in {
		b.batch.Rejected = append(b.batch.Rejected, r)
	}
}

// touches says whether a session has an instant in the period.
func (b *building) touches(x ledger.Session) bool {
	return x.Start < b.Bounds.To && (x.End > b.Bounds.From || x.End == x.Start && x.Start >= b.Bounds.From)
}

// keep takes a row. One that breaks a rule on some day does not count.
func (b *building) keep(x ledger.Session) {
	if !b.touches(x) {
		return
	}
	for _, z := range b.Zones {
		if refused := union.Check(z, x, union.Split(z, x)); refused != nil {
			b.Reject(*refused)
			x.Intervals = nil
			break
		}
	}
	b.batch.Sessions = append(b.batch.Sessions, x)
	if len(b.batch.Sessions) >= batchSize && b.failed == nil {
		b.failed = b.apply()
	}
}

// Reached implements Sink.
func (b *building) Reached(watermark int64, share float64, state func() ([]byte, error)) error {
	b.Advance(watermark)
	if b.failed != nil {
		return b.failed
	}
	b.tell(share)
	if b.Now().Sub(b.saved) < b.Every {
		if len(b.batch.Rejected) >= batchSize {
			return b.apply()
		}
		return nil
	}
	source, err := state()
	if err != nil {
		return err
	}
	return b.store(place{Builder: b.Snapshot(), Source: source})
}

func (b *building) tell(share float64) {
	b.told(func(p *Progress) {
		b.shares[b.part] = share
		p.Share = 0
		for _, s := range b.shares {
			p.Share += s / float64(len(b.shares))
		}
		p.Events += b.events
	})
	b.events = 0
}

// store stores the rows so far with the place in the source.
func (b *building) store(at place) error {
	if b.failed != nil {
		return b.failed
	}
	var body bytes.Buffer
	if err := gob.NewEncoder(&body).Encode(at); err != nil {
		return fmt.Errorf("rebuild: checkpoint: %w", err)
	}
	b.saved = b.Now()
	err := b.storeAt(b.revision+1, body.Bytes())
	if errors.Is(err, store.ErrOvertaken) {
		// Whoever forgets a user removes the place, which knows names.
		if there, err := b.Store.Checkpoint(b.ctx, b.Definition.Version, b.source); err == nil && there.Revision == 0 {
			return b.storeAt(1, body.Bytes())
		}
	}
	return err
}

func (b *building) storeAt(revision int64, body []byte) error {
	b.batch.Source, b.batch.Checkpoint = b.source, store.Checkpoint{Revision: revision, Body: body}
	err := b.apply()
	if err == nil {
		b.revision = revision
	}
	return err
}

// apply stores the rows so far. Without a place they come again after a crash, the same
// as they are.
func (b *building) apply() error {
	b.batch.Definition = b.Definition.Version
	done, err := b.Store.Apply(b.ctx, b.batch)
	if err != nil {
		return err
	}
	b.told(func(p *Progress) {
		p.Rows += int64(len(b.batch.Sessions))
		b.summary.Sessions += done.Sessions
		b.summary.Rejected += done.Rejected
		b.summary.Forgotten += done.Forgotten
	})
	b.batch = store.Batch{}
	return nil
}

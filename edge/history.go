package edge

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall/subjects"
)

// A beat is a heartbeat out of a connection's ring.
type beat struct {
	conn uint64
	at   instant
	flag uint8
}

// saveLocked empties the ring of a connection, the oldest heartbeat first.
func (p *pipeline) saveLocked(c *Conn, now instant) {
	oldest := sign(c.last.Load()).place() + 1
	for i := range uint32(ringSize) {
		r := record(c.ring[(oldest+i)%ringSize].Swap(0))
		if r == 0 {
			continue
		}
		p.accrual.hear(c, r.at(), now)
		p.stats.beats.Add(1)
		if len(p.beats) >= ringSize*p.roll.len()+subjects.MaxEntries {
			p.beatsDropped.Add(1) // nobody collects: the store was never reached
			continue
		}
		p.beats = append(p.beats, beat{c.number, r.at().instant(now), r.flags()})
	}
}

// takeBeats empties all rings, a bounded number of connections at a time so that
// nobody waits long for the lock.
func (p *pipeline) takeBeats() []beat {
	var taken []beat
	for next, more := uint64(0), true; more; {
		next, more = p.saveSome(next)
		p.mu.Lock()
		taken = append(taken, p.beats...)
		p.beats = p.beats[:0]
		p.mu.Unlock()
	}
	p.mu.Lock()
	p.beats = nil
	p.mu.Unlock()
	slices.SortFunc(taken, func(a, b beat) int {
		return cmp.Or(cmp.Compare(a.conn, b.conn), cmp.Compare(a.at, b.at))
	})
	return taken
}

func (p *pipeline) saveSome(after uint64) (last uint64, more bool) {
	const some = 4096
	p.mu.Lock()
	defer p.mu.Unlock()
	now, n := p.clock.now(), 0
	for c := range p.roll.from(after) {
		if n++; n > some {
			return last, true
		}
		p.saveLocked(c, now)
		last = c.number
	}
	return last, false
}

// historian publishes the raw heartbeats of a shard: collected at each renewal,
// tried again every few seconds, at least once. Of a store that stays away it keeps
// the newest messages only.
type historian struct {
	*pipeline
	link        *link
	js          jetstream.JetStream
	log         *slog.Logger
	subject     string
	incarnation uint64

	pending []parcel
	dropped uint64 // as told in the parcels so far
}

// A parcel is a message of the beats stream.
type parcel struct {
	data    []byte
	beats   int
	dropped uint64 // as told in it
}

// maxParcels is how many messages wait for the store; one renewal makes one, or a
// few where hundreds of thousands of connections are in a shard.
const maxParcels = 32

func (h *historian) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-h.collect:
			h.pack()
			h.send(ctx)
		case <-h.retry():
			h.send(ctx)
		case <-h.finished:
			h.pack()
			h.send(ctx) // one try: a drain does not wait for history
			return nil
		}
	}
}

// retry fires later if there is something to send.
func (h *historian) retry() <-chan time.Time {
	if len(h.pending) == 0 {
		return nil
	}
	return time.After(lastPause)
}

func (h *historian) pack() {
	if beats := h.takeBeats(); len(beats) > 0 {
		h.add(beats)
	}
	for len(h.pending) > maxParcels {
		h.drop()
	}
}

// drop gives up the oldest message, and leaves it to a later one to tell.
func (h *historian) drop() {
	oldest := h.pending[0]
	h.pending = slices.Delete(h.pending, 0, 1)
	h.beatsDropped.Add(uint64(oldest.beats))
	h.dropped -= oldest.dropped
}

// add packs beats into as few messages as the server's limit allows.
func (h *historian) add(beats []beat) {
	dropped := h.beatsDropped.Load() - h.dropped
	data, err := h.encode(beats, dropped)
	if err != nil {
		h.log.Error("edge: heartbeats lost", "shard", h.shard, "error", err)
		h.beatsDropped.Add(uint64(len(beats)))
		return
	}
	if len(beats) > 1 && (len(beats) > subjects.MaxBeats || h.tooLarge(data)) {
		half := len(beats) / 2
		h.add(beats[:half])
		h.add(beats[half:])
		return
	}
	h.pending = append(h.pending, parcel{data, len(beats), dropped})
	h.dropped += dropped
}

func (h *historian) tooLarge(data []byte) bool {
	limit := h.link.maxPayload()
	return limit > 0 && int64(len(data)+frameHead) > limit
}

// encode counts time from the middle, where the offsets are the smallest.
func (h *historian) encode(beats []beat, dropped uint64) ([]byte, error) {
	first, last := beats[0].at, beats[0].at
	for _, b := range beats {
		first, last = min(first, b.at), max(last, b.at)
	}
	base := first + (last-first)/2
	packed := make([]subjects.Beat, len(beats))
	for i, b := range beats {
		packed[i] = subjects.Beat{Conn: b.conn, Offset: int32((b.at - base).Milliseconds()), Flags: b.flag}
	}
	return subjects.Encode(subjects.PackBeats(h.incarnation, h.at(base), h.timing.stride, dropped, packed))
}

func (h *historian) send(ctx context.Context) {
	for len(h.pending) > 0 && ctx.Err() == nil {
		if err := h.publish(ctx, h.pending[0].data); err != nil {
			h.log.Debug("edge: heartbeats wait", "shard", h.shard, "messages", len(h.pending), "error", err)
			return
		}
		h.pending = slices.Delete(h.pending, 0, 1)
	}
}

func (h *historian) publish(ctx context.Context, data []byte) error {
	if !h.link.online() {
		return nats.ErrDisconnected
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := h.js.Publish(ctx, h.subject, data)
	if err == nil {
		h.stats.historyBytes.Add(uint64(len(data)))
	}
	return err
}

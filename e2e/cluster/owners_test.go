//go:build cluster

package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"github.com/rollcall-io/rollcall/internal/feed"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// owners reads the buckets of keepers and fanouts from their first write on, and finds what one owner after
// the other would not write:
//
//   - A write that does not name the newest owner's record which is stored before it in the same bucket. Every
//     write tells the server which sequence it expects that record to have, in headers that are stored with
//     it; a batch is stored whole, in one run of sequences, and its first message tells for all. Only the
//     markers of keys that have expired, which the server writes, name none. Which process wrote is not stored.
//   - An owner's record that is not stored behind the newest one, or of a generation that is not newer.
//   - A user's record, a checkpoint or a view that goes back in the log.
//
// Buckets hold one message of a key, so what is replaced before it is read is not seen. An owner's record
// is known then by what was stored behind it and names it: the server would have stored nothing that expects
// another record than the one that was there.
type owners struct {
	t       *testing.T
	reading sync.WaitGroup

	mu     sync.Mutex
	trails map[string]*trail
}

func watchOwners(ctx context.Context, t *testing.T, js jetstream.JetStream, names subjects.Names) *owners {
	o := &owners{t: t, trails: make(map[string]*trail)}
	for shard := range names.Shards() {
		for bucket, part := range map[string]string{names.LeasesBucket(shard): keeper, names.ViewsBucket(shard): keeper, names.InterestBucket(shard): fanout} {
			tr := newTrail(bucket, part)
			o.trails[bucket] = tr
			o.reading.Go(func() {
				err := feed.New(js, feed.Config{Stream: subjects.KVStream(bucket), Start: 1}).Run(ctx, func(_ context.Context, b feed.Batch) error {
					o.mu.Lock()
					defer o.mu.Unlock()
					for _, m := range b.Msgs {
						tr.follow(m)
					}
					return nil
				})
				if !errors.Is(err, context.Canceled) {
					t.Errorf("%s: %v", bucket, err)
				}
			})
		}
	}
	return o
}

// taken says whether a process took over a bucket of its part between two instants.
func (o *owners) taken(part string, pid int, from, to time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, tr := range o.trails {
		if tr.part == part && slices.ContainsFunc(tr.writes, func(w write) bool {
			return w.takes && strings.HasSuffix(w.holder, fmt.Sprintf("/%d", pid)) && w.at.After(from) && w.at.Before(to)
		}) {
			return true
		}
	}
	return false
}

// judge reports what was found, and sums up what was read.
func (o *owners) judge() string {
	o.t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	var all tally
	for _, tr := range o.trails {
		wrong, sum := tr.judge()
		for _, text := range wrong[:min(len(wrong), 5)] {
			o.t.Errorf("%s, one of %d", text, len(wrong))
		}
		all.add(sum)
	}
	return fmt.Sprintf(`the buckets of keepers and fanouts were taken over %d times; each time behind the record of the owner before, with a newer generation.
%d other writes, in batches or alone, were read, and name the newest owner's record stored before them in their bucket; nothing went back in the log.
Not held against an owner: %d markers of expired keys, which the server writes; %d messages of batches whose first had been replaced before it was read.
%d messages had been replaced before they were read, %d of them owners' records that later writes name.
`, all.takes, all.tied, all.expired, all.untied, all.unseen, all.named)
}

// A trail is what was read of one bucket.
type trail struct {
	bucket, part string
	writes       []write
	last         uint64
	read         map[uint64]bool
	expired      int
	batches      map[string]write  // the first of each
	highs        map[string]uint64 // in the log, by key
	wrong        []string
}

// A write as its headers tell of it.
type write struct {
	key   string
	seq   uint64
	at    time.Time
	fence uint64 // the owner's record that it expects
	tied  bool   // that is known

	takes  bool // an owner's record
	holder string
}

func newTrail(bucket, part string) *trail {
	return &trail{bucket: bucket, part: part, read: make(map[uint64]bool), batches: make(map[string]write), highs: make(map[string]uint64)}
}

func (tr *trail) follow(m feed.Msg) {
	tr.last, tr.read[m.Seq] = m.Seq, true
	w := write{key: subjects.KVKey(tr.bucket, m.Subject), seq: m.Seq, at: m.Time}
	w.takes = w.key == subjects.KeyOwner
	if subjects.KVGone(m.Header) {
		delete(tr.highs, w.key)
		if m.Header.Get(server.JSMarkerReason) != "" {
			tr.expired++
			return
		}
	} else if err := tr.forward(&w, m.Data); err != nil {
		tr.complain(w, "%v", err)
	}
	tr.tie(&w, m.Header)
	tr.writes = append(tr.writes, w)
}

// tie finds which owner's record a write expected.
func (tr *trail) tie(w *write, h nats.Header) {
	batch := h.Get(jetstreamext.BatchIDHeader)
	if place := number64(h.Get(jetstreamext.BatchSeqHeader)); place > 1 {
		first, seen := tr.batches[batch]
		w.fence, w.tied = first.fence, seen
		if seen && w.seq != first.seq+place-1 {
			tr.complain(*w, "is number %d of a batch that begins at %d", place, first.seq)
		}
		return
	}
	w.fence, w.tied = number64(h.Get(jetstream.ExpectedLastSubjSeqHeader)), true
	about := h.Get(jetstream.ExpectedLastSubjSeqSubjHeader)
	switch {
	case h.Get(jetstream.ExpectedLastSubjSeqHeader) == "":
		tr.complain(*w, "expects nothing of an owner")
	case !w.takes && about != subjects.KVSubject(tr.bucket, subjects.KeyOwner):
		tr.complain(*w, "expects something of %q and nothing of an owner", about)
	}
	if batch != "" {
		tr.batches[batch] = *w
	}
}

// forward holds a record against the one that it replaces.
func (tr *trail) forward(w *write, data []byte) error {
	kind, _, _ := subjects.ParseKey(w.key)
	var position uint64
	least := tr.highs[w.key]
	switch {
	case tr.part == fanout && !w.takes:
		return nil
	case w.takes:
		var r wire.OwnerRecord
		if err := subjects.Decode(data, &r); err != nil {
			return err
		}
		position, least, w.holder = r.Generation, least+1, r.Holder
	case w.key == subjects.KeyCheckpoint:
		var r wire.CheckpointRecord
		if err := subjects.Decode(data, &r); err != nil {
			return err
		}
		position = r.Sequence
	case kind == subjects.KindUser:
		var r wire.UserRecord
		if err := subjects.Decode(data, &r); err != nil {
			return err
		}
		position = r.Sequence
	case kind == subjects.KindView:
		var r wire.View
		if err := subjects.Decode(data, &r); err != nil {
			return err
		}
		position = r.Version
	}
	tr.highs[w.key] = position
	if position < least {
		return fmt.Errorf("goes back to %d, where at least %d must be", position, least)
	}
	return nil
}

// judge ties every write to the newest owner's record that is stored before it.
func (tr *trail) judge() (wrong []string, sum tally) {
	known := make(map[uint64]bool)
	for _, w := range tr.writes {
		if w.takes {
			known[w.seq] = true
		}
	}
	for _, w := range tr.writes {
		if w.tied && w.fence > 0 && !tr.read[w.fence] && !known[w.fence] {
			known[w.fence] = true
			sum.named++
		}
	}
	records := make([]uint64, 0, len(known))
	for seq := range known {
		records = append(records, seq)
	}
	slices.Sort(records)
	sum.unseen, sum.expired = int(tr.last)-len(tr.writes)-tr.expired, tr.expired
	found := &trail{bucket: tr.bucket, wrong: slices.Clone(tr.wrong)}
	for _, w := range tr.writes {
		var newest uint64
		if n, _ := slices.BinarySearch(records, w.seq); n > 0 {
			newest = records[n-1]
		}
		switch {
		case !w.tied:
			sum.untied++
		case w.takes:
			sum.takes++
		default:
			sum.tied++
		}
		if w.tied && w.fence != newest {
			found.complain(w, "expects the owner's record to be %d, and it is %d", w.fence, newest)
		}
	}
	return found.wrong, sum
}

func (tr *trail) complain(w write, format string, args ...any) {
	tr.wrong = append(tr.wrong, fmt.Sprintf("%s: %s, stored as %d at %s, ", tr.bucket, w.key, w.seq, w.at.Local().Format(time.TimeOnly))+fmt.Sprintf(format, args...))
}

// A tally counts what was read.
type tally struct{ takes, tied, untied, expired, unseen, named int }

func (t *tally) add(o tally) {
	t.takes, t.tied, t.untied = t.takes+o.takes, t.tied+o.tied, t.untied+o.untied
	t.expired, t.unseen, t.named = t.expired+o.expired, t.unseen+o.unseen, t.named+o.named
}

func number64(text string) uint64 {
	n, _ := strconv.ParseUint(text, 10, 64)
	return n
}

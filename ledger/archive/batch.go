package archive

import (
	"cmp"
	"slices"
	"strings"

	"github.com/rollcall-io/rollcall/ledger"
)

// A batch is events in memory: 32 bytes each, twice that while they are sorted, and what
// they share.
type batch struct {
	serial  uint64 // tells the marks on connections from those of earlier batches
	entries []entry
	conns   []connection
	places  map[connection]uint32 // in conns
	origins []origin
	labels  []string
	label   map[string]uint32
}

// An entry is an event.
type entry struct {
	at       int64
	sequence uint64
	conn     uint32 // in conns
	origin   uint32 // in origins
	label    uint32 // in labels
	kind     ledger.Kind
	says     uint8
}

// What an entry says.
const (
	saysForeground = 1 << iota
	saysActive
	saysState
	saysAdopted
)

// A connection is what its events share.
type connection struct {
	user, device, session string
	epoch                 int64
	client                ledger.Client
	forgotten             bool // the user was
}

// An origin is a message, as rows name it.
type origin struct {
	beats  bool
	seq    uint64
	stored int64
}

func newBatch() *batch {
	b := &batch{places: make(map[connection]uint32), label: make(map[string]uint32)}
	b.empty()
	return b
}

// empty makes room for other events.
func (b *batch) empty() {
	b.serial++
	b.entries, b.conns, b.origins, b.labels = b.entries[:0], b.conns[:0], b.origins[:0], b.labels[:0]
	clear(b.places)
	clear(b.label)
	b.labelled("")
}

// from is the place of an origin; those of a message come one behind another.
func (b *batch) from(o origin) uint32 {
	n := len(b.origins)
	if n == 0 || b.origins[n-1] != o {
		b.origins = append(b.origins, o)
		n++
	}
	return uint32(n - 1)
}

func (b *batch) labelled(text string) uint32 {
	at, ok := b.label[text]
	if !ok {
		at = uint32(len(b.labels))
		b.labels, b.label[text] = append(b.labels, text), at
	}
	return at
}

// An era is an hour of events and one in which they were stored: a file has one of each.
type era struct{ at, stored int64 }

func (b *batch) era(e *entry) era { return era{hourOf(e.at), hourOf(b.origins[e.origin].stored)} }

// eras are those that the entries are of: two or three, unless much comes late.
func (b *batch) eras() (eras []era) {
	known := make(map[era]bool)
	var last era
	for i := range b.entries {
		if x := b.era(&b.entries[i]); x != last || len(eras) == 0 {
			last = x
			if !known[x] {
				known[x] = true
				eras = append(eras, x)
			}
		}
	}
	return eras
}

// ordered sorts by user, session, epoch and time. It counts: connections are few, and the
// events of one nearly come in their order.
func (b *batch) ordered() []entry {
	rank, n := b.ranks()
	ends := make([]int, n+1)
	for i := range b.entries {
		ends[rank[b.entries[i].conn]+1]++
	}
	for i := range n {
		ends[i+1] += ends[i]
	}
	sorted := make([]entry, len(b.entries))
	for _, e := range b.entries {
		at := &ends[rank[e.conn]]
		sorted[*at] = e
		*at++
	}
	for i, from := 0, 0; i < n; i++ {
		if run := sorted[from:ends[i]]; !slices.IsSortedFunc(run, b.compare) {
			slices.SortStableFunc(run, b.compare)
		}
		from = ends[i]
	}
	return sorted
}

func (b *batch) compare(e, o entry) int {
	return cmp.Or(cmp.Compare(e.at, o.at), cmp.Compare(b.origins[e.origin].stored, b.origins[o.origin].stored))
}

// ranks are the places of the connections in the order of sessions, and how many there
// are: one for all that rows do not tell apart by session and epoch.
func (b *batch) ranks() (rank []int, n int) {
	order := make([]uint32, len(b.conns))
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortFunc(order, func(i, j uint32) int { return b.conns[i].compare(&b.conns[j]) })
	rank = make([]int, len(order))
	for i, conn := range order {
		if i == 0 || b.conns[order[i-1]].compare(&b.conns[conn]) != 0 {
			n++
		}
		rank[conn] = n - 1
	}
	return rank, n
}

func (c *connection) compare(o *connection) int {
	return cmp.Or(strings.Compare(c.user, o.user), strings.Compare(c.session, o.session), cmp.Compare(c.epoch, o.epoch))
}

// row is an entry as it is in a file.
func (b *batch) row(shard int, e *entry) row {
	c, o := &b.conns[e.conn], &b.origins[e.origin]
	return row{
		At: e.at, StoredAt: o.stored, User: c.user, Device: c.device, Session: c.session, Epoch: c.epoch, Sequence: int64(e.sequence),
		Kind: kinds[e.kind], Activity: b.labels[e.label],
		Stated: e.says&saysState != 0, Foreground: e.says&saysForeground != 0, Active: e.says&saysActive != 0, Adopted: e.says&saysAdopted != 0,
		Type: c.client.Type, Version: c.client.Version, Channel: c.client.Channel, Region: c.client.Region,
		Shard: int64(shard), Stream: streamOf(o.beats), Position: int64(o.seq),
	}
}

package session

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/interval"
)

// ErrSnapshot is a snapshot that cannot be read, or is of another definition.
var ErrSnapshot = errors.New("session: unusable snapshot")

const snapshotVersion = 1

// A coder writes or reads: one function for each thing serves both ways, so that they
// cannot disagree.
type coder struct {
	reading bool
	buf     []byte
	bad     bool
}

func (c *coder) uint(v *uint64) {
	if !c.reading {
		c.buf = binary.AppendUvarint(c.buf, *v)
		return
	}
	got, n := binary.Uvarint(c.buf)
	if n <= 0 {
		c.bad, c.buf = true, nil
		return
	}
	*v, c.buf = got, c.buf[n:]
}

func (c *coder) int(v *int64) {
	z := uint64(*v<<1) ^ uint64(*v>>63)
	c.uint(&z)
	*v = int64(z>>1) ^ -int64(z&1)
}

func (c *coder) byte(v *uint8) {
	u := uint64(*v)
	c.uint(&u)
	*v = uint8(u)
}

func (c *coder) bools(list ...*bool) {
	var bits uint64
	for i, b := range list {
		if *b {
			bits |= 1 << i
		}
	}
	c.uint(&bits)
	for i, b := range list {
		*b = bits>>i&1 != 0
	}
}

func (c *coder) string(v *string) {
	n := c.length(len(*v))
	if !c.reading {
		c.buf = append(c.buf, *v...)
		return
	}
	*v, c.buf = string(c.buf[:n]), c.buf[n:]
}

// length is of a list; everything in a list takes a byte at least.
func (c *coder) length(n int) int {
	u := uint64(n)
	c.uint(&u)
	if c.reading && u > uint64(len(c.buf)) {
		c.bad, c.buf = true, nil
		return 0
	}
	return int(u)
}

func list[T any](c *coder, v *[]T, each func(*T)) {
	n := c.length(len(*v))
	if c.reading {
		*v = nil
		if n > 0 {
			*v = make([]T, n)
		}
	}
	for i := range *v {
		each(&(*v)[i])
	}
}

// span is relative to a base, which makes it a few bytes.
func (c *coder) span(v *interval.Interval, base int64) {
	from, to := v.From-base, v.To-v.From
	c.int(&from)
	c.int(&to)
	v.From = base + from
	v.To = v.From + to
}

func (c *coder) set(v *[]interval.Interval, base int64) {
	list(c, v, func(i *interval.Interval) {
		c.span(i, base)
		base = i.To
	})
}

func (c *coder) state(s *state) {
	c.int(&s.start) // first, and then last: see packedSpan
	c.offset(&s.last, s.start)
	c.uint(&s.events)
	c.int(&s.epoch)
	c.uint(&s.seq)
	c.byte((*uint8)(&s.ended))
	c.offset(&s.end, s.start)
	c.bools(&s.begun, &s.running, &s.told, &s.foreground, &s.doubt, &s.broken)
	c.span(&s.run, s.start)
	c.offset(&s.since, s.start)
	c.span(&s.active, s.start)
	c.byte(&s.label)
	c.offset(&s.labelled, s.start)
	c.set(&s.connected, s.start)
	c.set(&s.claimed, s.start)
	c.set(&s.inputs, s.start)
	list(c, &s.labels, func(own *[]interval.Interval) { c.set(own, s.start) })
}

func (c *coder) offset(v *int64, base int64) {
	d := *v - base
	c.int(&d)
	*v = d + base
}

func (c *coder) entry(e *entry, base int64) {
	epoch, kind := uint64(e.epoch), uint8(e.kind)
	c.offset(&e.at, base)
	c.uint(&e.seq)
	c.uint(&epoch)
	c.byte(&kind)
	c.byte(&e.says)
	c.byte(&e.label)
	e.epoch, e.kind = uint16(epoch), ledger.Kind(kind)
}

func (b *Builder) pack(s *session) {
	var c coder
	c.state(s.state)
	s.packed, s.state, s.pending, s.epochs = append([]byte(nil), c.buf...), nil, pending{}, nil
}

func (b *Builder) unpack(data []byte) (s state) {
	c := coder{reading: true, buf: data}
	c.state(&s)
	return s
}

func (b *Builder) thaw(s *session) {
	if s.packed == nil {
		return
	}
	now := b.unpack(s.packed)
	s.state, s.packed = &now, nil
}

// packedSpan is when a packed session started, and the last event that counted.
func packedSpan(data []byte) (start, last int64) {
	c := coder{reading: true, buf: data}
	c.int(&start)
	last = start
	c.offset(&last, start)
	return start, last
}

// Snapshot is everything that the builder knows. Store it together with the positions
// of what was added, and with the rows and refusals handed out before: after a
// crash, a builder restored from it hands out the same again for the same events.
func (b *Builder) Snapshot() []byte {
	c := coder{}
	b.code(&c, b.sorted())
	return c.buf
}

// Restore makes a builder of a snapshot, under the definition that it was made under.
func Restore(cfg Config, snapshot []byte) (*Builder, error) {
	b, err := New(cfg)
	if err != nil {
		return nil, err
	}
	c := coder{reading: true, buf: snapshot}
	b.code(&c, nil)
	if c.bad || len(c.buf) > 0 {
		return nil, fmt.Errorf("%w: it is damaged, or of another version or definition", ErrSnapshot)
	}
	return b, nil
}

func (b *Builder) code(c *coder, sessions []*session) {
	version := uint64(snapshotVersion)
	c.uint(&version)
	same := version == snapshotVersion
	for _, v := range []int64{b.cap, b.grace, b.idle, b.limit, b.lateness, int64(b.labels)} {
		got := v
		c.int(&got)
		same = same && got == v
	}
	for _, m := range b.measures {
		got := string(m)
		c.string(&got)
		same = same && got == string(m)
	}
	if !same {
		c.bad, c.buf = true, nil
		return
	}
	c.int(&b.watermark)
	c.int(&b.floor)
	c.int(&b.swept)
	list(c, &sessions, func(s **session) {
		if c.reading {
			*s = new(session)
		}
		b.codeSession(c, *s)
	})
}

func (b *Builder) codeSession(c *coder, s *session) {
	var client ledger.Client
	if s.client != nil {
		client = *s.client
	}
	for _, v := range []*string{&s.User, &s.Device, &s.ID, &client.Type, &client.Version, &client.Channel, &client.Region} {
		c.string(v)
	}
	s.client = b.client(client)
	c.int(&s.told)
	packed := string(s.packed)
	c.string(&packed)
	if packed != "" {
		s.packed = []byte(packed)
	} else {
		if s.state == nil {
			s.state = new(state)
		}
		c.state(s.state)
	}
	c.bad = c.bad || c.reading && !b.sound(s)
	list(c, &s.epochs, c.int)
	base := int64(0)
	list(c, &s.others, func(e *entry) {
		c.entry(e, base)
		base = e.at
		if int(e.epoch) >= len(s.epochs) || int(e.label) > b.rules.labels {
			c.bad, e.epoch = true, 0
		}
	})
	before := int64(0)
	list(c, &s.beats, func(p *plain) {
		v := int64(*p)
		c.offset(&v, before)
		*p, before = plain(v), v
		if int(p.entry().epoch) >= len(s.epochs) {
			c.bad, *p = true, 0
		}
	})
	c.bools(&s.dirty, &s.shown)
	if c.reading && !c.bad {
		b.sessions[s.SessionKey] = s
		if s.dirty {
			b.dirty = append(b.dirty, s)
		}
	}
}

// sound says that a state does not name what the definition does not have.
func (b *Builder) sound(s *session) bool {
	now := s.state
	if s.packed != nil {
		c := coder{reading: true, buf: s.packed}
		now = new(state)
		if c.state(now); c.bad || len(c.buf) > 0 {
			return false
		}
	}
	labels := len(now.labels)
	return int(now.label) <= b.rules.labels && (labels == 0 || labels == b.rules.labels)
}

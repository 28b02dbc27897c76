package fanout

import (
	"cmp"
	"slices"

	"github.com/rollcall-io/rollcall/subjects"
)

// A reply puts the answer together from what the shards append.
type reply struct {
	data   []byte
	pieces []piece
	// omitted is the size of what another fanout appended and the server would not
	// have carried here.
	omitted int
}

// A piece is what one shard has appended: data[from:to] of the reply.
type piece struct{ shard, from, to int }

const replyHead = `{"shards":[`

func newReply() *reply { return &reply{data: append(make([]byte, 0, 1024), replyHead...)} }

// add appends one shard's piece.
func (r *reply) add(shard int, appendTo func([]byte) []byte) {
	r.addKnown(shard, func(data []byte) ([]byte, bool) { return appendTo(data), true })
}

// addKnown appends one shard's piece if there is one.
func (r *reply) addKnown(shard int, appendTo func([]byte) ([]byte, bool)) {
	data := r.data
	if len(r.pieces) > 0 {
		data = append(data, ',')
	}
	from := len(data)
	if data, ok := appendTo(data); ok {
		r.data = data
		r.pieces = append(r.pieces, piece{shard, from, len(data)})
	}
}

func (r *reply) bytes(p piece) []byte { return r.data[p.from:p.to] }

// merge is one reply of several, in the order of shards: which fanout owns them does
// not show.
func merge(replies []*reply) *reply {
	type source struct {
		*reply
		piece
	}
	var sources []source
	all := newReply()
	for _, r := range replies {
		all.omitted += r.omitted
		for _, p := range r.pieces {
			sources = append(sources, source{r, p})
		}
	}
	slices.SortFunc(sources, func(a, b source) int { return cmp.Compare(a.shard, b.shard) })
	for _, s := range sources {
		all.add(s.shard, func(data []byte) []byte { return append(data, s.bytes(s.piece)...) })
	}
	return all
}

// end returns the answer, or a refusal if the server would not carry it.
func (r *reply) end(limit int) ([]byte, error) {
	data := append(r.data, "]}"...)
	if size := len(data) + r.omitted; size > limit || r.omitted > 0 {
		return nil, tooLarge(size, limit)
	}
	return data, nil
}

func tooLarge(size, limit int) *subjects.Error {
	return subjects.Errorf(subjects.CodeTooLarge, "the answer takes about %d bytes, the limit is %d: ask in parts", size, limit)
}

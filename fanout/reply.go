package fanout

import "github.com/rollcall-io/rollcall/subjects"

// A reply puts the answer together from what the shards append.
type reply struct {
	data  []byte
	parts int
}

const replyHead = `{"shards":[`

func newReply() *reply { return &reply{data: append(make([]byte, 0, 1024), replyHead...)} }

// add appends one shard's part.
func (r *reply) add(appendTo func([]byte) []byte) {
	r.addKnown(func(data []byte) ([]byte, bool) { return appendTo(data), true })
}

// addKnown appends one shard's part if there is one.
func (r *reply) addKnown(appendTo func([]byte) ([]byte, bool)) {
	data := r.data
	if r.parts > 0 {
		data = append(data, ',')
	}
	if data, ok := appendTo(data); ok {
		r.data = data
		r.parts++
	}
}

// end returns the answer, or a refusal if the server would not carry it.
func (r *reply) end(limit int) ([]byte, error) {
	data := append(r.data, "]}"...)
	if len(data) > limit {
		return nil, tooLarge(len(data), limit)
	}
	return data, nil
}

func tooLarge(size, limit int) error {
	return subjects.Errorf(subjects.CodeTooLarge, "the answer takes about %d bytes, the limit is %d: ask in parts", size, limit)
}

package edge

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// A tip is the last message on the edge's own subject of a log.
type tip struct {
	sequence    uint64 // 0: there is none
	incarnation uint64
	number      uint64
	newer       bool // written by a release whose frames this one cannot read
	left        bool // the writer has given up its lease
}

// readTip asks the leader of the stream. The newer API would let a follower
// answer, which may not know yet what was acknowledged.
func readTip(ctx context.Context, js nats.JetStreamContext, stream, subject string) (tip, error) {
	m, err := js.GetLastMsg(stream, subject, nats.Context(ctx))
	if errors.Is(err, nats.ErrMsgNotFound) {
		return tip{}, nil
	}
	if err != nil {
		return tip{}, err
	}
	t := tip{sequence: m.Sequence}
	f, err := subjects.DecodeFrame(m.Data)
	if err != nil {
		t.newer = errors.Is(err, subjects.ErrVersion)
		return t, nil
	}
	t.incarnation, t.number = f.Incarnation, f.Number
	last := len(f.Entries) - 1
	t.left = last >= 0 && f.Entries[last].Kind == wire.Kind_KIND_LEAVE
	return t, nil
}

// orphaned says that an earlier process may have left connections behind.
func (t tip) orphaned() bool { return t.sequence > 0 && !t.left }

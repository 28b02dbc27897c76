package keeper

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/rollcall-io/rollcall/internal/feed"
	"github.com/rollcall-io/rollcall/keeper/machine"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// readRecords reads what earlier keepers of the shard have written. A record that
// cannot be read is as good as lost, and repaired like one.
func readRecords(ctx context.Context, w *writer, log *slog.Logger) (machine.Records, error) {
	r := machine.Records{
		Edges: make(map[string]*wire.EdgeRecord), Users: make(map[string]*wire.UserRecord), Views: make(map[string]*wire.View),
	}
	for _, b := range []bucket{w.leases, w.views} {
		err := feed.All(ctx, w.js, subjects.KVStream(b.name), b.fence, func(m feed.Msg) error {
			if subjects.KVGone(m.Header) {
				return nil
			}
			key := subjects.KVKey(b.name, m.Subject)
			if err := addRecord(&r, key, m.Data); err != nil {
				log.Warn("record cannot be read", "bucket", b.name, "key", key, "err", err)
			}
			return nil
		})
		if err != nil {
			return r, err
		}
	}
	return r, nil
}

func addRecord(r *machine.Records, key string, value []byte) error {
	kind, id, err := subjects.ParseKey(key)
	if err != nil {
		return err
	}
	switch kind {
	case subjects.KeyCheckpoint:
		c := new(wire.CheckpointRecord)
		if err := subjects.Decode(value, c); err != nil {
			return err
		}
		r.Checkpoint = c
	case subjects.KindEdge:
		return put(r.Edges, id, new(wire.EdgeRecord), value)
	case subjects.KindUser:
		return put(r.Users, id, new(wire.UserRecord), value)
	case subjects.KindView:
		return put(r.Views, id, new(wire.View), value)
	}
	return nil // the owner's, or somebody else's
}

func put[M proto.Message](records map[string]M, id string, record M, value []byte) error {
	if err := subjects.Decode(value, record); err != nil {
		return err
	}
	records[id] = record
	return nil
}

// logEnd is the last sequence that the log has given out.
func logEnd(ctx context.Context, js jetstream.JetStream, stream string) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	s, err := js.Stream(ctx, stream)
	if err != nil {
		return 0, fmt.Errorf("keeper: end of the log: %w", err)
	}
	return s.CachedInfo().State.LastSeq, nil
}

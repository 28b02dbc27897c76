package e2e

import (
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/internal/feed"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// Since is a store time as the time since the fabric was made.
func (f *Fabric) Since(m rollcall.Micros) time.Duration { return m.Time().Sub(f.start) }

// Minute is what a viewer reads of something at that time.
func (f *Fabric) Minute(d time.Duration) subjects.Minute {
	return subjects.MinuteOf(rollcall.MicrosOf(f.start.Add(d)))
}

// ViewOf is the published state of a user; nil if there is none.
func (f *Fabric) ViewOf(user string) *wire.View {
	f.T.Helper()
	view := new(wire.View)
	if !f.read(f.Names.ViewsBucket(f.Names.Shard(user)), subjects.KeyView(user), view) {
		return nil
	}
	return view
}

// UserOf is what the keeper has written of a user; nil if it knows nothing.
func (f *Fabric) UserOf(user string) *wire.UserRecord {
	f.T.Helper()
	record := new(wire.UserRecord)
	if !f.read(f.Names.LeasesBucket(f.Names.Shard(user)), subjects.KeyUser(user), record) {
		return nil
	}
	return record
}

// Renewed is when the keeper last heard of an edge in the shard of a user.
func (f *Fabric) Renewed(edge, user string) time.Duration {
	f.T.Helper()
	record := new(wire.EdgeRecord)
	if !f.read(f.Names.LeasesBucket(f.Names.Shard(user)), subjects.KeyEdge(edge), record) {
		f.T.Fatalf("%s has no lease in the shard of %s", edge, user)
	}
	return f.Since(rollcall.Micros(record.Renewed))
}

func (f *Fabric) read(bucket, key string, record proto.Message) (found bool) {
	f.T.Helper()
	kv, err := f.JS.KeyValue(f.ctx, bucket)
	if err != nil {
		f.T.Fatal(err)
	}
	entry, err := kv.Get(f.ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return false
	}
	if err == nil {
		err = subjects.Decode(entry.Value(), record)
	}
	if err != nil {
		f.T.Fatal(err)
	}
	return true
}

// Bucket is what a bucket holds, and in which revision, by key.
func (f *Fabric) Bucket(bucket string) map[string]Record {
	f.T.Helper()
	records := make(map[string]Record)
	err := feed.All(f.ctx, f.JS, subjects.KVStream(bucket), 0, func(m feed.Msg) error {
		if !subjects.KVGone(m.Header) {
			records[subjects.KVKey(bucket, m.Subject)] = Record{m.Seq, string(m.Data)}
		}
		return nil
	})
	if err != nil {
		f.T.Fatal(err)
	}
	return records
}

// A Record is one value of a bucket.
type Record struct {
	Revision uint64
	Value    string
}

// Written is the last revision of a bucket.
func (f *Fabric) Written(bucket string) uint64 {
	f.T.Helper()
	stream, err := f.JS.Stream(f.ctx, subjects.KVStream(bucket))
	if err != nil {
		f.T.Fatal(err)
	}
	return stream.CachedInfo().State.LastSeq
}

package e2e

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// LeaseOf is the edge that holds the current connection of an endpoint, as the
// keeper has written it; empty if there is none.
func (f *Fabric) LeaseOf(user, device string) string {
	f.T.Helper()
	for _, ep := range f.UserOf(user).GetEndpoints() {
		if ep.Device == device {
			return ep.Current.GetEdge()
		}
	}
	return ""
}

// ForgetHeartbeats empties the raw history at intervals, for long tests that do not
// read it: the server reads the whole file again before it appends to one that was
// quiet for ten seconds, which is most of the time that a simulated week takes.
func (f *Fabric) ForgetHeartbeats(every time.Duration) {
	f.devices.Go(func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-f.ctx.Done():
				return
			case <-ticker.C:
			}
			for shard := range f.Names.Shards() {
				stream, err := f.JS.Stream(f.ctx, f.Names.BeatsStream(shard))
				if err == nil {
					err = stream.Purge(f.ctx)
				}
				if err != nil && f.ctx.Err() == nil {
					f.T.Errorf("forgetting heartbeats: %v", err)
				}
			}
		}
	})
}

// Fill has the server take no more than limit bytes, and others than the fabric use them up, so that
// every write is refused. The server starts again for it. What it returns makes room.
func (f *Fabric) Fill(limit int64) (room func()) {
	f.T.Helper()
	f.Server.Stop()
	f.Server.Limit(limit)
	f.Server.Start()
	const name = "FILLER"
	fill := func(ctx context.Context) error {
		if _, err := f.JS.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: name, Subjects: []string{"filler"}}); err != nil {
			return err
		}
		for {
			if _, err := f.JS.Publish(ctx, "filler", make([]byte, limit/32)); err != nil {
				return err
			}
		}
	}
	for err := fill(f.ctx); !fabric.Full(err); err = fill(f.ctx) { // the connection comes back
		time.Sleep(time.Second)
	}
	return func() {
		if err := f.JS.DeleteStream(f.ctx, name); err != nil {
			f.T.Error(err)
		}
	}
}

// Load counts what is renewed and written at the store, by second.
type Load struct {
	mu      sync.Mutex
	start   time.Time
	renewed map[int]int // connections whose leases were renewed
	written map[int]int // messages in the KV buckets
	beats   map[int]int // heartbeats, as the edges tell of them later
}

// MeasureRenewals counts from now on.
func (f *Fabric) MeasureRenewals() *Load {
	f.T.Helper()
	l := &Load{start: f.start, renewed: make(map[int]int), written: make(map[int]int), beats: make(map[int]int)}
	nc := lab.Connect(f.T, f.Server.NewLink())
	subscribe := func(subject string, handle nats.MsgHandler) {
		if _, err := nc.Subscribe(subject, handle); err != nil {
			f.T.Fatal(err)
		}
	}
	for shard := range f.Names.Shards() {
		subscribe(f.Names.LogSubjects(shard), l.countRenewals)
		subscribe(f.Names.BeatsSubjects(shard), l.countBeats)
		for _, bucket := range []string{f.Names.LeasesBucket(shard), f.Names.ViewsBucket(shard)} {
			subscribe(subjects.KVSubject(bucket, ">"), l.countWrite)
		}
	}
	if err := nc.Flush(); err != nil {
		f.T.Fatal(err)
	}
	return l
}

func (l *Load) countRenewals(m *nats.Msg) {
	frame, err := subjects.DecodeFrame(m.Data)
	if err != nil {
		return
	}
	for _, e := range frame.Entries {
		if e.Kind == wire.Kind_KIND_RENEW {
			l.add(l.renewed, int(e.Count))
		}
	}
}

func (l *Load) countWrite(*nats.Msg) { l.add(l.written, 1) }

func (l *Load) countBeats(m *nats.Msg) {
	told, beats, err := subjects.DecodeBeats(m.Data)
	if err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	base := rollcall.Micros(told.Base).Time().Sub(l.start)
	for _, b := range beats {
		l.beats[int((base+time.Duration(b.Offset)*time.Millisecond)/time.Second)]++
	}
}

// Beats is the most heartbeats in one of these seconds.
func (l *Load) Beats(from, to time.Duration) (peak int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for s, n := range l.beats {
		if at := time.Duration(s) * time.Second; from <= at && at < to {
			peak = max(peak, n)
		}
	}
	return peak
}

func (l *Load) add(counts map[int]int, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	counts[int(time.Since(l.start)/time.Second)] += n
}

// Peak is the most connections renewed in one second, and the KV writes in it.
func (l *Load) Peak() (connections, writes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for s, n := range l.renewed {
		if n > connections {
			connections, writes = n, l.written[s]
		}
	}
	return connections, writes
}

// Publish appends bytes to a subject of the log, as an edge of another version or
// a broken one might.
func (f *Fabric) Publish(subject string, data []byte) {
	f.T.Helper()
	if _, err := f.JS.Publish(context.Background(), subject, data); err != nil {
		f.T.Fatal(err)
	}
}

// LoseLast takes the last message out of a stream, as a store does that has lost it, but with
// what comes later still behind it.
func (f *Fabric) LoseLast(stream string) {
	f.T.Helper()
	s, err := f.JS.Stream(f.ctx, stream)
	if err == nil {
		err = s.DeleteMsg(f.ctx, s.CachedInfo().State.LastSeq)
	}
	if err != nil {
		f.T.Fatal(err)
	}
}

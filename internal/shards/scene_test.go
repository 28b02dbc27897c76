package shards_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/internal/feed"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/internal/shards"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// A scene is a fabric whose shards processes own; each writes what it owns, under its fence.
type scene struct {
	t      *testing.T
	server *lab.Server
	fabric fabric.Fabric
	js     jetstream.JetStream
}

func newScene(t *testing.T, shards int) *scene {
	t.Helper()
	sc := &scene{t: t, server: lab.NewServer(t)}
	var err error
	if sc.js, err = jetstream.New(lab.Connect(t, sc.server.NewLink())); err != nil {
		t.Fatal(err)
	}
	if sc.fabric, err = fabric.Ensure(t.Context(), sc.js, fabric.Config{Shards: shards}); err != nil {
		t.Fatal(err)
	}
	return sc
}

// A process owns shards, alone or as a member.
type process struct {
	*shards.Owner
	name   string
	link   *lab.Link
	cancel context.CancelFunc
	result chan error

	mu      sync.Mutex
	holds   map[int]uint64 // generations, from grant to return
	granted int
}

// start starts a process; without a member's name it owns all shards alone.
func (sc *scene) start(member string) *process {
	sc.t.Helper()
	p := &process{name: member, link: sc.server.NewLink(), result: make(chan error, 1), holds: make(map[int]uint64)}
	nc := lab.Connect(sc.t, p.link)
	js, err := jetstream.New(nc)
	if err != nil {
		sc.t.Fatal(err)
	}
	holder := "host/" + member
	p.Owner = shards.New(shards.Config{
		Conn: nc, JetStream: js, Group: "keeper", Member: member, Holder: holder, Logger: slog.New(slog.DiscardHandler),
	})
	var ctx context.Context
	ctx, p.cancel = context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.result <- p.Own(ctx, sc.fabric.Names, func(ctx context.Context, g rollcall.Grant) error { return p.run(ctx, js, sc.fabric, g) })
	}()
	sc.t.Cleanup(func() { p.cancel(); <-done })
	return p
}

// run writes the generation again and again, as a keeper does its records.
func (p *process) run(ctx context.Context, js jetstream.JetStream, f fabric.Fabric, g rollcall.Grant) error {
	bucket := f.ViewsBucket(g.Shard)
	fence, err := fabric.TakeOver(ctx, js, bucket, g, p.name)
	if err != nil {
		return err
	}
	p.hold(g, true)
	defer p.hold(g, false)
	value, err := subjects.Encode(&wire.OwnerRecord{Generation: g.Generation, Holder: p.name})
	if err != nil {
		return err
	}
	for n := 0; ; n++ {
		key := subjects.KeyView(fmt.Sprint(g.Generation, p.name, n)) // all are kept, in their order
		_, err := js.PublishMsg(ctx, &nats.Msg{Subject: subjects.KVSubject(bucket, key), Data: value}, fabric.Fence(bucket, fence))
		if fabric.Fenced(err) {
			return rollcall.ErrNotOwner
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (p *process) hold(g rollcall.Grant, holds bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if holds {
		p.holds[g.Shard] = g.Generation
		p.granted++
	} else if p.holds[g.Shard] == g.Generation {
		delete(p.holds, g.Shard)
	}
}

func (p *process) shards() []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.holds))
}

func (p *process) generations() map[int]uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.holds)
}

// kill ends a process without a word.
func (p *process) kill() { p.link.Cut(); p.cancel() }

// wantEnd waits for a process that ends by itself.
func (p *process) wantEnd(t *testing.T, want error) error {
	t.Helper()
	select {
	case err := <-p.result:
		p.result <- err
		if !errors.Is(err, want) {
			t.Fatalf("%q ended with %v, want %v", p.name, err, want)
		}
		return err
	case <-time.After(2 * time.Minute):
		t.Fatalf("%q still runs, want %v", p.name, want)
		return nil
	}
}

// shares lists how many shards each process has, and fails if one has two owners or none.
func (sc *scene) shares(processes ...*process) (shares []int) {
	sc.t.Helper()
	owners := make([]int, sc.fabric.Shards())
	for _, p := range processes {
		held := p.shards()
		shares = append(shares, len(held))
		for _, n := range held {
			owners[n]++
		}
	}
	for n, count := range owners {
		if count != 1 {
			sc.t.Errorf("shard %d has %d owners", n, count)
		}
	}
	return shares
}

// wantOrder fails if anything was stored of an older generation after a newer one.
func (sc *scene) wantOrder() {
	sc.t.Helper()
	for shard := range sc.fabric.Shards() {
		last := uint64(0)
		for _, w := range sc.written(shard) {
			if w.Generation < last {
				sc.t.Errorf("shard %d: %q wrote under generation %d after %d", shard, w.Holder, w.Generation, last)
			}
			last = w.Generation
		}
	}
}

// written is all that was stored in a shard, in the store's order.
func (sc *scene) written(shard int) (all []*wire.OwnerRecord) {
	sc.t.Helper()
	bucket := sc.fabric.ViewsBucket(shard)
	err := feed.All(sc.t.Context(), sc.js, subjects.KVStream(bucket), 0, func(m feed.Msg) error {
		if subjects.KVKey(bucket, m.Subject) == subjects.KeyOwner {
			return nil
		}
		w := new(wire.OwnerRecord)
		all = append(all, w)
		return subjects.Decode(m.Data, w)
	})
	if err != nil {
		sc.t.Fatal(err)
	}
	return all
}

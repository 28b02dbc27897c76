package solo_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/internal/solo"
	"github.com/rollcall-io/rollcall/subjects"
)

// A process owns what it can; granted hears of each grant.
type process struct {
	t       *testing.T
	cancel  context.CancelFunc
	granted chan rollcall.Grant
	result  chan error
}

// start runs a process that holds each grant until hold returns.
func start(t *testing.T, link *lab.Link, shards int, hold func(context.Context, rollcall.Grant) error) *process {
	t.Helper()
	js, err := jetstream.New(lab.Connect(t, link))
	if err != nil {
		t.Fatal(err)
	}
	names, err := subjects.New("presence", shards)
	if err != nil {
		t.Fatal(err)
	}
	o := &solo.Ownership{JetStream: js, Names: names, Group: "keeper", Holder: "test"}
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{t: t, cancel: cancel, granted: make(chan rollcall.Grant, 1000), result: make(chan error, 1)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.result <- o.Own(ctx, func(ctx context.Context, g rollcall.Grant) error {
			p.granted <- g
			return hold(ctx, g)
		})
	}()
	t.Cleanup(func() { cancel(); <-done })
	return p
}

// always holds a grant until it is lost.
func always(ctx context.Context, _ rollcall.Grant) error { <-ctx.Done(); return ctx.Err() }

func (p *process) grant() rollcall.Grant {
	p.t.Helper()
	select {
	case g := <-p.granted:
		return g
	case <-time.After(time.Minute):
		p.t.Fatal("nothing granted within a minute")
		return rollcall.Grant{}
	}
}

func (p *process) mustEnd(want error) {
	p.t.Helper()
	select {
	case err := <-p.result:
		if !errors.Is(err, want) {
			p.t.Fatalf("ended with %v, want %v", err, want)
		}
	case <-time.After(time.Minute):
		p.t.Fatalf("still running after a minute, want %v", want)
	}
}

func TestOneProcessOwnsEveryShard(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		p := start(t, lab.NewServer(t).NewLink(), 4, always)
		owned := map[int]bool{}
		for range 4 {
			g := p.grant()
			owned[g.Shard] = true
			if g.Generation == 0 {
				t.Errorf("%+v", g)
			}
		}
		if len(owned) != 4 {
			t.Errorf("owns %v", owned)
		}
		time.Sleep(time.Hour)
		if len(p.granted) > 0 {
			t.Errorf("granted again: %+v", <-p.granted)
		}
		p.cancel()
		p.mustEnd(context.Canceled)
	})
}

func TestGenerationGrowsOverRestarts(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		server := lab.NewServer(t)
		var last uint64
		for range 5 { // within one second
			p := start(t, server.NewLink(), 1, always)
			if g := p.grant(); g.Generation <= last {
				t.Fatalf("%d after %d", g.Generation, last)
			} else {
				last = g.Generation
			}
			p.cancel()
			p.mustEnd(context.Canceled)
		}
	})
}

func TestGenerationGrowsAlthoughTheStoreForgot(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		server := lab.NewServer(t)
		fail := make(chan struct{})
		p := start(t, server.NewLink(), 1, func(ctx context.Context, g rollcall.Grant) error { <-fail; return errors.New("interrupted") })
		p.grant()
		early := server.Snapshot("KV_presence_cohort_keeper")
		time.Sleep(time.Minute)
		fail <- struct{}{}
		last := p.grant().Generation
		server.Stop()
		server.Restore(early)
		server.Start()
		close(fail)
		if g := p.grant(); g.Generation <= last {
			t.Errorf("%d after %d", g.Generation, last)
		}
	})
}

func TestSecondProcessTakesOverAndTheFirstStops(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		server := lab.NewServer(t)
		fenced := make(chan struct{})
		first := start(t, server.NewLink(), 2, func(ctx context.Context, g rollcall.Grant) error {
			select {
			case <-fenced: // its next write fails
				return rollcall.ErrNotOwner
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		held := map[int]uint64{}
		for range 2 {
			g := first.grant()
			held[g.Shard] = g.Generation
		}
		second := start(t, server.NewLink(), 2, always)
		for range 2 {
			if g := second.grant(); g.Generation <= held[g.Shard] {
				t.Errorf("shard %d: %d after %d", g.Shard, g.Generation, held[g.Shard])
			}
		}
		close(fenced)
		first.mustEnd(rollcall.ErrNotOwner)
		time.Sleep(time.Hour)
		if len(first.granted)+len(second.granted) > 0 || len(second.result) > 0 {
			t.Error("the shards went back and forth")
		}
	})
}

func TestFailedRunIsGrantedAgain(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		p := start(t, lab.NewServer(t).NewLink(), 1, func(context.Context, rollcall.Grant) error { return errors.New("broken") })
		last, began := p.grant(), time.Now()
		for range 20 {
			g := p.grant()
			if g.Generation <= last.Generation {
				t.Fatalf("%d after %d", g.Generation, last.Generation)
			}
			last = g
		}
		if took := time.Since(began); took < 15*time.Second || took > 45*time.Second {
			t.Errorf("20 retries took %v, want pauses that grow to 1 to 2 s", took)
		}
	})
}

func TestProcessWaitsForTheStore(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		server := lab.NewServer(t)
		server.Stop()
		p := start(t, server.NewLink(), 2, always)
		time.Sleep(time.Hour)
		if len(p.granted) > 0 || len(p.result) > 0 {
			t.Fatal("granted, or ended, without a store")
		}
		server.Start()
		p.grant()
		p.grant()
	})
}

// A write whose acknowledgement came too late is not another process's.
func TestSlowStoreIsNotAnotherOwner(t *testing.T) {
	for delay := 100 * time.Millisecond; delay < 2500*time.Millisecond; delay += 100 * time.Millisecond {
		t.Run(fmt.Sprint(delay), func(t *testing.T) {
			lab.Bubble(t, func(t *testing.T) {
				link, fail := lab.NewServer(t).NewLink(), make(chan struct{})
				p := start(t, link, 1, func(context.Context, rollcall.Grant) error { <-fail; return errors.New("interrupted") })
				last := p.grant()
				link.Delay(delay)
				fail <- struct{}{}
				time.Sleep(time.Minute)
				link.Delay(0)
				close(fail)
				time.Sleep(10 * time.Second)
				if len(p.result) > 0 {
					t.Fatalf("gave up: %v", <-p.result)
				}
				if g := p.grant(); g.Generation <= last.Generation {
					t.Errorf("%d after %d", g.Generation, last.Generation)
				}
			})
		})
	}
}

package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/fanout/viewer"
)

// An audience is viewers, as the Go client makes them, who wait for users to come
// online. They share one connection.
type audience struct {
	st      *stage
	end     context.CancelFunc
	running sync.WaitGroup

	missing atomic.Int64  // targets not seen online yet
	last    atomic.Int64  // when the last was, in nanoseconds since begin
	all     chan struct{} // all were seen
	begin   time.Time
}

// gather starts one viewer for each list of targets and waits until all watch.
func (st *stage) gather(nc *nats.Conn, name string, lists [][]string) (*audience, error) {
	a := &audience{st: st, all: make(chan struct{}), begin: time.Now()}
	ctx, end := context.WithCancel(st.ctx)
	a.end = end
	for i, targets := range lists {
		a.missing.Add(int64(len(targets)))
		if err := a.seat(ctx, nc, fmt.Sprintf("%s-%d", name, i), targets); err != nil {
			a.leave()
			return nil, err
		}
	}
	return a, nil
}

func (a *audience) seat(ctx context.Context, nc *nats.Conn, name string, targets []string) error {
	client, err := viewer.New(nc, viewer.Config{Viewer: name, Prefix: a.st.Prefix(), Logger: a.st.log})
	if err != nil {
		return err
	}
	a.running.Go(func() { client.Run(ctx) }) // ends with ctx
	a.running.Go(func() { a.look(client, len(targets)) })
	return client.Watch(ctx, targets...)
}

func (a *audience) look(client *viewer.Client, targets int) {
	seen := make(map[string]bool, targets)
	for c := range client.Changes() {
		if c.View.Status != rollcall.StatusOnline || seen[c.Target] {
			continue
		}
		seen[c.Target] = true
		if a.missing.Add(-1) == 0 {
			a.last.Store(int64(time.Since(a.begin)))
			close(a.all)
		}
	}
}

// wait returns when the last target came online.
func (a *audience) wait() (time.Time, error) {
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-a.st.ctx.Done():
		return time.Time{}, context.Cause(a.st.ctx)
	case <-late.C:
		return time.Time{}, fmt.Errorf("%d users are not visible to their viewer after %s", a.missing.Load(), patience)
	case <-a.all:
		return a.begin.Add(time.Duration(a.last.Load())), nil
	}
}

func (a *audience) leave() {
	a.end()
	a.running.Wait()
}

package e2e

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/fanout/viewer"
	"github.com/rollcall-io/rollcall/internal/trace"
)

// Viewer is a viewer's process, and a record of everything it was shown.
type Viewer struct {
	*Process
	*viewer.Client

	t     testing.TB
	start time.Time
	mu    sync.Mutex
	rows  []trace.Row
}

// StartViewer starts a viewer and waits until its targets are watched.
func (f *Fabric) StartViewer(id string, targets ...string) *Viewer {
	f.T.Helper()
	v := &Viewer{Process: f.connect(), t: f.T, start: f.start}
	client, err := viewer.New(v.nc, viewer.Config{Viewer: id, Outage: f.Params.Outage})
	if err != nil {
		f.T.Fatal(err)
	}
	v.Client = client
	f.process(client.Run, v.Process)
	f.watch(v, client, targets...)
	return v
}

// watch records what a client is shown.
func (f *Fabric) watch(v *Viewer, client *viewer.Client, targets ...string) {
	f.T.Helper()
	f.devices.Go(func() { v.record(client) })
	if err := client.Watch(f.ctx, targets...); err != nil {
		f.T.Fatal(err)
	}
}

func (v *Viewer) record(client *viewer.Client) {
	for c := range client.Changes() {
		v.mu.Lock()
		v.rows = append(v.rows, trace.Row{At: c.At.Sub(v.start), User: c.Target, Status: c.View.Status, Version: c.View.Version})
		v.mu.Unlock()
	}
}

// Audience is a process with one viewer for each target. What a viewer is told of
// several targets within a window of the fanout comes in one message at its end;
// who watches one target is told at once, to the microsecond.
type Audience struct {
	Viewer
}

// StartAudience starts a viewer for each target, refreshing its interest at the
// given interval, and waits until all are watched.
func (f *Fabric) StartAudience(refresh time.Duration, targets ...string) *Audience {
	f.T.Helper()
	a := &Audience{Viewer{Process: f.connect(), t: f.T, start: f.start}}
	var clients []*viewer.Client
	for _, target := range targets {
		client, err := viewer.New(a.nc, viewer.Config{Viewer: "of-" + target, Outage: f.Params.Outage, Refresh: refresh})
		if err != nil {
			f.T.Fatal(err)
		}
		clients = append(clients, client)
	}
	f.process(func(ctx context.Context) error {
		group, ctx := errgroup.WithContext(ctx)
		for _, client := range clients {
			group.Go(func() error { return client.Run(ctx) })
		}
		return group.Wait()
	}, a.Process)
	for i, client := range clients {
		f.watch(&a.Viewer, client, targets[i])
	}
	return a
}

// Rows is everything that was shown, in order.
func (v *Viewer) Rows() []trace.Row {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.rows)
}

// RowsOf is everything that was shown of one target.
func (v *Viewer) RowsOf(target string) []trace.Row {
	return slices.DeleteFunc(v.Rows(), func(r trace.Row) bool { return r.User != target })
}

// Status is what is shown of a target now; empty if nothing is.
func (v *Viewer) Status(target string) rollcall.Status {
	s, _ := v.State(target)
	return s.View.Status
}

// Want fails unless exactly this was shown, each as "target status@seconds".
func (v *Viewer) Want(want ...string) {
	v.t.Helper()
	var got []string
	for _, r := range v.Rows() {
		got = append(got, fmt.Sprintf("%s %s@%v", r.User, r.Status, r.At.Seconds()))
	}
	if !slices.Equal(got, want) {
		v.t.Errorf("the viewer was shown %q, want %q", got, want)
	}
}

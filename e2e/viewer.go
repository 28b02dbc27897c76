package e2e

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

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
	f.devices.Go(v.record)
	if err := client.Watch(f.ctx, targets...); err != nil {
		f.T.Fatalf("viewer %s: %v", id, err)
	}
	return v
}

func (v *Viewer) record() {
	for c := range v.Changes() {
		v.mu.Lock()
		v.rows = append(v.rows, trace.Row{At: c.Received.Sub(v.start), User: c.Target, Status: c.View.Status, Version: c.View.Version})
		v.mu.Unlock()
	}
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
	got := []string{}
	for _, r := range v.Rows() {
		got = append(got, fmt.Sprintf("%s %s@%v", r.User, r.Status, r.At.Seconds()))
	}
	if !slices.Equal(got, want) {
		v.t.Errorf("the viewer was shown %q, want %q", got, want)
	}
}

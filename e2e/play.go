package e2e

import (
	"context"
	"os"
	"testing"

	"github.com/rollcall-io/rollcall/internal/trace"
)

// ReadTrace reads a connection history.
func ReadTrace(t testing.TB, path string) []trace.Event {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	events, err := trace.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// Play plays a connection history at its own speed. What is connected at its end
// stays until leave is called.
func (f *Fabric) Play(events []trace.Event) (leave func()) {
	f.T.Helper()
	ctx, end := context.WithCancel(f.T.Context())
	player := trace.Player{
		Params: f.Params, Speed: 1, Seed: 1,
		Start: func(_ context.Context, id string) (trace.Gateway, error) {
			g := f.StartEdge(id)
			return trace.Gateway{Node: g.Node, Crash: g.Kill}, nil
		},
	}
	if err := player.Play(ctx, events); err != nil {
		f.T.Fatal(err)
	}
	return func() { end(); player.Wait() }
}

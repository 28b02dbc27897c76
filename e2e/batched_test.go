package e2e_test

import (
	"testing"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/e2e"
	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/internal/lab"
)

// Where buckets are replicated, keepers and fanouts write them in batches. Here the buckets take
// batches too, on one server: more users than a batch holds come, are taken over by another keeper and go,
// and viewers subscribe at the same time.
func TestBatchedBuckets(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		f := e2e.New(t, e2e.Options{Shards: 1, Batched: true})
		first := f.StartKeeper()
		f.StartFanout()
		g := f.StartEdge("g1")
		users := names("u", fabric.MaxBatch+200)
		for _, u := range users {
			f.Connect(g, u, "phone")
		}
		var viewers []*e2e.Viewer
		for _, id := range names("v", 20) {
			viewers = append(viewers, f.StartViewer(id, users...))
		}
		f.At(10 * time.Second)
		all := func(what string, want rollcall.Status) {
			t.Helper()
			for _, v := range viewers {
				for _, u := range users {
					if got := v.Status(u); got != want {
						t.Fatalf("%s: a viewer is shown %s as %q", what, u, got)
					}
				}
			}
			if got := len(f.Bucket(f.Names.ViewsBucket(0))); got != len(users)+1 {
				t.Errorf("%s: %d records of views", what, got)
			}
		}
		all("after they came", rollcall.StatusOnline)

		// The first keeper does not know that it has a successor, and may not write any more.
		first.Link.Freeze()
		second := f.StartKeeper()
		f.At(f.Now() + 10*time.Second)
		if !second.Ready() {
			t.Fatal("the second keeper is not ready")
		}
		g.Kill()
		f.At(f.Now() + f.Params.Bounds().EdgeCrash.Latest + time.Second)
		all("after their edge crashed", rollcall.StatusOffline)
		first.Link.Thaw()
		if err := first.Ended(); err == nil {
			t.Error("the first keeper goes on")
		}
		f.At(f.Now() + time.Minute)
		all("after the first keeper woke", rollcall.StatusOffline)
	})
}

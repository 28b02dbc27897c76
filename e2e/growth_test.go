package e2e_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/e2e"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/subjects"
)

// What the leases of an edge cost the store does not depend on how many connections it holds: as many
// messages, and but for the digits of a number as many bytes, for ten as for ten thousand.
func TestRenewalsCostTheSameForAnyNumberOfConnections(t *testing.T) {
	const renewals = 10
	var first renewalCost
	sizes := []int{10, 1000, 10_000}
	if testing.Short() {
		sizes = sizes[:2]
	}
	for _, n := range sizes {
		p := rollcall.Default()
		p.IdleTimeout = time.Hour
		scenario(t, e2e.Options{Shards: 1, Params: p}, func(t *testing.T, f *stage) {
			g := f.StartEdge("g1")
			for i := range n {
				if _, err := g.Connect(fmt.Sprint("u", i), "phone", active); err != nil {
					t.Fatal(err)
				}
			}
			f.At(10 * time.Minute)
			before, cost := f.keeper.Stats(), f.measureRenewals()
			for f.keeper.Stats().Renewals < before.Renewals+renewals {
				f.At(f.Now() + second)
			}
			after := f.keeper.Stats()
			if renewed := after.RenewedConnections - before.RenewedConnections; renewed != uint64(renewals*n) || after.Mismatches > 0 {
				t.Fatalf("%d connections renewed, %d digests differed", renewed, after.Mismatches)
			}
			got := cost()
			t.Logf("%d connections: %+v", n, got)
			if n == 10 {
				first = got
				if got.leases != renewals || got.views != 0 || got.frames != renewals {
					t.Errorf("%d renewals of one lease took %+v", renewals, got)
				}
				return
			}
			// A count of 10,000 takes one byte more than one of 10, in the record and in the frame.
			if got.leases != first.leases || got.views != 0 || got.frames != first.frames ||
				got.leaseBytes > first.leaseBytes+2*renewals || got.frameBytes > first.frameBytes+2*renewals {
				t.Errorf("%d connections cost %+v, ten %+v", n, got, first)
			}
		})
	}
}

// A renewalCost is what was written; checkpoints, which come by the minute, and ticks do not count.
type renewalCost struct{ leases, leaseBytes, views, frames, frameBytes int64 }

// measureRenewals counts from now on, on one shard and one edge.
func (f *stage) measureRenewals() (cost func() renewalCost) {
	f.T.Helper()
	var leases, leaseBytes, views, frames, frameBytes atomic.Int64
	nc := lab.Connect(f.T, f.Server.NewLink())
	for subject, count := range map[string]nats.MsgHandler{
		subjects.KVSubject(f.Names.LeasesBucket(0), ">"): func(m *nats.Msg) {
			if subjects.KVKey(f.Names.LeasesBucket(0), m.Subject) != subjects.KeyCheckpoint {
				leases.Add(1)
				leaseBytes.Add(int64(m.Size()))
			}
		},
		subjects.KVSubject(f.Names.ViewsBucket(0), ">"): func(*nats.Msg) { views.Add(1) },
		f.Names.Log(0, "g1"):                            func(m *nats.Msg) { frames.Add(1); frameBytes.Add(int64(m.Size())) },
	} {
		if _, err := nc.Subscribe(subject, count); err != nil {
			f.T.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		f.T.Fatal(err)
	}
	return func() renewalCost {
		return renewalCost{leases.Load(), leaseBytes.Load(), views.Load(), frames.Load(), frameBytes.Load()}
	}
}

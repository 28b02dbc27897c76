package e2e_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rollcall-io/rollcall/e2e"
	"github.com/rollcall-io/rollcall/internal/lab"
)

// What the store loses, of each kind of stream, is counted by whoever notices it, and so is the
// repair: ten users come and ten leave, which is acknowledged, and lost.
func TestLossesAreCounted(t *testing.T) {
	for kind, counters := range map[string][]string{
		"log":    {"rollcall_edge_store_lost_total", "rollcall_keeper_log_lost_total"},
		"leases": {"rollcall_keeper_records_lost_total"},
		"views":  {"rollcall_keeper_records_lost_total", "rollcall_fanout_views_lost_total"},
		"all": {"rollcall_edge_store_lost_total", "rollcall_keeper_log_lost_total", "rollcall_keeper_records_lost_total",
			"rollcall_fanout_views_lost_total", "rollcall_keeper_repaired_total"},
	} {
		t.Run(kind, func(t *testing.T) {
			registry := prometheus.NewRegistry()
			scenario(t, e2e.Options{Shards: 1, Registerer: registry}, func(t *testing.T, f *stage) {
				c := &crew{stage: f}
				come, leave := names("comes", 10), names("leaves", 10)
				v := f.StartViewer("vera", append(come, leave...)...)
				g := f.StartEdge("g1")
				leavers := f.connectAll(g, leave)
				f.At(100 * second)
				kinds := []string{kind}
				if kind == "all" {
					kinds = lossKinds
				}
				var snapshots []*lab.Snapshot
				for _, k := range kinds {
					for _, stream := range c.losable()[k] {
						if f.has(stream) {
							snapshots = append(snapshots, f.Server.Snapshot(stream))
						}
					}
				}
				f.connectAll(g, come)
				for _, d := range leavers {
					d.Close()
				}
				f.At(f.Now() + time.Second)
				for _, counter := range counters {
					if n := total(t, registry, counter); n != 0 {
						t.Errorf("%s is %v before anything was lost", counter, n)
					}
				}
				f.Server.Stop()
				for _, s := range snapshots {
					f.Server.Restore(s)
				}
				f.Server.Start()
				f.At(f.Now() + f.Params.LongestRenewal() + f.Params.Debounce + 5*second)
				for _, counter := range counters {
					if n := total(t, registry, counter); n == 0 {
						t.Errorf("%s is 0", counter)
					}
				}
				f.wantTruth(v, "online active", come...)
				f.wantTruth(v, "offline ", leave...)
			})
		})
	}
}

// has says whether there is such a stream: groups of whom nobody has joined have none.
func (f *stage) has(stream string) bool {
	_, err := f.JS.Stream(f.T.Context(), stream)
	return err == nil
}

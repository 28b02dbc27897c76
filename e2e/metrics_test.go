package e2e_test

import (
	"fmt"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/rollcall-io/rollcall/e2e"
	"github.com/rollcall-io/rollcall/edge"
	"github.com/rollcall-io/rollcall/fanout"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// TestEveryEventIsCounted lets one of each event happen and reads from /metrics that this has
// happened, and nothing else.
func TestEveryEventIsCounted(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		m := newMeter(t)
		f := e2e.New(t, e2e.Options{Shards: 1, Registerer: m.registry})
		k := f.StartKeeper()
		f.StartFanoutWith(fanout.Config{InterestTTL: time.Hour})
		vera := f.Overhear("vera")
		everybody := []byte(`{"targets":["ann","bob","cid","dan","eve","fay"]}`)
		edges := map[string]*e2e.Edge{"g1": f.StartEdge("g1"), "g2": f.StartEdge("g2"), "g3": f.StartEdge("g3")}
		devices := make(map[string]*e2e.Device)
		come := func(edge, user string) { devices[user] = f.Connect(edges[edge], user, "phone") }
		say := func(user string, states ...edge.State) {
			for _, s := range states {
				if err := devices[user].SetState(s); err != nil {
					t.Fatal(err)
				}
				f.Wait()
			}
		}
		var stores *lab.Snapshot
		f.At(10 * second)
		m.begin()
		for _, step := range []struct {
			what string
			do   func()
			then time.Duration
			want []string
		}{
			{"vera watches", func() { vera.AskFor(subjects.OpSubscribe, everybody) }, 5 * second, []string{
				"fanout_interests{shard=0} +6", "fanout_requests_total{code=ok,op=subscribe} +1", "fanout_streams{shard=0} +1",
			}},
			{"ann comes, the first in her edge", func() { come("g1", "ann") }, 5 * second, []string{
				"edge_connections{edge=g1} +1", "fanout_delivery_seconds_count +1", "fanout_events_total +1", "keeper_changes_total +1",
				"keeper_connections +1", "keeper_device_flips_total +1", "keeper_leases +1", "keeper_online +1", "keeper_users +1",
			}},
			{"others come", func() {
				for _, c := range []struct{ edge, user string }{{"g1", "bob"}, {"g1", "cid"}, {"g2", "dan"}, {"g3", "eve"}} {
					come(c.edge, c.user)
					f.At(f.Now() + second)
				}
			}, 5 * second, []string{
				"edge_connections{edge=g1} +2", "edge_connections{edge=g2} +1", "edge_connections{edge=g3} +1",
				"fanout_delivery_seconds_count +4", "fanout_events_total +4", "keeper_changes_total +4", "keeper_connections +4",
				"keeper_device_flips_total +4", "keeper_leases +2", "keeper_online +4", "keeper_users +4",
			}},
			{"vera subscribes again", func() { vera.AskFor(subjects.OpSubscribe, everybody) }, 5 * second, []string{
				"fanout_requests_total{code=ok,op=subscribe} +1", "fanout_resyncs_total +1",
			}},
			{"a request that cannot be read", func() { vera.AskFor(subjects.OpGet, []byte("{")) }, 5 * second, []string{
				"fanout_requests_total{code=invalid_request,op=get} +1",
			}},
			{"ann says goodbye", func() { devices["ann"].Close() }, 19 * second, []string{
				"edge_connections{edge=g1} -1", "keeper_connections -1", "keeper_device_flips_total +1",
			}},
			{"and is shown offline", func() {}, 2 * second, []string{
				"fanout_delivery_seconds_count +1", "fanout_events_total +1", "keeper_changes_total +1",
				"keeper_detection_latency_seconds_count{way=close} +1", "keeper_detection_latency_seconds_sum{way=close} +20",
				"keeper_online -1",
			}},
			{"bob falls silent", func() { devices["bob"].Silence() }, 60 * second, []string{
				"edge_suspects{edge=g1} +1",
			}},
			{"and is shown offline", func() {}, 60 * second, []string{
				"edge_connections{edge=g1} -1", "edge_suspects{edge=g1} -1", "edge_timeouts_total{edge=g1} +1",
				"fanout_delivery_seconds_count +1", "fanout_events_total +1", "keeper_changes_total +1", "keeper_connections -1",
				"keeper_detection_latency_seconds_count{way=half_open} +1", "keeper_detection_latency_seconds_sum{way=half_open} +98",
				"keeper_device_flips_total +1", "keeper_online -1",
			}},
			{"dan's edge crashes", func() { edges["g2"].Kill() }, 200 * second, []string{
				"fanout_delivery_seconds_count +1", "fanout_events_total +1", "keeper_changes_total +1", "keeper_connections -1",
				"keeper_detection_latency_seconds_count{way=edge_crash} +1",
				"keeper_detection_latency_seconds_sum{way=edge_crash} +172.701", "keeper_device_flips_total +1",
				"keeper_lease_expiries_total +1", "keeper_leases -1", "keeper_online -1",
			}},
			{"eve's edge is another process", func() { edges["g3"].Kill(); edges["g3"] = f.StartEdge("g3") }, 100 * second, []string{
				"edge_connections{edge=g3} -1", "fanout_delivery_seconds_count +1", "fanout_events_total +1", "keeper_changes_total +1",
				"keeper_connections -1", "keeper_detection_latency_seconds_count{way=edge_restart} +1",
				"keeper_detection_latency_seconds_sum{way=edge_restart} +20", "keeper_device_flips_total +1",
				"keeper_edge_restarts_total +1", "keeper_leases -1", "keeper_online -1",
			}},
			{"a heartbeat comes twice", func() { devices["cid"].Silence(); devices["cid"].Beat(1) }, 1 * second, []string{
				"edge_late_beats_total{edge=g1} +1",
			}},
			{"cid's phone connects elsewhere", func() { come("g3", "cid") }, 5 * second, []string{
				"edge_connections{edge=g1} -1", "edge_connections{edge=g3} +1", "edge_superseded_total{edge=g1} +1", "keeper_leases +1",
			}},
			{"cid looks away", func() { say("cid", edge.State{}) }, 5 * second, []string{
				"fanout_delivery_seconds_count +1", "fanout_events_total +1", "keeper_changes_total +1",
			}},
			{"cid looks, and away, and looks, at once", func() { say("cid", active, edge.State{}, active) }, 5 * second, []string{
				"fanout_coalesced_total +1", "fanout_delivery_seconds_count +1", "fanout_events_total +1", "keeper_changes_total +3",
			}},
			{"ann comes where nobody hears of it", func() { edges["g1"].Link.Cut(); f.Wait(); come("g1", "ann") }, 5 * second, []string{
				"edge_connections{edge=g1} +1", "edge_pending_changes{edge=g1} +1",
			}},
			{"and comes elsewhere", func() { come("g3", "ann") }, 5 * second, []string{
				"edge_connections{edge=g3} +1", "fanout_delivery_seconds_count +1", "fanout_events_total +1", "keeper_changes_total +1",
				"keeper_connections +1", "keeper_device_flips_total +1", "keeper_online +1",
			}},
			{"which the first edge hears of, and the keeper of a stale open", func() { edges["g1"].Link.Heal() }, 60 * second, []string{
				"edge_connections{edge=g1} -1", "edge_pending_changes{edge=g1} -1", "edge_superseded_total{edge=g1} +1", "keeper_leases -1",
				"keeper_rejected_stale_total +1",
			}},
			{"ann leaves again", func() { devices["ann"].Close() }, 25 * second, []string{
				"edge_connections{edge=g3} -1", "fanout_delivery_seconds_count +1", "fanout_events_total +1", "keeper_changes_total +1", "keeper_connections -1",
				"keeper_detection_latency_seconds_count{way=close} +1", "keeper_detection_latency_seconds_sum{way=close} +20", "keeper_device_flips_total +1", "keeper_online -1",
			}},
			{"cid's edge is cut off for longer than its lease", func() { edges["g3"].Link.Cut() }, 300 * second, []string{
				"fanout_delivery_seconds_count +1", "fanout_events_total +1", "keeper_changes_total +1", "keeper_connections -1",
				"keeper_detection_latency_seconds_count{way=edge_crash} +1", "keeper_detection_latency_seconds_sum{way=edge_crash} +171.346",
				"keeper_device_flips_total +1", "keeper_lease_expiries_total +1", "keeper_leases -1", "keeper_online -1",
			}},
			{"and is back: cid had been there", func() { edges["g3"].Link.Heal() }, 30 * second, []string{
				"edge_resyncs_total{edge=g3} more", "edge_unregistered_total{edge=g3} more", "fanout_delivery_seconds_count +1", "fanout_events_total +1",
				"keeper_changes_total +1", "keeper_connections +1", "keeper_device_flips_total +1", "keeper_false_offlines_total +1",
				"keeper_leases +1", "keeper_online +1", "keeper_repaired_total +1", "keeper_unregistered_total more",
			}},
			{"fay comes", func() { stores = f.Server.Snapshot(f.Names.LogStream(0)); come("g1", "fay") }, 5 * second, []string{
				"edge_connections{edge=g1} +1", "fanout_delivery_seconds_count +1", "fanout_events_total +1", "keeper_changes_total +1",
				"keeper_connections +1", "keeper_device_flips_total +1", "keeper_leases +1", "keeper_online +1", "keeper_users +1",
			}},
			{"which the store loses, and is told again", func() { f.Server.Stop(); f.Server.Restore(stores); f.Server.Start() }, 120 * second, []string{
				"edge_resyncs_total{edge=g1} more", "edge_resyncs_total{edge=g3} +1", "edge_store_lost_total{edge=g1} +1",
				"keeper_log_lost_total +1",
			}},
			{"a frame is lost before the keeper reads it", func() {
				k.Link.Cut()
				come("g1", "bob")
				f.Wait()
				f.LoseLast(f.Names.LogStream(0))
				k.Link.Heal()
			}, 120 * second, []string{
				"edge_connections{edge=g1} +1", "edge_resyncs_total{edge=g1} more", "edge_store_lost_total{edge=g1} +1",
				"fanout_delivery_seconds_count +1", "fanout_events_total +1", "keeper_changes_total +1", "keeper_connections +1",
				"keeper_device_flips_total +1", "keeper_mismatches_total +1", "keeper_online +1", "keeper_repaired_total +1",
			}},
			{"fay leaves while the keeper is cut off", func() {
				k.Link.Cut()
				devices["fay"].Close()
				f.At(f.Now() + 60*second)
				k.Link.Heal()
			}, 60 * second, []string{
				"edge_connections{edge=g1} -1", "fanout_delivery_seconds_count +1", "fanout_events_total +1",
				"fanout_stalls_total{reason=keeper_silent} +1", "keeper_changes_total +1", "keeper_connections -1",
				"keeper_detection_late_total{way=close} +1", "keeper_detection_latency_seconds_count{way=close} +1",
				"keeper_detection_latency_seconds_sum{way=close} more", "keeper_device_flips_total +1", "keeper_gaps_total more",
				"keeper_online -1", "keeper_store_refusals_total more",
			}},
			{"nonsense in the log", func() { f.Publish(f.Names.Log(0, "g9"), []byte("nonsense")) }, 5 * second, []string{
				"keeper_malformed_total +1",
			}},
			{"a closing connection that was never opened", func() { f.Publish(f.Names.Log(0, "g9"), frameOfNobody(t)) }, 5 * second, []string{
				"keeper_unregistered_total +1",
			}},
			{"the keeper is killed", func() { k.Kill() }, 30 * second, []string{
				"fanout_shard_live{shard=0} -1", "fanout_stalls_total{reason=keeper_silent} +1", "keeper_connections -2",
				"keeper_leases -2", "keeper_online -2", "keeper_users -6",
			}},
		} {
			step.do()
			f.At(f.Now() + step.then)
			m.want(step.what, step.want...)
		}
	})
}

// frameOfNobody is of an edge that has no lease.
func frameOfNobody(t *testing.T) []byte {
	t.Helper()
	b, err := subjects.EncodeFrame(&wire.Frame{Version: subjects.WireVersion, Incarnation: 1, Number: 1, Entries: []*wire.Entry{
		{Kind: wire.Kind_KIND_RENEW},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A meter reads /metrics.
type meter struct {
	t        *testing.T
	registry *prometheus.Registry
	before   map[string]float64
}

func newMeter(t *testing.T) *meter {
	return &meter{t: t, registry: prometheus.NewPedanticRegistry()}
}

func (m *meter) begin() { m.before = m.read() }

// want fails unless exactly this has changed since the last call, each as "metric{labels} +difference",
// or as "metric{labels} more" where races decide how often the same was said.
// What only says that time has passed is left out.
func (m *meter) want(what string, want ...string) {
	m.t.Helper()
	now := m.read()
	var got []string
	for _, name := range slices.Sorted(maps.Keys(now)) {
		d := now[name] - m.before[name]
		switch some := name + " more"; {
		case d > 0 && slices.Contains(want, some):
			got = append(got, some)
		case d != 0:
			got = append(got, fmt.Sprintf("%s %+.6g", name, d))
		}
	}
	m.before = now
	if !slices.Equal(got, want) {
		m.t.Errorf("%s:\n  %s\nwant\n  %s", what, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// passing are metrics that change while nothing happens.
var passing = []string{
	"rollcall_keeper_ticks_total", "rollcall_keeper_frames_total", "rollcall_keeper_entries_total",
	"rollcall_keeper_renewals_total", "rollcall_keeper_renewed_connections_total",
	"rollcall_keeper_shard_applied_timestamp_seconds", "rollcall_fanout_shard_pulse_age_seconds",
	"rollcall_edge_frames_total", "rollcall_edge_entries_total", "rollcall_edge_renewals_total",
	"rollcall_edge_beats_total", "rollcall_edge_frame_bytes_total", "rollcall_edge_history_bytes_total",
	"rollcall_fanout_messages_total", // positions are repeated
}

func (m *meter) read() map[string]float64 {
	m.t.Helper()
	page := httptest.NewRecorder()
	promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}).ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(page.Body)
	if err != nil {
		m.t.Fatal(err)
	}
	values := make(map[string]float64)
	for name, family := range families {
		if slices.Contains(passing, name) {
			continue
		}
		name = strings.TrimPrefix(name, "rollcall_")
		for _, one := range family.Metric {
			var labels []string
			for _, l := range one.Label {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			suffix := ""
			if len(labels) > 0 {
				suffix = "{" + strings.Join(labels, ",") + "}"
			}
			if family.GetType() == dto.MetricType_HISTOGRAM {
				values[name+"_count"+suffix] = float64(one.Histogram.GetSampleCount())
				values[name+"_sum"+suffix] = one.Histogram.GetSampleSum()
				continue
			}
			values[name+suffix] = one.GetCounter().GetValue() + one.GetGauge().GetValue()
		}
	}
	return values
}

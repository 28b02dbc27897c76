package main

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// A digest is what the summary of a part says: metrics, each summed over its labels and
// called by its name without what all of them begin with.
type digest struct {
	part    string
	prefix  string
	metrics []string
}

// digests of parts, by their names.
var digests = map[string]digest{
	"keeper": {"keeper", "rollcall_keeper_", []string{
		"online", "users", "connections", "leases", "changes_total", "device_flips_total", "lease_expiries_total",
		"rejected_stale_total", "false_offlines_total", "mismatches_total", "repaired_total", "log_lost_total",
	}},
	"fanout": {"fanout", "rollcall_fanout_", []string{
		"streams", "interests", "requests_total", "messages_total", "events_total", "coalesced_total", "resyncs_total",
		"stalls_total", "publish_failures_total", "peers",
	}},
	"ledger": {"ledger", "rollcall_ledger_", []string{
		"online_users", "active_users", "open_sessions", "sessions_total", "rejected_total", "behind_messages", "store_failures_total",
	}},
	"gateway":  {"gateway", "rollcall_gateway_", []string{"sockets", "sessions", "requests_total", "socket_closes_total"}},
	"natsgate": {"natsgate", "rollcall_natsgate_", []string{"sessions", "requests_total", "relayed_total", "deaf_total"}},
	"archive":  {"archive", "rollcall_archive_", []string{"events_total", "rejected_total", "merged_files_total", "behind_messages"}},
}

// summarise logs a line with the figures of each part from time to time, until ctx ends.
func summarise(ctx context.Context, log *slog.Logger, every time.Duration, from prometheus.Gatherer, parts ...digest) {
	if every <= 0 {
		return
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			for _, d := range parts {
				figures, err := d.read(from)
				if err != nil {
					log.Warn("summary", "part", d.part, "err", err)
					continue
				}
				log.Info("summary", figures...)
			}
		}
	}
}

func (d digest) read(from prometheus.Gatherer) ([]any, error) {
	families, err := from.Gather()
	if err != nil {
		return nil, err
	}
	sums := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			sums[f.GetName()] += valueOf(m)
		}
	}
	figures := []any{"part", d.part}
	for _, name := range d.metrics {
		figures = append(figures, strings.TrimSuffix(name, "_total"), int64(sums[d.prefix+name]))
	}
	return figures, nil
}

// valueOf is the value of a counter or gauge.
func valueOf(m *dto.Metric) float64 { return m.GetCounter().GetValue() + m.GetGauge().GetValue() }

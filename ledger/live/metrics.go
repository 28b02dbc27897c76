package live

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rollcall-io/rollcall/ledger/store"
)

const namespace = "rollcall_ledger_"

// metrics are counted as things happen; see also [collector].
type metrics struct {
	sessions *prometheus.CounterVec
	rejected *prometheus.CounterVec
	failures *prometheus.CounterVec
	rebuilds *prometheus.CounterVec
	missed   *prometheus.CounterVec
	overtook *prometheus.CounterVec
	standby  *prometheus.GaugeVec
	storedAt *prometheus.GaugeVec
	stores   prometheus.Histogram
}

func newMetrics() *metrics {
	counter := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: namespace + name, Help: help}, []string{label})
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: namespace + name, Help: help}, []string{"shard"})
	}
	return &metrics{
		sessions: counter("sessions_total", "Rows of sessions that were new or corrected.", "shard"),
		rejected: counter("rejected_total", "Events and sessions that went to quarantine, by rule; those that go again are counted again.", "rule"),
		failures: counter("store_failures_total", "Transactions that failed and were tried again.", "shard"),
		rebuilds: counter("rebuilds_total", "Times that the streams were read from their start again.", "shard"),
		missed:   counter("missed_messages_total", "Messages that had expired before they were read.", "shard"),
		overtook: counter("overtaken_total", "Times that another ledger was found to follow the shard.", "shard"),
		standby:  gauge("standby", "1 while another ledger follows the shard and this one waits."),
		storedAt: gauge("stored_timestamp_seconds", "When the last transaction ended, by the clock of this process."),
		stores: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: namespace + "store_seconds", Help: "From a transaction's beginning, checkpoint included, until it was stored, failed attempts included.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 16),
		}),
	}
}

func (l *Ledger) register(r prometheus.Registerer) error {
	m := l.metrics
	for _, c := range []prometheus.Collector{
		m.sessions, m.rejected, m.failures, m.rebuilds, m.missed, m.overtook, m.standby, m.storedAt, m.stores, collector{l},
	} {
		if err := r.Register(c); err != nil {
			return err
		}
	}
	return nil
}

// count takes a batch that was stored.
func (m *metrics) count(shard string, b store.Batch, done store.Applied) {
	m.sessions.WithLabelValues(shard).Add(float64(done.Sessions))
	for _, r := range b.Rejected {
		m.rejected.WithLabelValues(r.Rule).Inc()
	}
}

// A collector asks for the figures when it is asked.
type collector struct{ ledger *Ledger }

func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{behindDesc, readDesc, openDesc, onlineDesc, activeDesc, todayUsersDesc, todaySecondsDesc} {
		ch <- d
	}
}

var (
	behindDesc       = desc("behind_messages", "Messages in the streams that were not read yet.")
	readDesc         = desc("read_timestamp_seconds", "How far the streams were read, in store time.")
	openDesc         = desc("open_sessions", "Sessions that are open or may still go on.")
	onlineDesc       = desc("online_users", "Users who have a connection.")
	activeDesc       = desc("active_users", "Users who were active in the last five minutes.")
	todayUsersDesc   = desc("today_users", "Users who have any time of a measure on the local day so far.", "zone", "measure")
	todaySecondsDesc = desc("today_seconds", "Their time together.", "zone", "measure")
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(namespace+name, help, labels, nil)
}

func (c collector) Collect(ch chan<- prometheus.Metric) {
	stats, sum := c.ledger.ask(context.Background())
	if len(stats.Shards) == 0 {
		return // standing by, or nothing read yet
	}
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	gauge(behindDesc, float64(sum.behind))
	gauge(readDesc, float64(stats.AsOf.UnixMilli())/1000)
	gauge(openDesc, float64(sum.sessions))
	gauge(onlineDesc, float64(stats.Online))
	gauge(activeDesc, float64(stats.Active))
	for _, t := range stats.Today {
		for measure, count := range t.Measures {
			gauge(todayUsersDesc, float64(count.Users), t.Zone, measure)
			gauge(todaySecondsDesc, float64(count.Seconds)/1000, t.Zone, measure)
		}
	}
}

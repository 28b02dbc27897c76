package keeper

import (
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/keeper/machine"
)

// ways are those of leaving that have a bound, and repairs, which have none.
var ways = []rollcall.Way{rollcall.WayClose, rollcall.WayHalfOpen, rollcall.WayEdgeCrash, rollcall.WayEdgeRestart, rollcall.WayRepaired}

// newLatency measures, per way of leaving, the time from when its bound counts
// until offline was published.
func newLatency() *prometheus.HistogramVec {
	latency := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "rollcall_keeper_detection_latency_seconds", Help: "From leaving until offline was published, by way of leaving.",
		Buckets: []float64{1, 5, 10, 15, 19, 20, 20.5, 25, 40, 60, 80, 95, 100, 120, 150, 170, 175, 180, 240, 300, 600},
	}, []string{"way"})
	for _, way := range ways {
		latency.WithLabelValues(way.String()) // a first one would otherwise be no increase
	}
	return latency
}

// newBounds shows the bound beside the latency that is held against it.
func newBounds() *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "rollcall_keeper_detection_bound_seconds", Help: "Latest time from leaving until offline is published, by way of leaving, while server and keeper run.",
	}, []string{"way"})
}

// allowance is what appending a tick and writing the records may take beyond a bound.
const allowance = time.Second

// newLate counts what should be zero, whatever the timing of the fabric.
func newLate() *prometheus.CounterVec {
	late := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rollcall_keeper_detection_late_total", Help: "Users who were shown offline more than a second later than the bound of their way of leaving: server or keeper did not run all the time.",
	}, []string{"way"})
	for _, way := range ways {
		late.WithLabelValues(way.String())
	}
	return late
}

// detected takes a departure into account.
func (k *Keeper) detected(d machine.Departure, bounds rollcall.Bounds) {
	k.latency.WithLabelValues(d.Way.String()).Observe(d.Latency.Seconds())
	window, ok := bounds.Of(d.Way)
	if !ok {
		return
	}
	k.tallies.add(d.Way, d.Latency, window)
	if d.Latency > window.Latest+allowance {
		k.late.WithLabelValues(d.Way.String()).Inc()
	}
}

func (k *Keeper) showBounds(p rollcall.Params) {
	for _, way := range ways {
		if window, ok := p.Bounds().Of(way); ok {
			k.bounds.WithLabelValues(way.String()).Set(window.Latest.Seconds())
		}
	}
}

// The shards that this keeper owns. Each is owned once in the whole fabric; none at all, or two for
// longer than a takeover, is a fault.
var (
	fabricDesc     = prometheus.NewDesc("rollcall_keeper_fabric_shards", "Shards of the fabric, whoever owns them.", nil, nil)
	generationDesc = prometheus.NewDesc("rollcall_keeper_shard_generation", "Generation in which this keeper owns the shard.", []string{"shard"}, nil)
	readyDesc      = prometheus.NewDesc("rollcall_keeper_shard_ready", "1 if the log of the shard is read up to the present, 0 while it is read.", []string{"shard"}, nil)
	appliedDesc    = prometheus.NewDesc("rollcall_keeper_shard_applied_timestamp_seconds", "Store time of the last message of the log that is applied and whose effects are written; ticks come once a sweep.", []string{"shard"}, nil)
	behindDesc     = prometheus.NewDesc("rollcall_keeper_shard_behind_messages", "Messages of the log that were stored and not read yet, when the last ones were read.", []string{"shard"}, nil)
)

// refusedDesc is of trouble with the store as a whole.
var refusedDesc = prometheus.NewDesc("rollcall_keeper_store_refusals_total", "Ticks that the store did not take, and records that it had no room for; all are tried again.", nil, nil)

// collector shows a keeper's [machine.Stats]: counters as they are, sizes as
// gauges, each under its name in snake case.
type collector struct{ keeper *Keeper }

func (c collector) Describe(ch chan<- *prometheus.Desc) {
	ch <- fabricDesc
	ch <- generationDesc
	ch <- readyDesc
	ch <- appliedDesc
	ch <- behindDesc
	ch <- refusedDesc
	prometheus.DescribeByCollect(c, ch)
}

func (c collector) Collect(ch chan<- prometheus.Metric) {
	c.collectShards(ch)
	ch <- prometheus.MustNewConstMetric(refusedDesc, prometheus.CounterValue, float64(c.keeper.refused.Load()))
	stats := reflect.ValueOf(c.keeper.Stats())
	for i := range stats.NumField() {
		field := stats.Type().Field(i)
		name, help := "rollcall_keeper_"+snake(field.Name), field.Tag.Get("help")
		if f := stats.Field(i); f.Kind() == reflect.Uint64 {
			ch <- metric(name+"_total", help, prometheus.CounterValue, float64(f.Uint()))
		} else {
			ch <- metric(name, help, prometheus.GaugeValue, float64(f.Int()))
		}
	}
}

func (c collector) collectShards(ch chan<- prometheus.Metric) {
	c.keeper.mu.Lock()
	defer c.keeper.mu.Unlock()
	if c.keeper.total > 0 {
		ch <- prometheus.MustNewConstMetric(fabricDesc, prometheus.GaugeValue, float64(c.keeper.total))
	}
	for number, s := range c.keeper.shards {
		label, ready := strconv.Itoa(number), 0.0
		if s.caughtUp.Load() {
			ready = 1
		}
		ch <- prometheus.MustNewConstMetric(generationDesc, prometheus.GaugeValue, float64(s.grant.Generation), label)
		ch <- prometheus.MustNewConstMetric(readyDesc, prometheus.GaugeValue, ready, label)
		if at := s.written.Load(); at != 0 {
			ch <- prometheus.MustNewConstMetric(appliedDesc, prometheus.GaugeValue, float64(at)/1e9, label)
			ch <- prometheus.MustNewConstMetric(behindDesc, prometheus.GaugeValue, float64(s.behind.Load()), label)
		}
	}
}

func metric(name, help string, kind prometheus.ValueType, value float64) prometheus.Metric {
	return prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, nil, nil), kind, value)
}

func snake(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

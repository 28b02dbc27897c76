package keeper

import (
	"reflect"
	"strconv"
	"strings"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rollcall-io/rollcall"
)

// newLatency measures, per way of leaving, the time from when its bound counts
// until offline was published.
func newLatency() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "rollcall_keeper_detection_latency_seconds", Help: "From leaving until offline was published, by way of leaving.",
		Buckets: []float64{1, 5, 10, 15, 19, 20, 20.5, 25, 40, 60, 80, 95, 100, 120, 150, 170, 175, 180, 240, 300, 600},
	}, []string{"way"})
}

// newBounds shows the bound beside the latency that is held against it.
func newBounds() *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "rollcall_keeper_detection_bound_seconds", Help: "Latest time from leaving until offline is published, by way of leaving, while server and keeper run.",
	}, []string{"way"})
}

func (k *Keeper) showBounds(p rollcall.Params) {
	for _, way := range []rollcall.Way{rollcall.WayClose, rollcall.WayHalfOpen, rollcall.WayEdgeCrash, rollcall.WayEdgeRestart} {
		if window, ok := p.Bounds().Of(way); ok {
			k.bounds.WithLabelValues(way.String()).Set(window.Latest.Seconds())
		}
	}
}

// The shards that this keeper owns. Each is owned once in the whole fabric; none at all, or two for
// longer than a takeover, is a fault.
var (
	generationDesc = prometheus.NewDesc("rollcall_keeper_shard_generation", "Generation in which this keeper owns the shard.", []string{"shard"}, nil)
	readyDesc      = prometheus.NewDesc("rollcall_keeper_shard_ready", "1 if the log of the shard is read up to the present, 0 while it is read.", []string{"shard"}, nil)
)

// collector shows a keeper's [machine.Stats]: counters as they are, sizes as
// gauges, each under its name in snake case.
type collector struct{ keeper *Keeper }

func (c collector) Describe(ch chan<- *prometheus.Desc) {
	ch <- generationDesc
	ch <- readyDesc
	prometheus.DescribeByCollect(c, ch)
}

func (c collector) Collect(ch chan<- prometheus.Metric) {
	c.collectShards(ch)
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
	for number, s := range c.keeper.shards {
		label, ready := strconv.Itoa(number), 0.0
		if s.caughtUp.Load() {
			ready = 1
		}
		ch <- prometheus.MustNewConstMetric(generationDesc, prometheus.GaugeValue, float64(s.grant.Generation), label)
		ch <- prometheus.MustNewConstMetric(readyDesc, prometheus.GaugeValue, ready, label)
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

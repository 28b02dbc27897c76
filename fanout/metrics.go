package fanout

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
)

// codeOK is the code label of requests that were answered.
const codeOK subjects.Code = "ok"

type metrics struct {
	events     prometheus.Counter // changes told
	messages   prometheus.Counter
	coalesced  prometheus.Counter
	malformed  prometheus.Counter
	failed     prometheus.Counter
	lost       prometheus.Counter
	resyncs    prometheus.Counter
	unanswered prometheus.Counter
	requests   *prometheus.CounterVec
	stalls     *prometheus.CounterVec
	streams    *prometheus.GaugeVec
	interests  *prometheus.GaugeVec
	generation *prometheus.GaugeVec
	peers      prometheus.Gauge
	calls      *prometheus.CounterVec
	latency    *latencies
}

func newMetrics(r prometheus.Registerer, shards func() []*shard) (*metrics, error) {
	const space, system = "rollcall", "fanout"
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: space, Subsystem: system, Name: name, Help: help})
	}
	vector := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: space, Subsystem: system, Name: name, Help: help}, labels)
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: space, Subsystem: system, Name: name, Help: help}, []string{"shard"})
	}
	m := &metrics{
		events:     counter("events_total", "Changes told to viewers."),
		messages:   counter("messages_total", "Messages published to viewers."),
		coalesced:  counter("coalesced_total", "Changes that were merged into one not yet told."),
		malformed:  counter("malformed_total", "Records, pulses and words of peers that could not be read."),
		failed:     counter("publish_failures_total", "Messages that the connection refused; viewers see a gap."),
		lost:       counter("views_lost_total", "Times the store had lost views or policies that were read, after which all were read again."),
		resyncs:    counter("resyncs_total", "Subscribe requests for targets that were all subscribed to already."),
		unanswered: counter("sights_unanswered_total", "Questions to the application that decides who may know what which it did not answer."),
		requests:   vector("requests_total", "Requests by operation and result.", "op", "code"),
		stalls:     vector("stalls_total", "Stalls of a shard's feed by reason.", "reason"),
		streams:    gauge("streams", "Viewers with an interest in the shard, or with one that ended just now."),
		interests:  gauge("interests", "Targets that are watched, summed over viewers."),
		generation: gauge("shard_generation", "Generation in which this fanout answers for the shard; each shard is answered for once in the whole fabric."),
		peers: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: space, Subsystem: system, Name: "peers", Help: "Other fanouts of the fabric that this one knows of.",
		}),
		calls: vector("peer_calls_total", "Requests, and parts of them, that other fanouts were asked to do, by result.", "result"),
		latency: newLatencies(prometheus.BuildFQName(space, system, "delivery_seconds"),
			"From the keeper's observation of a change to its publication.",
			5*time.Millisecond, 10*time.Millisecond, 25*time.Millisecond, 50*time.Millisecond, 100*time.Millisecond, 250*time.Millisecond,
			500*time.Millisecond, time.Second, 2500*time.Millisecond, 5*time.Second, 10*time.Second, 30*time.Second),
	}
	for _, reason := range []string{ReasonKeeperSilent, ReasonFeedBehind} {
		m.stalls.WithLabelValues(reason) // a first one would otherwise be no increase
	}
	if r == nil {
		return m, nil
	}
	var failures []error
	for _, c := range []prometheus.Collector{
		m.events, m.messages, m.coalesced, m.malformed, m.failed, m.lost, m.resyncs, m.unanswered, m.requests, m.stalls, m.streams, m.interests, m.generation, m.peers, m.calls, m.latency, feeds{shards},
	} {
		failures = append(failures, r.Register(c))
	}
	return m, errors.Join(failures...)
}

// answers says that a shard is answered for here, or no more.
func (m *metrics) answers(sh *shard, yes bool) {
	if yes {
		m.generation.WithLabelValues(sh.label).Set(float64(sh.grant.Generation))
		return
	}
	for _, gauge := range []*prometheus.GaugeVec{m.generation, m.streams, m.interests} {
		gauge.DeleteLabelValues(sh.label)
	}
}

// feeds shows how far the views of the shards are behind the keeper.
type feeds struct{ shards func() []*shard }

var (
	liveDesc   = prometheus.NewDesc("rollcall_fanout_shard_live", "1 while viewers are shown the shard's users, 0 while they see unknown.", []string{"shard"}, nil)
	pulseDesc  = prometheus.NewDesc("rollcall_fanout_shard_pulse_age_seconds", "Time since the keeper of the shard gave a sign of life.", []string{"shard"}, nil)
	behindDesc = prometheus.NewDesc("rollcall_fanout_shard_behind_seconds", "For how long what the keeper announced has not been read; 0 if all of it is.", []string{"shard"}, nil)
)

// Describe implements [prometheus.Collector].
func (feeds) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{liveDesc, pulseDesc, behindDesc} {
		to <- d
	}
}

// Collect implements [prometheus.Collector].
func (f feeds) Collect(to chan<- prometheus.Metric) {
	for _, sh := range f.shards() {
		sh.look(func(b *board, now time.Time) {
			live, behind := 0.0, time.Duration(0)
			if state, _ := b.health.state(now); state == subjects.FeedLive {
				live = 1
			}
			if len(b.health.ahead) > 0 {
				behind = now.Sub(b.health.ahead[0].at)
			}
			gauge := func(d *prometheus.Desc, value float64) {
				to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, sh.label)
			}
			gauge(liveDesc, live)
			gauge(pulseDesc, now.Sub(b.health.pulsed).Seconds())
			gauge(behindDesc, behind.Seconds())
		})
	}
}

// published counts a message that went out.
func (m *metrics) published(sent message, now time.Time) {
	m.messages.Inc()
	m.events.Add(float64(sent.told))
	m.latency.observe(rollcall.MicrosOf(now), sent.observed)
}

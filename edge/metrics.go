package edge

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Stats is what a node has done and holds.
type Stats struct {
	Connections int64 // held now
	Suspects    int64 // of these, silent for more than a heartbeat interval
	Pending     int64 // changes that the log does not have yet, the frame in flight apart

	Beats        uint64 // heartbeats taken into the raw history
	LateBeats    uint64 // refused: sequence not above the last
	BeatsDropped uint64 // missing in the raw history: too many, or the store away for too long
	Timeouts     uint64 // connections that fell silent
	Sooner       uint64 // of these, found by the detector before the idle timeout
	Superseded   uint64 // connections that made way for a newer one
	PairsDropped uint64 // connections that came and went while the store was away
	Frames       uint64 // stored
	FrameBytes   uint64 // of frames stored
	HistoryBytes uint64 // of messages of heartbeats stored
	Entries      uint64 // emitted
	Renewals     uint64 // emitted
	Resyncs      uint64 // rosters begun
	Unregistered uint64 // times a keeper said that the lease was lost
	StoreLost    uint64 // times the log had lost what it had acknowledged
	Malformed    uint64 // control messages that could not be read
	Refusals     uint64 // times the store did not take or answer something; it is tried again
}

// counters are what Stats is read from.
type counters struct {
	connections, suspects atomic.Int64

	beats, lateBeats                   atomic.Uint64
	timeouts, superseded, pairsDropped atomic.Uint64
	frames, entries, renewals, resyncs atomic.Uint64
	frameBytes, historyBytes           atomic.Uint64
	unregistered, storeLost, malformed atomic.Uint64
	soonerTimeouts                     atomic.Uint64
}

// Stats may be called at any time.
func (n *Node) Stats() Stats {
	c := &n.stats
	pending, dropped := n.sums()
	return Stats{
		Connections: c.connections.Load(), Suspects: c.suspects.Load(), Pending: pending,
		Beats: c.beats.Load(), LateBeats: c.lateBeats.Load(), BeatsDropped: dropped,
		Timeouts: c.timeouts.Load(), Sooner: c.soonerTimeouts.Load(), Superseded: c.superseded.Load(), PairsDropped: c.pairsDropped.Load(),
		Frames: c.frames.Load(), FrameBytes: c.frameBytes.Load(), HistoryBytes: c.historyBytes.Load(), Entries: c.entries.Load(), Renewals: c.renewals.Load(), Resyncs: c.resyncs.Load(),
		Unregistered: c.unregistered.Load(), StoreLost: c.storeLost.Load(), Malformed: c.malformed.Load(),
		Refusals: n.link.refused.Load(),
	}
}

// sums of what is counted by shard.
func (n *Node) sums() (pending int64, beatsDropped uint64) {
	for _, p := range n.running() {
		p.mu.Lock()
		pending += int64(p.backlog.len())
		p.mu.Unlock()
		beatsDropped += p.beatsDropped.Load()
	}
	return pending, beatsDropped
}

// metric is one value of Stats as Prometheus sees it.
type metric struct {
	name, help string
	kind       prometheus.ValueType
	value      func(Stats) float64
}

func metrics() []metric {
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	return []metric{
		{"connections", "Connections held now.", gauge, func(s Stats) float64 { return float64(s.Connections) }},
		{"suspects", "Connections silent for more than a heartbeat interval.", gauge, func(s Stats) float64 { return float64(s.Suspects) }},
		{"pending_changes", "Changes that the log does not have yet.", gauge, func(s Stats) float64 { return float64(s.Pending) }},
		{"beats_total", "Heartbeats taken into the raw history.", counter, func(s Stats) float64 { return float64(s.Beats) }},
		{"late_beats_total", "Heartbeats refused as late or duplicate.", counter, func(s Stats) float64 { return float64(s.LateBeats) }},
		{"beats_dropped_total", "Heartbeats missing in the raw history.", counter, func(s Stats) float64 { return float64(s.BeatsDropped) }},
		{"timeouts_total", "Connections that fell silent.", counter, func(s Stats) float64 { return float64(s.Timeouts) }},
		{"sooner_timeouts_total", "Connections that fell silent and were found by the detector before the idle timeout.", counter, func(s Stats) float64 { return float64(s.Sooner) }},
		{"superseded_total", "Connections that made way for a newer one.", counter, func(s Stats) float64 { return float64(s.Superseded) }},
		{"pairs_dropped_total", "Connections that came and went while the store was away.", counter, func(s Stats) float64 { return float64(s.PairsDropped) }},
		{"frames_total", "Frames stored.", counter, func(s Stats) float64 { return float64(s.Frames) }},
		{"frame_bytes_total", "Bytes of frames stored: what came, went and changed, and renewals.", counter, func(s Stats) float64 { return float64(s.FrameBytes) }},
		{"history_bytes_total", "Bytes of the raw history of heartbeats stored; beside frame_bytes_total, the heartbeats' share of what an edge sends.", counter, func(s Stats) float64 { return float64(s.HistoryBytes) }},
		{"entries_total", "Entries emitted.", counter, func(s Stats) float64 { return float64(s.Entries) }},
		{"renewals_total", "Lease renewals emitted.", counter, func(s Stats) float64 { return float64(s.Renewals) }},
		{"resyncs_total", "Rosters begun.", counter, func(s Stats) float64 { return float64(s.Resyncs) }},
		{"unregistered_total", "Times a keeper said that the lease was lost.", counter, func(s Stats) float64 { return float64(s.Unregistered) }},
		{"store_lost_total", "Times the log had lost what it had acknowledged.", counter, func(s Stats) float64 { return float64(s.StoreLost) }},
		{"store_refusals_total", "Times the store did not take or answer something; it is tried again.", counter, func(s Stats) float64 { return float64(s.Refusals) }},
		{"malformed_control_total", "Control messages that could not be read.", counter, func(s Stats) float64 { return float64(s.Malformed) }},
	}
}

// collector reads all metrics of a node from one Stats.
type collector struct {
	node    *Node
	metrics []metric
	descs   []*prometheus.Desc
}

func newCollector(n *Node) *collector {
	c := &collector{node: n, metrics: metrics()}
	for _, m := range c.metrics {
		name := prometheus.BuildFQName("rollcall", "edge", m.name)
		c.descs = append(c.descs, prometheus.NewDesc(name, m.help, nil, prometheus.Labels{"edge": n.config.ID}))
	}
	return c
}

func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		to <- d
	}
}

func (c *collector) Collect(to chan<- prometheus.Metric) {
	s := c.node.Stats()
	for i, m := range c.metrics {
		to <- prometheus.MustNewConstMetric(c.descs[i], m.kind, m.value(s))
	}
}

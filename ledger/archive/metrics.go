package archive

import (
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Stats is what an archiver has done since it was started.
type Stats struct {
	Events   int64 // that count
	Rejected int64 // messages, or heartbeats of a connection, that cannot be read
	Merged   int64 // files
}

// Stats may be called at any time.
func (a *Archiver) Stats() Stats {
	return Stats{Events: a.counts.events.Load(), Rejected: a.counts.rejected.Load(), Merged: a.counts.merged.Load()}
}

type counts struct {
	events, rejected, merged atomic.Int64
	through                  *prometheus.GaugeVec
	behind                   *prometheus.GaugeVec
}

func newCounts(r prometheus.Registerer) (*counts, error) {
	const space, system = "rollcall", "archive"
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: space, Subsystem: system, Name: name, Help: help}, []string{"shard"})
	}
	c := &counts{
		through: gauge("through_timestamp_seconds", "Everything that was stored before this time is in the archive."),
		behind:  gauge("behind_messages", "Messages that were stored and not read yet."),
	}
	if r == nil {
		return c, nil
	}
	all := []prometheus.Collector{c.through, c.behind}
	for _, counter := range []struct {
		name, help string
		value      *atomic.Int64
	}{
		{"events_total", "Events that are in the archive.", &c.events},
		{"rejected_total", "Messages, or heartbeats of a connection, that cannot be read and are kept apart.", &c.rejected},
		{"merged_files_total", "Files that were merged into larger ones.", &c.merged},
	} {
		all = append(all, prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: space, Subsystem: system, Name: counter.name, Help: counter.help},
			func() float64 { return float64(counter.value.Load()) }))
	}
	for _, one := range all {
		if err := r.Register(one); err != nil {
			return nil, wrap("metrics", err)
		}
	}
	return c, nil
}

func shardLabel(shard int) prometheus.Labels { return prometheus.Labels{"shard": strconv.Itoa(shard)} }

package cohort

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rollcall-io/rollcall/cohort/machine"
)

// metrics of one member. Those of the group are shown by its coordinator only.
type metrics struct {
	registerer prometheus.Registerer // nil for nobody
	collectors []prometheus.Collector

	claims, unregistered prometheus.Counter
	commits              *prometheus.CounterVec // by result
	coordinates          prometheus.Gauge

	members    *prometheus.GaugeVec   // by state
	departures *prometheus.CounterVec // by state and reason
	moves      *prometheus.CounterVec // by reason
	unowned    prometheus.Gauge
	generation prometheus.Gauge
}

func newMetrics(m *Member) (*metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "rollcall_cohort_" + name, Help: help})
	}
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rollcall_cohort_" + name, Help: help}, labels)
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "rollcall_cohort_" + name, Help: help})
	}
	s := &metrics{
		claims:       counter("claims_total", "Partitions that this member has taken over."),
		unregistered: counter("unregistered_total", "Times that the group had given this member up."),
		commits:      counters("commits_total", "Commits of this member, by result: stored, not_owner (fenced), failed.", "result"),
		coordinates:  gauge("coordinates", "1 while this member coordinates the group."),
		members:      prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "rollcall_cohort_members", Help: "Members of the group by state; from its coordinator."}, []string{"state"}),
		departures:   counters("departures_total", "Members that have ended, by state (expired, left) and reason; from the coordinator.", "state", "reason"),
		moves:        counters("moves_total", "Partitions given to an owner, by reason; from the coordinator.", "reason"),
		unowned:      gauge("unowned_partitions", "Partitions that belong to nobody; from the coordinator."),
		generation:   gauge("generation", "Generation of the plan; from the coordinator."),
	}
	held := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "rollcall_cohort_partitions", Help: "Partitions that this member holds."}, func() float64 {
		m.mu.Lock()
		defer m.mu.Unlock()
		return float64(len(m.held))
	})
	s.collectors = []prometheus.Collector{s.claims, s.unregistered, s.commits, s.coordinates, s.members, s.departures, s.moves, s.unowned, s.generation, held}
	if m.cfg.Registerer == nil {
		return s, nil
	}
	s.registerer = prometheus.WrapRegistererWith(prometheus.Labels{"group": m.cfg.Group, "member": m.cfg.ID}, m.cfg.Registerer)
	var failed []error
	for _, c := range s.collectors {
		failed = append(failed, s.registerer.Register(c))
	}
	if err := errors.Join(failed...); err != nil {
		s.unregister()
		return nil, fmt.Errorf("%w: metrics: %w", ErrConfig, err)
	}
	return s, nil
}

func (s *metrics) unregister() {
	if s.registerer == nil {
		return
	}
	for _, c := range s.collectors {
		s.registerer.Unregister(c)
	}
}

// show tells the state of the group.
func (s *metrics) show(v machine.View) {
	count := map[machine.State]int{machine.Joining: 0, machine.Healthy: 0, machine.Suspect: 0, machine.Left: 0}
	for _, m := range v.Members {
		count[m.State]++
	}
	for state, n := range count {
		s.members.WithLabelValues(string(state)).Set(float64(n))
	}
	unowned := 0
	for _, p := range v.Partitions {
		if p.Owner == "" {
			unowned++
		}
	}
	s.unowned.Set(float64(unowned))
	s.generation.Set(float64(v.Generation))
}

func (s *metrics) count(e machine.Event) {
	switch {
	case e.About == machine.AboutPartition && e.To != "":
		s.moves.WithLabelValues(e.Reason).Inc()
	case e.About == machine.AboutMember && (e.State == machine.Expired || e.State == machine.Left && e.Reason != machine.ReasonRestart):
		s.departures.WithLabelValues(string(e.State), e.Reason).Inc()
	}
}

// resign leaves what the group shows to the next coordinator.
func (s *metrics) resign() {
	s.coordinates.Set(0)
	s.members.Reset()
	s.unowned.Set(0)
	s.generation.Set(0)
}

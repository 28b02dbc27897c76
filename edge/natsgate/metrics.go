package natsgate

import (
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rollcall-io/rollcall/edge/door"
	"github.com/rollcall-io/rollcall/subjects"
)

type metrics struct {
	registerer prometheus.Registerer // may be nil

	requests  *prometheus.CounterVec
	relayed   *prometheus.CounterVec
	malformed prometheus.Counter
	deaf      prometheus.Counter
	sessions  prometheus.GaugeFunc
}

func newMetrics(d *door.Door, r prometheus.Registerer) *metrics {
	opts := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Namespace: "rollcall", Subsystem: "natsgate", Name: name, Help: help}
	}
	return &metrics{
		registerer: r,
		requests:   prometheus.NewCounterVec(opts("requests_total", "Requests of devices by operation and outcome, those passed on to other gates apart."), []string{"op", "code"}),
		relayed:    prometheus.NewCounterVec(opts("relayed_total", "Requests passed on to the gate that has the session: answered, gone or unanswered."), []string{"result"}),
		malformed:  prometheus.NewCounter(opts("malformed_total", "Requests that named no inbox for the answer.")),
		deaf:       prometheus.NewCounter(opts("deaf_total", "Checks that found the way to NATS cut; nobody counts as dead meanwhile.")),
		sessions: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "rollcall", Subsystem: "natsgate", Name: "sessions", Help: "Sessions of devices that this gate has.",
		}, func() float64 { return float64(d.Sessions()) }),
	}
}

// register has everything counted until it is taken back.
func (m *metrics) register() (unregister func(), err error) {
	var done []prometheus.Collector
	unregister = func() {
		for _, c := range done {
			m.registerer.Unregister(c)
		}
	}
	if m.registerer == nil {
		return unregister, nil
	}
	for _, c := range []prometheus.Collector{m.requests, m.relayed, m.malformed, m.deaf, m.sessions} {
		if err := m.registerer.Register(c); err != nil {
			unregister()
			return nil, fmt.Errorf("natsgate: registering metrics: %w", err)
		}
		done = append(done, c)
	}
	return unregister, nil
}

// count keeps to the operations that there are, since devices choose what they ask for.
func (m *metrics) count(op subjects.DeviceOp, code string) {
	if !slices.Contains(subjects.DeviceOps[:], op) {
		op = "other"
	}
	m.requests.WithLabelValues(string(op), code).Inc()
}

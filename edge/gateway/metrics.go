package gateway

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rollcall-io/rollcall/subjects"
)

// metrics of a gateway.
type metrics struct {
	requests *prometheus.CounterVec
	closes   *prometheus.CounterVec
}

func newMetrics(g *Gateway, r prometheus.Registerer) (metrics, error) {
	name := func(name string) string { return prometheus.BuildFQName("rollcall", "gateway", name) }
	m := metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: name("requests_total"), Help: "Requests and messages by transport, operation and code of the answer, ok if it is none of a refusal.",
		}, []string{"transport", "op", "code"}),
		closes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: name("socket_closes_total"), Help: "Sockets that have ended: closed by an operation, by the client, superseded, dead, drained, for a policy, malformed, or gone without a word.",
		}, []string{"cause"}),
	}
	if r == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{
		m.requests, m.closes,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name("sockets"), Help: "WebSockets held now."}, func() float64 { return float64(g.Sockets()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name("sessions"), Help: "Sessions held now, over HTTP and WebSocket."},
			func() float64 { return float64(g.door.Sessions()) }),
	} {
		if err := r.Register(c); err != nil {
			return m, err
		}
	}
	return m, nil
}

func (m metrics) count(transport, op string, err error) {
	code := "ok"
	if err != nil {
		code = string(subjects.DeviceErrorOf(err).Code)
	}
	m.requests.WithLabelValues(transport, op, code).Inc()
}

package main

import (
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
)

// connection shows how the connection of a part is.
func (w *watch) connection(part string, nc *nats.Conn) {
	labels := prometheus.Labels{"part": part}
	w.registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "rollcall_nats_connected", Help: "1 while the part is connected to NATS.", ConstLabels: labels,
		}, func() float64 {
			if nc.IsConnected() {
				return 1
			}
			return 0
		}),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "rollcall_nats_reconnects_total", Help: "Times that the part has connected to NATS again.", ConstLabels: labels,
		}, func() float64 { return float64(nc.Stats().Reconnects) }),
	)
}

package edge

import (
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/internal/lab"
)

func TestMetrics(t *testing.T) {
	lab.Bubble(t, func(t *testing.T) {
		w := newWorld(t, 2, steady())
		registry := prometheus.NewPedanticRegistry()
		e := w.start(Config{Registerer: registry})
		other := w.start(Config{ID: "gw-2", Registerer: registry})
		e.connect("alice", "phone").Beat(1)
		other.connect("bob", "phone")
		settle()
		families, err := registry.Gather()
		w.must(err)
		if len(families) != len(metrics()) {
			t.Errorf("%d metrics, want %d", len(families), len(metrics()))
		}
		for _, f := range families {
			if f.GetName() == "rollcall_edge_entries_total" && f.GetMetric()[0].GetCounter().GetValue() != 2 {
				t.Errorf("entries: %v", f)
			}
		}
		e.crash()
		other.crash()
		if families, _ := registry.Gather(); len(families) != 0 {
			t.Error("still registered after Run")
		}
	})
}

func TestConfig(t *testing.T) {
	flapping, patient, fine := steady(), steady(), steady()
	flapping.LeaseTTL = 0
	patient.IdleTimeout = 2 * maxIdle
	for name, c := range map[string]Config{
		"no id":                  {},
		"a prefix with capital":  {ID: "gw", Prefix: "Presence"},
		"negative resolution":    {ID: "gw", ClockResolution: -1},
		"timing that cannot run": {ID: "gw", Params: &flapping},
		"too patient":            {ID: "gw", Params: &patient},
	} {
		if _, err := New(nil, c); !errors.Is(err, ErrConfig) && !errors.Is(err, rollcall.ErrID) {
			t.Errorf("%s: %v", name, err)
		}
	}
	n, err := New(nil, Config{ID: "gw", Params: &fine})
	if err != nil {
		t.Fatal(err)
	}
	fine.Heartbeat = 0
	if n.config.Params.Heartbeat == 0 {
		t.Error("the configuration was not copied")
	}
}

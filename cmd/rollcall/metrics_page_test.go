package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"go.yaml.in/yaml/v3"

	"github.com/rollcall-io/rollcall/e2e"
	"github.com/rollcall-io/rollcall/edge"
	"github.com/rollcall-io/rollcall/edge/door"
	"github.com/rollcall-io/rollcall/edge/gateway"
	"github.com/rollcall-io/rollcall/edge/gateway/bearer"
	"github.com/rollcall-io/rollcall/fanout"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/ledger/archive"
	"github.com/rollcall-io/rollcall/ledger/live"
)

var updateMetrics = flag.Bool("update-metrics", false, "write the tables of docs/metrics.md")

// TestMetricsPage holds docs/metrics.md against what the parts register, in both directions.
func TestMetricsPage(t *testing.T) {
	const page = "../../docs/metrics.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	all := registered(t)
	tables := regexp.MustCompile(`(?s)<!-- metrics (\w+) -->\n(.*?)<!-- end -->`)
	documented := make(map[string]bool)
	updated := tables.ReplaceAllStringFunc(string(text), func(table string) string {
		system := tables.FindStringSubmatch(table)[1]
		documented[system] = true
		var b strings.Builder
		fmt.Fprintf(&b, "<!-- metrics %s -->\n| metric | labels | type | |\n| --- | --- | --- | --- |\n", system)
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if m := all[name]; m.system() == system {
				fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", name, m.labels, m.kind, strings.ReplaceAll(m.help, "|", `\|`))
			}
		}
		return b.String() + "<!-- end -->"
	})
	for name, m := range all {
		if !documented[m.system()] {
			t.Errorf("%s: %s has no table for %s", name, page, m.system())
		}
	}
	switch {
	case *updateMetrics:
		if err := os.WriteFile(page, []byte(updated), 0o644); err != nil {
			t.Fatal(err)
		}
	case updated != string(text):
		t.Errorf("%s is not what the parts register; go test ./cmd/rollcall -run TestMetricsPage -args -update-metrics writes it", page)
	}
}

// TestMetricsInUse: rules, dashboard and documents name only metrics that there are, with labels that they have.
func TestMetricsInUse(t *testing.T) {
	all := registered(t)
	for _, record := range recorded(t) {
		all[record] = registeredMetric{kind: "gauge"}
	}
	files := []string{"../../deploy/prometheus/rollcall.rules.yml", "../../deploy/grafana/rollcall.json", "../../README.md", "../../ARCHITECTURE.md"}
	documents, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, documents...) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range metricName.FindAllIndex(text, -1) {
			name := string(text[at[0]:at[1]])
			several := strings.HasSuffix(name, "_") // "rollcall_keeper_…"
			if _, there := all[name]; !there && !several && !all.histogram(name) {
				t.Errorf("%s: there is no metric %s", file, name)
			}
		}
	}
}

var metricName = regexp.MustCompile(`\brollcall[_:][a-z0-9_:]+`)

type registeredMetric struct {
	name, help, kind, labels string
}

// system is the part that a metric is of.
func (m registeredMetric) system() string { return strings.Split(m.name, "_")[1] }

type registry map[string]registeredMetric

// histogram says whether a name is that of a part of a histogram.
func (r registry) histogram(name string) bool {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, cut := strings.CutSuffix(name, suffix); cut && r[base].kind == "histogram" {
			return true
		}
	}
	return false
}

// registered is what all parts register, each of them once.
func registered(t *testing.T) registry {
	t.Helper()
	all := make(registry)
	lab.Bubble(t, func(t *testing.T) {
		r := prometheus.NewPedanticRegistry()
		f := e2e.New(t, e2e.Options{Shards: 1, Registerer: r})
		f.StartKeeperAs("k1") // and so a member of a group
		f.StartFanoutWith(fanout.Config{})
		f.StartEdge("g1")
		f.StartGate("gate-1", door.Config{Edge: edge.Config{Registerer: r}})
		nc := lab.Connect(t, f.Server.NewLink())
		d, err := door.New(nc, door.Config{Edge: edge.Config{ID: "g2"}})
		if err != nil {
			t.Fatal(err)
		}
		never := func(string) (bearer.Identity, error) { return bearer.Identity{}, bearer.ErrConfig }
		if _, err := gateway.New(gateway.Config{Door: d, Verify: never, Registerer: r}); err != nil {
			t.Fatal(err)
		}
		(&watch{registry: r}).connection("keeper", nc)
		if _, err := live.New(nc, nil, live.Config{Registerer: r}); err != nil {
			t.Fatal(err)
		}
		js, err := jetstream.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := archive.New(js, f.Names.Names, archive.Options{Config: archive.Config{Dir: t.TempDir(), Device: strings.ToUpper}, Registerer: r}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second) // the keeper has joined
		all.describe(t, r)
	})
	return all
}

func (r registry) describe(t *testing.T, from *prometheus.Registry) {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	kinds := make(map[string]string)
	for _, f := range families {
		kinds[f.GetName()] = strings.ToLower(f.GetType().String())
	}
	descs := make(chan *prometheus.Desc)
	go func() { from.Describe(descs); close(descs) }()
	parse := regexp.MustCompile(`^Desc\{fqName: "(.*?)", help: "(.*)", unit: ".*?", constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)
	for d := range descs {
		m := parse.FindStringSubmatch(d.String())
		if m == nil {
			t.Fatalf("a description reads %s", d)
		}
		var labels []string
		for _, list := range strings.Split(m[3]+","+m[4], ",") {
			if name, _, _ := strings.Cut(list, "="); name != "" {
				labels = append(labels, name)
			}
		}
		help, err := strconv.Unquote(`"` + m[2] + `"`)
		if err != nil {
			t.Fatal(err)
		}
		one := registeredMetric{m[1], help, kinds[m[1]], strings.Join(labels, ", ")}
		if one.kind == "" { // a vector with nothing in it yet
			one.kind = "gauge"
			if strings.HasSuffix(one.name, "_total") {
				one.kind = "counter"
			}
		}
		if (one.kind == "counter") != strings.HasSuffix(one.name, "_total") {
			t.Errorf("%s is a %s", one.name, one.kind)
		}
		if one.help == "" || !strings.HasSuffix(one.help, ".") {
			t.Errorf("%s says of itself %q", one.name, one.help)
		}
		r[one.name] = one
	}
}

// TestAlerts: what to do about each alert is written down, and a unit test raises it and has it silent.
func TestAlerts(t *testing.T) {
	guide, err := os.ReadFile("../../docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	anchors := make(map[string]bool)
	for _, m := range regexp.MustCompile(`(?m)^##+ (.+)$`).FindAllStringSubmatch(string(guide), -1) {
		kept := regexp.MustCompile(`[^a-z0-9 -]`).ReplaceAllString(strings.ToLower(m[1]), "")
		anchors[strings.ReplaceAll(kept, " ", "-")] = true
	}
	tests, err := os.ReadFile("../../deploy/prometheus/rollcall.rules.test.yml")
	if err != nil {
		t.Fatal(err)
	}
	alerts := 0
	for _, r := range alertRules(t) {
		if r.Alert == "" {
			continue
		}
		alerts++
		_, anchor, _ := strings.Cut(r.Annotations["runbook"], "docs/troubleshooting.md#")
		if !anchors[anchor] || !strings.Contains(string(guide), "`"+r.Alert+"`") {
			t.Errorf("%s: docs/troubleshooting.md has no section %q that names it", r.Alert, anchor)
		}
		for _, part := range []string{"summary", "description"} {
			if r.Annotations[part] == "" {
				t.Errorf("%s has no %s", r.Alert, part)
			}
		}
		expr := `expr: 'ALERTS{alertname="` + r.Alert + `", alertstate="firing"}'`
		for _, want := range []string{`, exp_samples: [] }`, `, exp_samples: [{ labels: `} {
			if !regexp.MustCompile(regexp.QuoteMeta(expr) + `, eval_time: \w+` + regexp.QuoteMeta(want)).Match(tests) {
				t.Errorf("%s: no unit test with %s", r.Alert, want)
			}
		}
	}
	if alerts == 0 {
		t.Error("there are no alerts")
	}
}

// recorded are the metrics that the recording rules make.
func recorded(t *testing.T) (names []string) {
	t.Helper()
	for _, r := range alertRules(t) {
		if r.Record != "" {
			names = append(names, r.Record)
		}
	}
	return names
}

type alertRule struct {
	Record, Alert string
	Annotations   map[string]string
}

func alertRules(t *testing.T) (rules []alertRule) {
	t.Helper()
	b, err := os.ReadFile("../../deploy/prometheus/rollcall.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Groups []struct{ Rules []alertRule } }
	if err := yaml.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		rules = append(rules, g.Rules...)
	}
	return rules
}

package rollcall_test

import (
	"encoding/json"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall"
)

func readVector(t *testing.T, name string, into any) {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

func TestBoundsVectors(t *testing.T) {
	var rows []struct {
		Name    string
		Preset  string
		Set     map[string]float64
		Bounds  map[string]float64
		Refused bool
		Warned  bool
	}
	readVector(t, "bounds.json", &rows)
	if len(rows) == 0 {
		t.Fatal("no vectors")
	}
	for _, row := range rows {
		t.Run(row.Name, func(t *testing.T) {
			p, err := rollcall.Preset(row.Preset)
			if err != nil {
				t.Fatal(err)
			}
			for name, v := range row.Set {
				if err := p.Set(name, strconv.FormatFloat(v, 'g', -1, 64)); err != nil {
					t.Fatal(err)
				}
			}
			warnings, err := p.Validate()
			if refused := errors.Is(err, rollcall.ErrParams); refused != row.Refused {
				t.Fatalf("refused = %v (%v), want %v", refused, err, row.Refused)
			}
			if warned := len(warnings) > 0; warned != row.Warned && row.Preset == "" {
				t.Fatalf("warnings %q, want warned = %v", warnings, row.Warned)
			}
			b := p.Bounds()
			got := map[string]time.Duration{"close": b.Close.Latest, "half_open": b.HalfOpen.Latest, "edge_crash": b.EdgeCrash.Latest}
			for way, want := range row.Bounds {
				if got[way].Seconds() != want {
					t.Errorf("%s: bound %v, want %v s", way, got[way], want)
				}
			}
		})
	}
}

func TestPresetsAreValid(t *testing.T) {
	for _, name := range rollcall.PresetNames {
		p, err := rollcall.Preset(name)
		if err != nil {
			t.Fatal(err)
		}
		if warnings, err := p.Validate(); err != nil || len(warnings) > 0 {
			t.Errorf("%s: %v, warnings %q", name, err, warnings)
		}
	}
	if _, err := rollcall.Preset("nonsense"); err == nil {
		t.Error("an unknown preset was accepted")
	}
}

func TestValidateNamesTheReason(t *testing.T) {
	for _, tc := range []struct{ set, want string }{
		{"lease_ttl=50", "lease_ttl"}, {"idle_timeout=30", "idle_timeout"}, {"heartbeat=0", "heartbeat"},
		{"debounce=-1", "debounce"}, {"jitter=1", "jitter"}, {"jitter=NaN", "jitter"}, {"outage=10", "outage"},
		{"renewal=1000000h", "renewal"}, {"sweep=0s", "sweep"},
	} {
		p := rollcall.Default()
		name, value, _ := strings.Cut(tc.set, "=")
		if err := p.Set(name, value); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Validate(); !errors.Is(err, rollcall.ErrParams) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", tc.set, err)
		}
	}
}

func TestSetRefusesNonsense(t *testing.T) {
	p := rollcall.Default()
	for _, set := range [][2]string{{"lease", "5"}, {"lease_ttl", "soon"}, {"lease_ttl", "1e300"}, {"jitter", "much"}, {"", ""}} {
		if err := p.Set(set[0], set[1]); !errors.Is(err, rollcall.ErrParams) {
			t.Errorf("%v: %v", set, err)
		}
	}
	if p != rollcall.Default() {
		t.Error("a refused Set changed the parameters")
	}
}

func TestParamsJSONRoundTrip(t *testing.T) {
	for _, name := range rollcall.PresetNames {
		p, _ := rollcall.Preset(name)
		b, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		var q rollcall.Params
		if err := json.Unmarshal(b, &q); err != nil || q != p {
			t.Errorf("%s: %+v became %+v (%v)", name, p, q, err)
		}
	}
}

func TestCheckID(t *testing.T) {
	for id, ok := range map[string]bool{
		"": false, "a": true, strings.Repeat("a", 128): true, strings.Repeat("a", 129): false,
		"日本語": true, "\xff": false, "a b": true, "*": true, ">": true, "a.b": true, "\x00": true,
	} {
		if err := rollcall.CheckID(id); (err == nil) != ok {
			t.Errorf("%q: %v", id, err)
		}
	}
}

func TestNextGenerationAlwaysGrows(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	first := rollcall.NextGeneration(0, at)
	if second := rollcall.NextGeneration(first, at); second <= first {
		t.Errorf("two takeovers in one second: %d then %d", first, second)
	}
	if back := rollcall.NextGeneration(first, at.Add(-time.Hour)); back <= first {
		t.Errorf("a clock that went back: %d then %d", first, back)
	}
	if early := rollcall.NextGeneration(0, time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)); early == 0 {
		t.Error("generation 0 means none")
	}
}

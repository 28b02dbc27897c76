package rollcall

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A field is a parameter under the name that commands, files and vectors use.
type field struct {
	name     string
	duration func(*Params) *time.Duration // nil for jitter
}

var fields = []field{
	{"heartbeat", func(p *Params) *time.Duration { return &p.Heartbeat }},
	{"jitter", nil},
	{"idle_timeout", func(p *Params) *time.Duration { return &p.IdleTimeout }},
	{"check_interval", func(p *Params) *time.Duration { return &p.CheckInterval }},
	{"renewal", func(p *Params) *time.Duration { return &p.Renewal }},
	{"lease_ttl", func(p *Params) *time.Duration { return &p.LeaseTTL }},
	{"sweep", func(p *Params) *time.Duration { return &p.Sweep }},
	{"debounce", func(p *Params) *time.Duration { return &p.Debounce }},
	{"outage", func(p *Params) *time.Duration { return &p.Outage }},
	{"buffer", func(p *Params) *time.Duration { return &p.Buffer }},
}

// FieldNames lists the names that [Params.Set] knows.
func FieldNames() []string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	return names
}

// Set changes one parameter by name. A duration is a number of seconds ("90",
// "2.5") or a Go duration ("90s", "1m30s"); jitter is a fraction.
func (p *Params) Set(name, value string) error {
	for _, f := range fields {
		if f.name != name {
			continue
		}
		if f.duration == nil {
			j, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return fmt.Errorf("%w: %s=%q is not a number", ErrParams, name, value)
			}
			p.Jitter = j
			return nil
		}
		d, err := parseDuration(value)
		if err != nil {
			return fmt.Errorf("%w: %s=%q is neither seconds nor a duration such as 1m30s", ErrParams, name, value)
		}
		*f.duration(p) = d
		return nil
	}
	return fmt.Errorf("%w: no parameter %q (known: %s)", ErrParams, name, strings.Join(FieldNames(), ", "))
}

func parseDuration(value string) (time.Duration, error) {
	if s, err := strconv.ParseFloat(value, 64); err == nil {
		return seconds(s)
	}
	return time.ParseDuration(value)
}

// seconds converts without letting an absurd number wrap around.
func seconds(s float64) (time.Duration, error) {
	const limit = float64(1<<63-1) / float64(time.Second)
	if s != s || s >= limit || s <= -limit {
		return 0, fmt.Errorf("%v seconds are out of range", s)
	}
	return time.Duration(s * float64(time.Second)).Round(time.Microsecond), nil
}

// MarshalJSON writes every parameter under its name, durations in seconds.
func (p Params) MarshalJSON() ([]byte, error) {
	m := make(map[string]float64, len(fields))
	for _, f := range fields {
		if f.duration == nil {
			m[f.name] = p.Jitter
		} else {
			m[f.name] = f.duration(&p).Seconds()
		}
	}
	return json.Marshal(m)
}

// UnmarshalJSON sets the named parameters and leaves the others as they are, so
// that a newer fabric's parameters can be read over a preset.
func (p *Params) UnmarshalJSON(b []byte) error {
	var m map[string]float64
	if err := json.Unmarshal(b, &m); err != nil {
		return err
	}
	for _, f := range fields {
		v, ok := m[f.name]
		if !ok {
			continue
		}
		if f.duration == nil {
			p.Jitter = v
			continue
		}
		d, err := seconds(v)
		if err != nil {
			return fmt.Errorf("%w: %s: %w", ErrParams, f.name, err)
		}
		*f.duration(p) = d
	}
	return nil
}

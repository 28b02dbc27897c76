package definition

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/rollcall-io/rollcall/internal/yamlfile"
	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/interval"
)

// ErrInvalid is a definition that cannot be read or makes no sense; the wrapping says
// why.
var ErrInvalid = errors.New("definition: invalid")

//go:embed default.yaml
var defaultFile []byte

// File is the definition that ships with Rollcall, as it is read: a template for others.
func File() []byte { return bytes.Clone(defaultFile) }

// Default is the definition that ships with Rollcall.
func Default() ledger.Definition {
	d, err := parse(defaultFile, ledger.Definition{})
	if err != nil {
		panic(err) // a test reads it
	}
	return d
}

// file is a definition as YAML. Pointers tell what was left out.
type file struct {
	Version *string   `yaml:"version"`
	Cap     *span     `yaml:"gap_cap"`
	Grace   *span     `yaml:"grace"`
	Idle    *span     `yaml:"idle"`
	Limit   *span     `yaml:"session_limit"`
	Late    *span     `yaml:"lateness"`
	Labels  *[]string `yaml:"labels"`
}

// A span is a duration with its unit. A bare number would leave open which one is meant.
type span time.Duration

func (s *span) UnmarshalYAML(node *yaml.Node) error {
	d, err := time.ParseDuration(node.Value)
	if err != nil || node.Kind != yaml.ScalarNode {
		return fmt.Errorf("line %d: %q is no duration such as 90s, 5m or 168h", node.Line, node.Value)
	}
	*s = span(d)
	return nil
}

// Parse reads a definition. The version is required; whatever else is missing has the
// default's value.
func Parse(raw []byte) (ledger.Definition, error) {
	return parse(raw, Default())
}

func parse(raw []byte, d ledger.Definition) (ledger.Definition, error) {
	var f file
	if err := yamlfile.Decode(raw, &f); err != nil {
		return d, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	d.Version = ""
	if f.Version != nil {
		d.Version = *f.Version
	}
	for _, field := range []struct {
		from *span
		to   *time.Duration
	}{
		{f.Cap, &d.Gaps.Cap}, {f.Grace, &d.Gaps.Grace}, {f.Idle, &d.Idle}, {f.Limit, &d.Limit}, {f.Late, &d.Lateness},
	} {
		if field.from != nil {
			*field.to = time.Duration(*field.from)
		}
	}
	if f.Labels != nil {
		d.Labels = *f.Labels
	}
	return d, Validate(d)
}

var (
	// A version appears in names of columns, files and URLs.
	versionForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+,=-]{0,63}$`)
	labelForm   = regexp.MustCompile(`^[a-z][a-z0-9_]{0,31}$`)
)

// Validate returns [ErrInvalid] with the reason for a definition that makes no sense.
func Validate(d ledger.Definition) error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
	}
	if !versionForm.MatchString(d.Version) {
		return fail("version %q must be 1 to 64 letters, digits, dots, dashes, underscores", d.Version)
	}
	if err := d.Gaps.Validate(); err != nil {
		return fail("%w", err)
	}
	if err := (interval.Activity{Idle: d.Idle}).Validate(); err != nil {
		return fail("%w", err)
	}
	switch {
	case d.Limit <= 0 || d.Limit%time.Millisecond != 0:
		return fail("session_limit %v must be above zero and whole milliseconds", d.Limit)
	case d.Limit < d.Gaps.Cap:
		return fail("session_limit %v below gap_cap %v", d.Limit, d.Gaps.Cap)
	case d.Lateness < 0 || d.Lateness%time.Millisecond != 0:
		return fail("lateness %v must not be negative, and whole milliseconds", d.Lateness)
	}
	for k, label := range d.Labels {
		switch {
		case !labelForm.MatchString(label):
			return fail("label %q must be lower case letters, digits and underscores", label)
		case slices.Contains([]ledger.Measure{ledger.Connected, ledger.Foreground, ledger.Active}, ledger.Measure(label)):
			return fail("label %q is a measure that every fabric has", label)
		case slices.Contains(d.Labels[:k], label):
			return fail("label %q twice", label)
		}
	}
	return nil
}

// Canonical writes a definition so that the same meaning is the same bytes. [Parse]
// reads it.
func Canonical(d ledger.Definition) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "version: %q\n", d.Version)
	fmt.Fprintf(&b, "gap_cap: %v\ngrace: %v\nidle: %v\nsession_limit: %v\nlateness: %v\n",
		d.Gaps.Cap, d.Gaps.Grace, d.Idle, d.Limit, d.Lateness)
	labels := slices.Sorted(slices.Values(d.Labels))
	for k, label := range labels {
		labels[k] = fmt.Sprintf("%q", label) // "on" and "no" are not strings in YAML
	}
	fmt.Fprintf(&b, "labels: [%s]\n", strings.Join(labels, ", "))
	return b.Bytes()
}

// Hash tells definitions apart: 16 hexadecimal digits of the SHA-256 of [Canonical].
func Hash(d ledger.Definition) string {
	sum := sha256.Sum256(Canonical(d))
	return hex.EncodeToString(sum[:8])
}

// With is a definition with other gaps, under a version that says so. A nil leaves what
// is there; if nothing changes, neither does the version.
func With(d ledger.Definition, gapCap, grace *time.Duration) (ledger.Definition, error) {
	if gapCap != nil && *gapCap != d.Gaps.Cap {
		d.Gaps.Cap = *gapCap
		d.Version += ",cap=" + gapCap.String()
	}
	if grace != nil && *grace != d.Gaps.Grace {
		d.Gaps.Grace = *grace
		d.Version += ",grace=" + grace.String()
	}
	return d, Validate(d)
}

package access

import (
	"bufio"
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/rollcall-io/rollcall/internal/yamlfile"
)

//go:embed template.yaml
var template []byte

// Template is a file of rules to start from.
func Template() []byte { return bytes.Clone(template) }

// file is a set of rules as YAML.
type file struct {
	Auditors []string          `yaml:"auditors"`
	Analysts []string          `yaml:"analysts,omitempty"`
	Leads    map[string]string `yaml:"leads,omitempty"`
	Others   Role              `yaml:"others,omitempty"`
	Minimum  *int              `yaml:"minimum"`
	Zone     string            `yaml:"zone"`
	Teams    map[string]team   `yaml:"teams,omitempty"`
}

// A team is a list of users, or the name of a file with one a line.
type team struct {
	users []string
	from  string
}

func (t *team) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode {
		t.from = node.Value
		return nil
	}
	return node.Decode(&t.users)
}

func (t team) MarshalYAML() (any, error) { return t.users, nil }

// Parse reads rules. Files of teams are read through open.
func Parse(raw []byte, open func(name string) (io.ReadCloser, error)) (Rules, error) {
	var f file
	if err := yamlfile.Decode(raw, &f); err != nil {
		return Rules{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	r := Rules{Accounts: map[string]Account{}, Others: f.Others, Teams: map[string][]string{}, Minimum: DefaultMinimum, Zone: f.Zone}
	if f.Minimum != nil {
		r.Minimum = *f.Minimum
	}
	if r.Zone == "" {
		r.Zone = "UTC"
	}
	for name, t := range f.Teams {
		users, err := t.read(open)
		if err != nil {
			return r, fmt.Errorf("%w: team %s: %w", ErrInvalid, name, err)
		}
		r.Teams[name] = users
	}
	if err := r.appoint(f); err != nil {
		return r, err
	}
	if r.None() {
		return r, fmt.Errorf("%w: nobody has a role", ErrInvalid)
	}
	return r, r.Validate()
}

// appoint gives the accounts their roles, one each.
func (r *Rules) appoint(f file) error {
	give := func(name string, a Account) error {
		switch _, twice := r.Accounts[name]; {
		case name == "":
			return fmt.Errorf("%w: an account without a name", ErrInvalid)
		case twice:
			return fmt.Errorf("%w: %s has two roles", ErrInvalid, name)
		}
		r.Accounts[name] = a
		return nil
	}
	var errs []error
	for _, name := range f.Auditors {
		errs = append(errs, give(name, Account{Role: Auditor}))
	}
	for _, name := range f.Analysts {
		errs = append(errs, give(name, Account{Role: Analyst}))
	}
	for _, name := range slices.Sorted(maps.Keys(f.Leads)) {
		errs = append(errs, give(name, Account{Role: Lead, Team: f.Leads[name]}))
	}
	return errors.Join(errs...)
}

func (t team) read(open func(string) (io.ReadCloser, error)) ([]string, error) {
	users := t.users
	if t.from != "" {
		in, err := open(t.from)
		if err != nil {
			return nil, err
		}
		defer in.Close()
		lines := bufio.NewScanner(in)
		for lines.Scan() {
			users = append(users, strings.TrimSpace(lines.Text()))
		}
		if err := lines.Err(); err != nil {
			return nil, err
		}
	}
	users = slices.DeleteFunc(slices.Clone(users), func(u string) bool { return u == "" })
	slices.Sort(users)
	return slices.Compact(users), nil
}

// Format writes rules as [Parse] reads them, with all teams in the file.
func Format(r Rules) ([]byte, error) {
	f := file{Others: r.Others, Minimum: &r.Minimum, Zone: r.Zone, Leads: map[string]string{}, Teams: map[string]team{}}
	for _, name := range slices.Sorted(maps.Keys(r.Accounts)) {
		switch a := r.Accounts[name]; a.Role {
		case Auditor:
			f.Auditors = append(f.Auditors, name)
		case Analyst:
			f.Analysts = append(f.Analysts, name)
		case Lead:
			f.Leads[name] = a.Team
		}
	}
	for name, users := range r.Teams {
		f.Teams[name] = team{users: users}
	}
	return yaml.Marshal(f)
}

package rebuild

import (
	"context"
	"fmt"
	"strings"

	"github.com/rollcall-io/rollcall/ledger"
	"github.com/rollcall-io/rollcall/ledger/definition"
	"github.com/rollcall-io/rollcall/ledger/store"
)

// mark separates the version of a definition from the time of a rebuild.
const mark = "+rebuilt-"

// Base is the version that the figures of a rebuild are beside.
func Base(version string) string {
	base, _, _ := strings.Cut(version, mark)
	return base
}

// SameRules says whether two definitions differ in their names at most.
func SameRules(a, b ledger.Definition) bool {
	a.Version = b.Version
	return definition.Hash(a) == definition.Hash(b)
}

// version chooses the name of the figures: that of the same rebuild, if one was
// interrupted.
func (r *run) version(ctx context.Context) (version string, resumed bool, err error) {
	known, err := r.Store.Definitions(ctx)
	if err != nil {
		return "", false, err
	}
	rebuilds, err := r.Store.Rebuilds(ctx)
	if err != nil {
		return "", false, err
	}
	find := func(version string) (store.Defined, bool) {
		for _, k := range known {
			if k.Version == version {
				return k, true
			}
		}
		return store.Defined{}, false
	}
	for _, b := range rebuilds {
		d, _ := find(b.Definition)
		wanted := r.Into == b.Definition || r.Into == "" && Base(b.Definition) == r.Definition.Version
		if wanted && b.Finished.IsZero() && b.Bounds == r.Bounds && b.Source == r.Source.Name() && SameRules(d.Definition, r.Definition) {
			return b.Definition, true, nil
		}
	}
	version = r.Into
	if version == "" {
		version = r.Definition.Version
		if _, there := find(version); there {
			version += mark + r.Now().UTC().Format("20060102T150405Z")
		}
	}
	d := r.Definition
	if d.Version = version; len(version) > 0 {
		if err := definition.Validate(d); err != nil {
			return "", false, fmt.Errorf("%w: the figures would bear the name %s; choose another one", err, version)
		}
	}
	return version, false, nil
}

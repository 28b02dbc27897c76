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

// Final is until when, in ms, nothing that is stored later changes the figures of a rebuild.
func Final(b store.Rebuild, d ledger.Definition) int64 {
	return min(b.Bounds.To, b.Ends.Add(-d.Lateness-d.Gaps.Cap).UnixMilli())
}

// version chooses the name of the figures: that of the same rebuild, if one was
// interrupted.
func (r *run) version(ctx context.Context) (version string, resumed bool, err error) {
	list, err := r.Store.Definitions(ctx)
	if err != nil {
		return "", false, err
	}
	known := make(map[string]ledger.Definition, len(list))
	for _, k := range list {
		known[k.Version] = k.Definition
	}
	rebuilds, err := r.Store.Rebuilds(ctx)
	if err != nil {
		return "", false, err
	}
	for _, b := range rebuilds {
		wanted := r.Into == b.Definition || r.Into == "" && Base(b.Definition) == r.Definition.Version
		same := b.Bounds == r.Bounds && b.Source == r.Source.Name() && SameRules(known[b.Definition], r.Definition)
		if wanted && same && b.Finished.IsZero() {
			return b.Definition, true, nil
		}
	}
	version, err = r.fresh(known)
	return version, false, err
}

// fresh is a name that is not there yet, or the one that was chosen.
func (r *run) fresh(known map[string]ledger.Definition) (string, error) {
	d := r.Definition
	there := func() bool { _, is := known[d.Version]; return is }
	switch {
	case r.Into != "":
		d.Version = r.Into
	case there():
		d.Version += mark + r.Now().UTC().Format("20060102T150405Z")
		for base, n := d.Version, 2; there(); n++ { // another one in the same second
			d.Version = fmt.Sprint(base, ".", n)
		}
	}
	if err := definition.Validate(d); err != nil {
		return "", fmt.Errorf("%w: the figures would bear the name %s; choose another one", err, d.Version)
	}
	return d.Version, nil
}

package fanout

import "github.com/rollcall-io/rollcall"

// Policy decides who may know what of whom.
type Policy interface {
	// Sight is how much viewer may know of target. It is called under the shard's
	// lock, for every change and every viewer that watches: it must not block, and
	// it must be safe for concurrent use by several shards.
	Sight(viewer, target string) rollcall.Granularity
}

// Everyone is the policy by which every viewer may know everything of everyone.
type Everyone struct{}

// Sight implements [Policy].
func (Everyone) Sight(viewer, target string) rollcall.Granularity { return rollcall.Exact }

package bench

import "context"

// Growth is what becomes of the fabric's cost as it grows: more processes share its shards, more
// connections are renewed. Rates on a machine that does something else say little; processor time, of
// this whole process, is that of server, fabric, load and viewers.
type Growth struct {
	Owners      []OwnersCost      `json:"owners"`
	Idle        float64           `json:"idle_processor_milliseconds_per_second"` // of a fabric without connections
	Period      float64           `json:"renewal_period_seconds"`
	Connections []ConnectionsCost `json:"connections"`
}

// OwnersCost is how fast users become visible to viewers if so many keepers, and as many fanouts,
// share the shards; see [Opens].
type OwnersCost struct {
	Owners   int     `json:"owners"` // keepers, and fanouts
	Visible  Rate    `json:"opens_visible_per_second"`
	PerOwner float64 `json:"opens_visible_per_second_and_owner"`
	Frames   float64 `json:"frames_applied_per_second"`
	KVWrites float64 `json:"kv_writes_per_open"`
	Busy     Rate    `json:"processor_microseconds_per_open"`
	Cores    float64 `json:"cores_busy"`
}

// ConnectionsCost is what connections take that do nothing but beat, twice in a renewal period.
// Everything is for one connection renewed once.
type ConnectionsCost struct {
	Connections int     `json:"connections"`
	Edges       int     `json:"edges"`
	Renewed     uint64  `json:"renewed_connections"`
	KVWrites    uint64  `json:"kv_writes"`
	PerRenewal  float64 `json:"kv_writes_per_edge_shard_and_renewal"`
	PerThousand float64 `json:"kv_writes_per_1000_renewed"`
	KVBytes     float64 `json:"kv_bytes"`
	LogBytes    float64 `json:"log_bytes"`
	BeatBytes   float64 `json:"heartbeat_bytes"`
	Busy        float64 `json:"processor_microseconds"`
	AboveIdle   float64 `json:"processor_microseconds_above_idle"`
}

// growth takes both. It is not taken unless asked for: a million connections take minutes.
func (r *runner) growth(ctx context.Context) error {
	r.figures.Growth = &Growth{Period: r.growthParams.Renewal.Seconds()}
	if err := r.growOwners(ctx); err != nil {
		return err
	}
	return r.growConnections(ctx)
}

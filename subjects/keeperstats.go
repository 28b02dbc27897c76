package subjects

import "time"

// KeeperStats are what a keeper knows at the moment of the shards that it owns; it answers
// requests on [Names.KeeperStats] with them. Several keepers can share a fabric: together
// they own all of ShardsTotal.
type KeeperStats struct {
	At time.Time `json:"at"`
	// Since is when this process began to count.
	Since time.Time `json:"since"`
	// Holder names the process, Member it among those that share the shards out.
	Holder      string        `json:"holder"`
	Member      string        `json:"member,omitempty"`
	ShardsTotal int           `json:"shards_total"`
	Shards      []KeeperShard `json:"shards"`
	// Counters are those of the keeper's metrics, under their names.
	Counters map[string]uint64 `json:"counters"`
	Ways     []KeeperWay       `json:"ways"`
}

// KeeperShard is a shard that a keeper owns.
type KeeperShard struct {
	Shard      int    `json:"shard"`
	Generation uint64 `json:"generation"`
	// Ready says whether the log is read up to the present.
	Ready       bool `json:"ready"`
	Users       int  `json:"users"`
	Online      int  `json:"online"`
	Connections int  `json:"connections"`
	Leases      int  `json:"leases"`
}

// KeeperWay is how long after leaving in one way users were shown offline, beside the
// bounds.
type KeeperWay struct {
	Way      string `json:"way"`
	Earliest int64  `json:"earliest_ms"`
	Latest   int64  `json:"latest_ms"`
	Count    uint64 `json:"count"`
	Min      int64  `json:"min_ms"`
	Mean     int64  `json:"mean_ms"`
	Max      int64  `json:"max_ms"`
	// Early and Late are how many of them were outside of the bounds: before the earliest, or
	// after the latest by more than a second, which a tick may take to be stored.
	Early uint64 `json:"early"`
	Late  uint64 `json:"late"`
}

// DecodeKeeperStats reads the figures of a keeper.
func DecodeKeeperStats(b []byte) (KeeperStats, error) {
	var s KeeperStats
	err := decodeJSON(b, &s)
	return s, err
}

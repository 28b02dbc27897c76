package bench

import (
	"runtime"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall/subjects"
)

// A Report is the result of a run. Its JSON keys are stable; new ones may come.
type Report struct {
	Format  int                `json:"format"`
	At      time.Time          `json:"at"`
	Machine Machine            `json:"machine"`
	Sizes   Sizes              `json:"sizes"`
	Figures Figures            `json:"figures"`
	Ratios  map[string]float64 `json:"ratios"`
}

// format of [Report]; changes when a key changes its meaning.
const format = 1

// Machine is what everything ran on.
type Machine struct {
	Cores      int    `json:"cores"` // that this process may use at once
	OS         string `json:"os"`
	Arch       string `json:"arch"`
	Go         string `json:"go"`
	Server     string `json:"nats_server"`
	Client     string `json:"nats_go"`
	Transport  string `json:"transport"`
	Storage    string `json:"storage"`
	SameCores  bool   `json:"load_shares_cores"`
	Replicated bool   `json:"replicated"`
}

// Sizes is what was asked for.
type Sizes struct {
	Duration    float64 `json:"duration_seconds"`
	Rounds      int     `json:"rounds"`
	Shards      int     `json:"shards"`
	Edges       int     `json:"edges"`
	Opens       int     `json:"opens"`
	Viewers     int     `json:"viewers"`
	Targets     int     `json:"targets"`
	Connections int     `json:"connections"`
	Beating     int     `json:"beating_connections"`
	Baseline    int     `json:"jetstream_message_bytes"`

	StormUsers   int `json:"storm_users"`
	StormViewers int `json:"storm_viewers"`
	StormTargets int `json:"storm_targets"`
}

// Figures are the results; a measure that was not taken is absent.
type Figures struct {
	Opens      *Opens      `json:"opens,omitempty"`
	Changes    *Changes    `json:"changes,omitempty"`
	Storm      *Storm      `json:"storm,omitempty"`
	Latency    *Latency    `json:"latency,omitempty"`
	Renewals   *Renewals   `json:"renewals,omitempty"`
	Heartbeats *Heartbeats `json:"heartbeats,omitempty"`
	Growth     *Growth     `json:"growth,omitempty"`
}

// Opens is how fast new users become visible.
type Opens struct {
	Visible   Rate    `json:"visible_per_second"`
	KVWrites  float64 `json:"kv_writes_per_open"`
	LogWrites float64 `json:"log_messages_per_open"`
	JetStream Rate    `json:"jetstream_writes_per_second"`
}

// Changes is how fast viewers are told. Offered is what there was to tell, Allowed
// what is left of it when changes of a target within one window are merged: close
// to Allowed the fanout waits, and more viewers would be told more.
type Changes struct {
	Offered   Rate    `json:"offered_per_second"`
	Allowed   float64 `json:"allowed_per_second"`
	Delivered Rate    `json:"delivered_per_second"`
	Messages  Rate    `json:"messages_per_second"`
	Bytes     float64 `json:"message_bytes"`
	Core      Rate    `json:"core_messages_per_second"`
}

// Storm is what an edge's crash is to the viewers of its users, as it is and, from
// Burst on, if all of it is due at once; the documentation of the measure says what is
// compared. Spreads are over the rounds. Bound is how late the last change may be told,
// counted like Written. Memory is of this process, which is the server, the fabric and
// the viewers; peaks are the largest of any round.
type Storm struct {
	PerViewer   float64 `json:"messages_per_viewer"`
	ChangesEach float64 `json:"changes_per_message"`
	Bytes       float64 `json:"message_bytes"`
	Told        Spread  `json:"first_told_to_last_told"`
	Written     Spread  `json:"first_written_to_last_told"`
	Bound       Spread  `json:"first_written_to_last_told_bound"`
	BoundUsed   float64 `json:"bound_used"` // in the round that used most of it
	BoundKept   bool    `json:"bound_kept"`
	Waves       Rate    `json:"messages_per_second_in_waves"`
	HeapBefore  uint64  `json:"heap_before_bytes"`
	HeapPeak    uint64  `json:"heap_peak_bytes"`
	RSSPeak     uint64  `json:"rss_peak_bytes,omitempty"` // where the system tells

	Burst      Rate    `json:"burst_messages_per_second"`
	BurstEach  float64 `json:"burst_changes_per_message"`
	BurstBytes float64 `json:"burst_message_bytes"`
	Core       Rate    `json:"core_messages_per_second"`
	// BurstShare is the median of the rounds' own ratios: on a machine that is busy with
	// something else, the two rates of a round have more in common than those of two.
	BurstShare float64 `json:"burst_to_core"`
	// BurstDue is in which time the messages became due, milliseconds; where that is
	// most of the time that they took, the rates say little.
	BurstDue Spread `json:"burst_due_within"`
	// Processor time for a message, of the whole process, microseconds; 0 where the
	// system does not tell.
	BurstBusy Rate `json:"burst_processor_microseconds_per_message"`
	CoreBusy  Rate `json:"core_processor_microseconds_per_message"`
}

// Latency is how long one open takes to reach a viewer while nothing else happens.
type Latency struct {
	Visible   Spread `json:"open_to_viewer"`
	JetStream Spread `json:"jetstream_ack"`
	Core      Spread `json:"core_request"`
}

// Renewals is what connections cost while nothing happens but heartbeats.
type Renewals struct {
	Renewed       uint64  `json:"renewed_connections"`
	KVWrites      uint64  `json:"kv_writes"`
	PerThousand   float64 `json:"kv_writes_per_1000_renewed"`
	Beats         uint64  `json:"heartbeats_stored"`
	BeatsDropped  uint64  `json:"heartbeats_dropped"` // too many between two collections
	BytesPerBeat  float64 `json:"stored_bytes_per_heartbeat"`
	BeatsInterval float64 `json:"heartbeat_interval_seconds"`
}

// Heartbeats is how many one core takes.
type Heartbeats struct {
	PerSecond   Rate    `json:"per_second_on_one_core"`
	Nanoseconds float64 `json:"nanoseconds_each"`
	Target      float64 `json:"target_per_second"`
}

func newReport(cfg Config, server string, f Figures) Report {
	return Report{
		Format: format, At: time.Now().UTC().Truncate(time.Second),
		Machine: Machine{
			Cores: runtime.GOMAXPROCS(0), OS: runtime.GOOS, Arch: runtime.GOARCH, Go: runtime.Version(),
			Server: server, Client: nats.Version, Transport: "loopback TCP", Storage: "file", SameCores: true,
		},
		Sizes: Sizes{
			Duration: cfg.Duration.Seconds(), Rounds: rounds, Shards: subjects.DefaultShards, Edges: openEdges,
			Opens: cfg.Opens, Viewers: cfg.Viewers, Targets: cfg.Targets, Connections: cfg.Connections,
			Beating: cfg.Connections * BeatFactor, Baseline: writeBytes,
			StormUsers: cfg.StormUsers, StormViewers: cfg.StormViewers, StormTargets: cfg.StormTargets,
		},
		Figures: f, Ratios: f.ratios(),
	}
}

// ratios compares with the baselines; above 1 the fabric is the larger.
func (f Figures) ratios() map[string]float64 {
	r := map[string]float64{}
	set := func(name string, a, b float64) {
		if b > 0 {
			r[name] = round(a/b, 4)
		}
	}
	if o := f.Opens; o != nil {
		set("opens_to_jetstream_writes", o.Visible.Median, o.JetStream.Median)
		set("open_writes_to_jetstream_writes", o.Visible.Median*(o.KVWrites+o.LogWrites), o.JetStream.Median)
	}
	if c := f.Changes; c != nil {
		set("change_messages_to_core_messages", c.Messages.Median, c.Core.Median)
		set("changes_to_core_messages", c.Delivered.Median, c.Core.Median)
		set("changes_delivered_to_allowed", c.Delivered.Median, c.Allowed)
	}
	if s := f.Storm; s != nil {
		set("storm_messages_to_core_messages", s.BurstShare, 1)
		set("storm_last_change_to_bound", s.BoundUsed, 1)
	}
	if l := f.Latency; l != nil {
		set("open_p50_to_jetstream_ack_p50", l.Visible.P50, l.JetStream.P50)
		set("open_p50_to_core_request_p50", l.Visible.P50, l.Core.P50)
	}
	if n := f.Renewals; n != nil {
		set("kv_writes_to_one_per_connection", n.PerThousand, 1000)
	}
	if h := f.Heartbeats; h != nil {
		set("heartbeats_to_target", h.PerSecond.Median, h.Target)
	}
	return r
}

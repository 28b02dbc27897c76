package machine

// Stats counts what happened since the machine was made, except for the sizes at
// the end, which are of now. The tags are what an operator reads of the metrics.
type Stats struct {
	Frames             uint64 `help:"Frames of edges, applied."`
	Entries            uint64 `help:"Entries in the frames of edges."`
	Ticks              uint64 `help:"Ticks applied."`
	Renewals           uint64 `help:"Renewals of leases."`
	RenewedConnections uint64 `help:"Connections covered by the renewals."`
	LeaseExpiries      uint64 `help:"Leases that ran out."`
	EdgeRestarts       uint64 `help:"Edges that came back as a new process."`
	RejectedStale      uint64 `help:"Opens and closes of connections that are not the newest."`
	Mismatches         uint64 `help:"Renewals whose digest did not agree."`
	Repaired           uint64 `help:"Connections corrected from a roster."`
	Unregistered       uint64 `help:"Entries of edges without a lease."`
	FalseOfflines      uint64 `help:"Users shown offline while a connection of theirs lived."`
	DeviceFlips        uint64 `help:"Endpoints that came or went."`
	Changes            uint64 `help:"Changes of users' states, published."`
	Gaps               uint64 `help:"Silences of the log longer than Params.Outage."`
	Clamped            uint64 `help:"Stamps outside of what can be true."`
	Malformed          uint64 `help:"Messages and entries that make no sense."`
	Ignored            uint64 `help:"Entries about connections that are not known, or of an unknown kind."`
	LogLost            uint64 `help:"Times the log lost its tail."`
	RecordsLost        uint64 `help:"Times a bucket lost records, after which the shard was loaded again."`

	Users       int `help:"Users that are known, offline ones included."`
	Online      int `help:"Users that are shown online."`
	Leases      int `help:"Leases that edges hold, one for each edge and shard."`
	Connections int `help:"Connections that edges hold."`
}

// Add sums the counters and sizes of two machines.
func (s Stats) Add(t Stats) Stats {
	s.Frames += t.Frames
	s.Entries += t.Entries
	s.Ticks += t.Ticks
	s.Renewals += t.Renewals
	s.RenewedConnections += t.RenewedConnections
	s.LeaseExpiries += t.LeaseExpiries
	s.EdgeRestarts += t.EdgeRestarts
	s.RejectedStale += t.RejectedStale
	s.Mismatches += t.Mismatches
	s.Repaired += t.Repaired
	s.Unregistered += t.Unregistered
	s.FalseOfflines += t.FalseOfflines
	s.DeviceFlips += t.DeviceFlips
	s.Changes += t.Changes
	s.Gaps += t.Gaps
	s.Clamped += t.Clamped
	s.Malformed += t.Malformed
	s.Ignored += t.Ignored
	s.LogLost += t.LogLost
	s.RecordsLost += t.RecordsLost
	s.Users += t.Users
	s.Online += t.Online
	s.Leases += t.Leases
	s.Connections += t.Connections
	return s
}

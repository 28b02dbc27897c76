package machine

// Stats counts what happened since the machine was made, except for the sizes at
// the end, which are of now.
type Stats struct {
	Frames             uint64 // frames of edges
	Entries            uint64 // entries in them
	Ticks              uint64
	Renewals           uint64
	RenewedConnections uint64 // connections covered by the renewals
	LeaseExpiries      uint64
	EdgeRestarts       uint64
	RejectedStale      uint64 // opens and closes of connections that are not the newest
	Mismatches         uint64 // renewals whose digest did not agree
	Repaired           uint64 // connections corrected from a roster
	Unregistered       uint64 // entries of edges without a lease
	FalseOfflines      uint64 // users shown offline while a connection of theirs lived
	DeviceFlips        uint64 // endpoints that came or went
	Changes            uint64 // changes of users' states, published
	Gaps               uint64 // silences of the log longer than Params.Outage
	Clamped            uint64 // stamps outside of what can be true
	Malformed          uint64 // messages and entries that make no sense
	Ignored            uint64 // entries about connections that are not known, or of an unknown kind
	LogLost            uint64 // times the log lost its tail

	Users, Online, Edges, Connections int
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
	s.Users += t.Users
	s.Online += t.Online
	s.Edges += t.Edges
	s.Connections += t.Connections
	return s
}

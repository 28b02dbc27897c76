package rollcall

import (
	"fmt"
	"strings"
)

// State is what the fabric knows of a device, or of a user over all devices. The
// order is the merge order: the user's state is the greatest of its devices'.
type State uint8

// The states, least present first.
const (
	Offline    State = iota // no live connection
	Background              // connected, the app is not in the foreground
	Idle                    // in the foreground, no recent input
	Active                  // in the foreground, with recent input
)

var stateNames = [...]string{"offline", "background", "idle", "active"}

func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// ParseState is the inverse of [State.String].
func ParseState(name string) (State, error) {
	for i, n := range stateNames {
		if n == name {
			return State(i), nil
		}
	}
	return 0, fmt.Errorf("rollcall: unknown state %q", name)
}

// Status is what a viewer is told of a target.
type Status string

// The statuses. Recently and LongAgo are what a coarse viewer sees in place of
// Offline; Unknown is what a viewer sees who may know that the target exists but
// nothing more, and what everyone sees while the feed is interrupted.
const (
	StatusOnline   Status = "online"
	StatusOffline  Status = "offline"
	StatusRecently Status = "recently"
	StatusLongAgo  Status = "long_ago"
	StatusUnknown  Status = "unknown"
)

// Granularity is how much one viewer may know of one target.
type Granularity uint8

// The granularities, least first.
const (
	Absent Granularity = iota // nothing, not even that the target exists
	Hidden                    // that it exists; the status is unknown
	Coarse                    // online, recently (within a day) or long ago
	Exact                     // status, activity, last seen to the minute
)

var granularityNames = [...]string{"absent", "hidden", "coarse", "exact"}

func (g Granularity) String() string {
	if int(g) < len(granularityNames) {
		return granularityNames[g]
	}
	return fmt.Sprintf("granularity(%d)", uint8(g))
}

// MarshalText implements [encoding.TextMarshaler].
func (g Granularity) MarshalText() ([]byte, error) {
	if int(g) >= len(granularityNames) {
		return nil, fmt.Errorf("rollcall: no granularity %d", uint8(g))
	}
	return []byte(granularityNames[g]), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (g *Granularity) UnmarshalText(name []byte) error {
	for i, n := range granularityNames {
		if n == string(name) {
			*g = Granularity(i)
			return nil
		}
	}
	return fmt.Errorf("rollcall: unknown granularity %q; there are %s", name, strings.Join(granularityNames[:], ", "))
}

// Availability is what a user says of itself, whatever its devices do.
type Availability uint8

// The availabilities. Available leaves the word to the devices.
const (
	Available Availability = iota
	Away
	DoNotDisturb
	Invisible // everyone else sees a user who is offline
)

var availabilityNames = [...]string{"available", "away", "dnd", "invisible"}

func (a Availability) String() string {
	if int(a) < len(availabilityNames) {
		return availabilityNames[a]
	}
	return fmt.Sprintf("availability(%d)", uint8(a))
}

// MarshalText implements [encoding.TextMarshaler].
func (a Availability) MarshalText() ([]byte, error) {
	if int(a) >= len(availabilityNames) {
		return nil, fmt.Errorf("rollcall: no availability %d", uint8(a))
	}
	return []byte(availabilityNames[a]), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (a *Availability) UnmarshalText(name []byte) error {
	for i, n := range availabilityNames {
		if n == string(name) {
			*a = Availability(i)
			return nil
		}
	}
	return fmt.Errorf("rollcall: unknown availability %q; there are %s", name, strings.Join(availabilityNames[:], ", "))
}

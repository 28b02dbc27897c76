package rollcall

import "fmt"

// Way is a way in which a connection ends. It decides which bound of
// [Params.Bounds] applies.
type Way uint8

// The ways of leaving.
const (
	WayNone        Way = iota
	WayClose           // the device said goodbye, or the edge saw the socket close
	WayHalfOpen        // the device went silent and the edge's idle timeout ran out
	WayEdgeCrash       // the edge's lease ran out
	WayEdgeRestart     // the edge came back as a new process and no longer holds it
	WayReplaced        // a newer connection of the same endpoint took its place
	WayRepaired        // the edge's roster no longer listed it
)

var wayNames = [...]string{"none", "close", "half_open", "edge_crash", "edge_restart", "replaced", "repaired"}

func (w Way) String() string {
	if int(w) < len(wayNames) {
		return wayNames[w]
	}
	return fmt.Sprintf("way(%d)", uint8(w))
}

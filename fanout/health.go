package fanout

import (
	"time"

	"github.com/rollcall-io/rollcall/subjects"
)

// Reasons why a feed is stalled, as viewers read them.
const (
	ReasonKeeperSilent = "keeper_silent" // no pulse: nobody decides who is offline
	ReasonFeedBehind   = "feed_behind"   // the keeper has written what has not arrived here
)

// health decides whether what a shard knows is up to date: the keeper's pulses
// come, and what each of them announces is read within the outage.
type health struct {
	outage     time.Duration
	pulsed     time.Time // the last pulse, or the start
	generation uint64
	reached    uint64 // revision of the views bucket that is read
	moved      time.Time
	ahead      []announcement // pulses whose revision is not reached, oldest first
}

// An announcement is what a pulse said and when.
type announcement struct {
	at       time.Time
	revision uint64
}

// maxAhead bounds the announcements kept; later ones replace the last.
const maxAhead = 256

func newHealth(outage time.Duration, now time.Time) health {
	return health{outage: outage, pulsed: now, moved: now}
}

// pulse takes a pulse into account. One of a lower generation comes from a keeper
// that has lost the shard and is ignored.
func (h *health) pulse(generation, revision uint64, now time.Time) {
	if generation < h.generation {
		return
	}
	if generation > h.generation {
		// What the former keeper announced may have been lost with it.
		h.generation, h.ahead = generation, nil
	}
	h.pulsed = now
	if n := len(h.ahead); revision <= h.reached || n > 0 && h.ahead[n-1].revision >= revision {
		return
	}
	if len(h.ahead) == maxAhead {
		h.ahead = h.ahead[:maxAhead-1]
	}
	if len(h.ahead) == 0 {
		h.moved = now
	}
	h.ahead = append(h.ahead, announcement{now, revision})
}

// reach says that the bucket is read up to a revision.
func (h *health) reach(revision uint64, now time.Time) {
	if revision <= h.reached {
		return
	}
	h.reached, h.moved = revision, now
	for len(h.ahead) > 0 && h.ahead[0].revision <= revision {
		h.ahead = h.ahead[1:]
	}
}

// rollBack says that the bucket is read anew from its beginning.
func (h *health) rollBack() { h.reached = 0 }

func (h *health) state(now time.Time) (subjects.Feed, string) {
	switch {
	case now.Sub(h.pulsed) >= h.outage:
		return subjects.FeedStalled, ReasonKeeperSilent
	case len(h.ahead) > 0 && now.Sub(h.ahead[0].at) >= h.outage:
		return subjects.FeedStalled, ReasonFeedBehind
	}
	return subjects.FeedLive, ""
}

// stuck says for how long nothing has been read although a pulse announced it.
func (h *health) stuck(now time.Time) time.Duration {
	if len(h.ahead) == 0 {
		return 0
	}
	return now.Sub(h.moved)
}

// next is when the state changes if nothing happens; zero if never.
func (h *health) next(now time.Time) (next time.Time) {
	ends := []time.Time{h.pulsed.Add(h.outage)}
	if len(h.ahead) > 0 {
		ends = append(ends, h.ahead[0].at.Add(h.outage))
	}
	for _, end := range ends {
		if end.After(now) && (next.IsZero() || end.Before(next)) {
			next = end
		}
	}
	return next
}

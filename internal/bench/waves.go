package bench

import (
	"cmp"
	"slices"
	"time"
)

// An arrival is a message with changes that a viewer has got.
type arrival struct {
	at             time.Duration // since the measure began
	viewer, shard  int
	bytes, changes int
	data           []byte // of a burst alone
}

// stillness ends a wave: far less than the fanout's window, and more than a
// scheduler's hiccup, which must count against whoever sends.
const stillness = 20 * time.Millisecond

// A wave is messages that came one upon the other.
type wave []arrival

// wavesOf parts arrivals, which are in order of time.
func wavesOf(arrivals []arrival) (waves []wave) {
	begin := 0
	for i := range arrivals {
		if i > begin && arrivals[i].at-arrivals[i-1].at >= stillness {
			waves, begin = append(waves, arrivals[begin:i]), i
		}
	}
	if len(arrivals) > begin {
		waves = append(waves, arrivals[begin:])
	}
	return waves
}

func (w wave) first() time.Duration { return w[0].at }
func (w wave) last() time.Duration  { return w[len(w)-1].at }

// A haul is what some waves brought, and the time that they took without what lay
// between them.
type haul struct {
	messages, changes, bytes int
	first, last, took        time.Duration
}

// count adds what another haul brought, but not its times.
func (h *haul) count(other haul) {
	h.messages, h.changes, h.bytes = h.messages+other.messages, h.changes+other.changes, h.bytes+other.bytes
}

// each is the mean message.
func (h haul) each() (changes, bytes float64) {
	n := float64(max(h.messages, 1))
	return round(float64(h.changes)/n, 2), round(float64(h.bytes)/n, 0)
}

func total(waves []wave) (h haul) {
	for i, w := range waves {
		if i == 0 {
			h.first = w.first()
		}
		h.last = w.last()
		h.took += w.last() - w.first()
		h.messages += len(w)
		for _, a := range w {
			h.changes, h.bytes = h.changes+a.changes, h.bytes+a.bytes
		}
	}
	return h
}

// backlog is how long at least one message was due and had not arrived, in all.
// Arrivals are in order of time.
func backlog(arrivals []arrival, due func(arrival) time.Duration) (sum time.Duration) {
	type span struct{ from, to time.Duration }
	spans := make([]span, len(arrivals))
	for i, a := range arrivals {
		spans[i] = span{min(due(a), a.at), a.at}
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var end time.Duration
	for _, s := range spans {
		if s.to > end {
			sum += s.to - max(s.from, end)
			end = s.to
		}
	}
	return sum
}

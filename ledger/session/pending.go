package session

import (
	"slices"

	"github.com/rollcall-io/rollcall/ledger"
)

// Pending are the events of a session that may still be joined by others, in order.
// Nearly all are heartbeats of an edge, which take a word each.
type pending struct {
	beats  []plain
	others []entry
}

// A plain is a heartbeat without a sequence number and label: its time (44 bits, to the
// year 2527), the place of its epoch (12 bits) and what it says (8 bits).
type plain uint64

const (
	plainTime  = 20
	plainEpoch = 8

	maxPlainTime  = 1 << (64 - plainTime)
	maxPlainEpoch = 1 << (plainTime - plainEpoch)
)

// plain packs an entry; false if it holds more than fits.
func (e entry) plain() (plain, bool) {
	if e.kind != ledger.KindBeat || e.seq != 0 || e.says&saysLabel != 0 || e.at < 0 || e.at >= maxPlainTime || e.epoch >= maxPlainEpoch {
		return 0, false
	}
	return plain(e.at)<<plainTime | plain(e.epoch)<<plainEpoch | plain(e.says), true
}

func (p plain) at() int64 { return int64(p >> plainTime) }

func (p plain) epoch() uint16 { return uint16(p>>plainEpoch) % maxPlainEpoch }

func (p plain) entry() entry {
	return entry{at: p.at(), epoch: p.epoch(), kind: ledger.KindBeat, says: uint8(p)}
}

// insert adds an entry unless it is there.
func (s *session) insert(e entry) (added bool) {
	p, ok := e.plain()
	if !ok {
		s.others, added = enlist(s.others, e, s.compare)
		return added
	}
	if n := len(s.beats); n == 0 || s.beats[n-1].at() < e.at {
		s.beats = append(s.beats, p)
		return true
	}
	s.beats, added = enlist(s.beats, p, s.comparePlain)
	return added
}

func (s *session) comparePlain(a, b plain) int { return s.compare(a.entry(), b.entry()) }

// enlist inserts into a sorted list, mostly at its end.
func enlist[T any](list []T, v T, compare func(a, b T) int) ([]T, bool) {
	if n := len(list); n == 0 || compare(list[n-1], v) < 0 {
		return append(list, v), true
	}
	k, found := slices.BinarySearchFunc(list, v, compare)
	if found {
		return list, false
	}
	return slices.Insert(list, k, v), true
}

func (p *pending) empty() bool { return len(p.beats) == 0 && len(p.others) == 0 }

// first is when the earliest happened; there must be one.
func (p *pending) first() int64 {
	switch {
	case len(p.beats) == 0:
		return p.others[0].at
	case len(p.others) == 0:
		return p.beats[0].at()
	}
	return min(p.beats[0].at(), p.others[0].at)
}

// below calls each in order for what happened before an instant, but for a number of
// heartbeats that come first, and says how much of either list that was.
func (s *session) below(instant int64, skip int, each func(entry)) (beats, others int) {
	for beats = skip; ; {
		beat, other := beats < len(s.beats) && s.beats[beats].at() < instant, others < len(s.others) && s.others[others].at < instant
		switch {
		case beat && (!other || s.compare(s.beats[beats].entry(), s.others[others]) < 0):
			each(s.beats[beats].entry())
			beats++
		case other:
			each(s.others[others])
			others++
		default:
			return beats, others
		}
	}
}

// drop forgets the first of either list, and gives memory back after a crowd.
func (p *pending) drop(beats, others int) {
	p.beats, p.others = behind(p.beats, beats), behind(p.others, others)
}

func behind[T any](list []T, n int) []T {
	const small = 64
	if n == len(list) && (n == 0 || cap(list) > small) {
		return nil
	}
	if rest := list[n:]; cap(list) > small && len(rest) < cap(list)/4 {
		return slices.Clone(rest)
	}
	return append(list[:0], list[n:]...)
}

package session

import (
	"cmp"

	"github.com/rollcall-io/rollcall/ledger"
)

// An entry is an event of a known session, in 24 bytes.
type entry struct {
	at    int64
	seq   uint64
	epoch uint16 // place in the session's epochs
	kind  ledger.Kind
	says  uint8
	label uint8 // place in the definition's labels, from 1
}

// What an event says beside its kind.
const (
	saysForeground = 1 << iota
	saysActive
	saysState // the two above are the device's word
	saysLabel
)

// Flags that [Builder.Beat] takes: those of [subjects.Beat].
const (
	FlagForeground = saysForeground
	FlagActive     = saysActive
)

// rank orders what happened in one millisecond: beats at the close still count, and
// who reconnects does so before the connection that is replaced ends.
func (e entry) rank() int {
	switch e.kind {
	case ledger.KindOpen:
		return 0
	case ledger.KindClose, ledger.KindTimeout, ledger.KindLogout:
		return 2
	}
	return 1
}

// off says whether the last word about the foreground should be this one's, among
// those of one instant: time that is not certain is not counted.
func (e entry) off() int {
	if on, said := e.foreground(); said && !on {
		return 1
	}
	if on, said := e.active(); said && !on {
		return 1
	}
	return 0
}

// foreground is what the entry says of the app.
func (e entry) foreground() (on, said bool) {
	if e.says&saysState != 0 {
		return e.says&saysForeground != 0, true
	}
	return e.kind == ledger.KindForeground, e.kind == ledger.KindForeground || e.kind == ledger.KindBackground
}

// active is what it says of the user.
func (e entry) active() (on, said bool) {
	if e.says&saysState != 0 {
		return e.says&saysActive != 0, true
	}
	return e.kind == ledger.KindActive, e.kind == ledger.KindActive || e.kind == ledger.KindIdle
}

// compare is the order in which the entries of a session happened. It is total: only
// the same event is equal.
func (s *session) compare(a, b entry) int {
	if a.at != b.at {
		return cmp.Compare(a.at, b.at)
	}
	return cmp.Or(
		cmp.Compare(a.rank(), b.rank()), cmp.Compare(s.epochs[a.epoch], s.epochs[b.epoch]),
		cmp.Compare(a.seq, b.seq), cmp.Compare(a.off(), b.off()), cmp.Compare(a.kind, b.kind),
		cmp.Compare(a.says, b.says), cmp.Compare(a.label, b.label),
	)
}

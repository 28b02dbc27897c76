package fanout

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/rollcall-io/rollcall/subjects"
)

// The appenders write what encoding/json would write for the types of package
// subjects, in a tenth of the time; a property test holds them equal.

// maxViewBytes is more than any view takes: three strings of which every byte is
// escaped, and the fixed parts.
const maxViewBytes = 6*(128+subjects.MaxActivity+subjects.MaxStatusText) + 256

func appendView(b []byte, target string, l look, version uint64) []byte {
	b = appendHead(b, target, &l)
	b = strconv.AppendUint(b, version, 10)
	return appendTail(b, &l)
}

// A text is a look as viewers read it, written once for all of them. It never changes.
type text struct {
	look
	written []byte // all but the version
	head    int    // how much of it comes before the version
}

func newText(target string, l look) *text {
	t := &text{look: l, written: appendHead(make([]byte, 0, usualViewBytes), target, &l)}
	t.head = len(t.written)
	t.written = slices.Clip(slices.Clone(appendTail(t.written, &l)))
	return t
}

// append writes the view under a version.
func (t *text) append(b []byte, version uint64) []byte {
	b = append(b, t.written[:t.head]...)
	b = strconv.AppendUint(b, version, 10)
	return append(b, t.written[t.head:]...)
}

// appendHead writes what comes before a view's version.
func appendHead(b []byte, target string, l *look) []byte {
	b = append(b, `{"target":`...)
	b = appendString(b, target)
	b = append(b, `,"status":"`...)
	b = append(b, l.statusName()...)
	b = append(b, '"')
	if state := l.stateName(); state != "" {
		b = append(b, `,"state":"`...)
		b = append(b, state...)
		b = append(b, '"')
	}
	if l.activity != "" {
		b = append(b, `,"activity":`...)
		b = appendString(b, l.activity)
	}
	if availability := l.availabilityName(); availability != "" {
		b = append(b, `,"availability":"`...)
		b = append(b, availability...)
		b = append(b, '"')
	}
	if l.text != "" {
		b = append(b, `,"text":`...)
		b = appendString(b, l.text)
	}
	return append(b, `,"version":`...)
}

// appendTail writes what comes after it.
func appendTail(b []byte, l *look) []byte {
	if !l.observed.IsZero() {
		b = append(b, `,"observed_at_minute":`...)
		b = appendMinute(b, l.observed)
	}
	if !l.seen.IsZero() {
		b = append(b, `,"last_seen_minute":`...)
		b = appendMinute(b, l.seen)
	}
	return append(b, '}')
}

func appendMinute(b []byte, m subjects.Minute) []byte {
	b = append(b, '"')
	b = m.Time().AppendFormat(b, time.RFC3339)
	return append(b, '"')
}

// appendPosition writes the fields of a position without the braces, because
// snapshots and messages embed it.
func appendPosition(b []byte, p subjects.Position) []byte {
	b = append(b, `"shard":`...)
	b = strconv.AppendInt(b, int64(p.Shard), 10)
	b = append(b, `,"generation":`...)
	b = strconv.AppendUint(b, p.Generation, 10)
	b = append(b, `,"seq":`...)
	b = strconv.AppendUint(b, p.Seq, 10)
	b = append(b, `,"feed":`...)
	b = appendString(b, string(p.Feed))
	if p.Reason != "" {
		b = append(b, `,"reason":`...)
		b = appendString(b, p.Reason)
	}
	b = append(b, `,"targets":`...)
	return strconv.AppendInt(b, int64(p.Targets), 10)
}

// appendString writes a JSON string. What encoding/json escapes is left to it.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, err := json.Marshal(s)
			if err != nil {
				panic(err) // no string fails
			}
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

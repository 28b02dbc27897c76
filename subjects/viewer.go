package subjects

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/rollcall-io/rollcall"
)

// Op is an operation that a viewer requests.
type Op string

// The operations. Subscribe adds targets to the viewer's interest and returns
// their views now; Get returns views once; Unsubscribe removes the named targets,
// or all if none is named; Refresh keeps the interest alive and returns where each
// of the viewer's streams stands.
const (
	OpSubscribe   Op = "subscribe"
	OpUnsubscribe Op = "unsubscribe"
	OpGet         Op = "get"
	OpRefresh     Op = "refresh"
)

// Ops lists every operation.
var Ops = [...]Op{OpSubscribe, OpUnsubscribe, OpGet, OpRefresh}

// MaxTargets is the most targets that one request may name, and the most that one
// viewer may be subscribed to.
const MaxTargets = 10_000

// Code is a stable error code of the viewer's contract, carried in the header
// Nats-Service-Error-Code.
type Code string

// The error codes.
const (
	CodeInvalidRequest Code = "invalid_request"  // not JSON, not UTF-8, wrong shape, or a viewer that is no id
	CodeInvalidID      Code = "invalid_id"       // a target that is no id
	CodeNoTargets      Code = "no_targets"       // an empty list where targets are needed
	CodeTooManyTargets Code = "too_many_targets" // more than MaxTargets in the request or the interest
	CodeTooLarge       Code = "too_large"        // the answer exceeds the server's message limit; ask in parts
	CodeUnavailable    Code = "unavailable"      // the shard's owner is starting; try again
	CodeRateLimited    Code = "rate_limited"     // too many requests of this viewer; try again later
	CodeTooMany        Code = "too_many"         // a list of the policy would grow beyond its limit
	CodeInternal       Code = "internal"
)

// Error is a refusal under the viewer's contract.
type Error struct {
	Code    Code
	Message string
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Is makes errors of the same code equal for errors.Is.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// Errorf builds a refusal.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{code, fmt.Sprintf(format, args...)}
}

// Request is the body of subscribe, unsubscribe and get.
type Request struct {
	Targets []string `json:"targets,omitempty"`
}

// DecodeRequest reads and checks a request's body. Duplicates are kept out of the
// result, the order of first mention stays. An empty body or list is allowed only
// if needTargets is false, null in place of the list never. The error is an [*Error].
func DecodeRequest(b []byte, needTargets bool) (Request, error) {
	var r Request
	if len(bytes.TrimSpace(b)) > 0 {
		if err := decodeJSON(b, &r); err != nil {
			return Request{}, Errorf(CodeInvalidRequest, "%v", err)
		}
		if name := nullField(b, r); name != "" {
			return Request{}, Errorf(CodeInvalidRequest, "%s is null", name)
		}
	}
	if len(r.Targets) == 0 && needTargets {
		return Request{}, Errorf(CodeNoTargets, "name at least one target")
	}
	if len(r.Targets) > MaxTargets {
		return Request{}, Errorf(CodeTooManyTargets, "%d targets, the limit is %d", len(r.Targets), MaxTargets)
	}
	seen := make(map[string]bool, len(r.Targets))
	unique := r.Targets[:0]
	for i, target := range r.Targets {
		if err := rollcall.CheckID(target); err != nil {
			return Request{}, Errorf(CodeInvalidID, "target %d: %v", i, err)
		}
		if !seen[target] {
			seen[target] = true
			unique = append(unique, target)
		}
	}
	r.Targets = unique
	return r, nil
}

// StatusWithdrawn is the status of the last event about a target that the viewer
// may no longer see or that is gone. Nothing else of the target is told; it does
// not occur in answers, from which such a target is absent.
const StatusWithdrawn rollcall.Status = "withdrawn"

// View is what one viewer may know of one target, and a change event about it. A
// target that is not in an answer is one that the viewer may not see, which is
// not the same as offline.
type View struct {
	Target string          `json:"target"`
	Status rollcall.Status `json:"status"`
	// State is "active", "idle" or "background" while the target is online.
	State string `json:"state,omitempty"`
	// Activity is the application's label for what the target is doing.
	Activity string `json:"activity,omitempty"`
	// Availability is "away" or "dnd" if the target says so while it is online; to
	// oneself also "invisible".
	Availability string `json:"availability,omitempty"`
	// Text is what the target says of itself while it is online.
	Text string `json:"text,omitempty"`
	// Version only grows for one target and viewer; drop what is older.
	Version uint64 `json:"version"`
	// ObservedAtMinute is when the fabric saw the change, cut to the minute.
	ObservedAtMinute Minute `json:"observed_at_minute,omitzero"`
	// LastSeenMinute is the last sign of life of a target that is offline.
	LastSeenMinute Minute `json:"last_seen_minute,omitzero"`
}

// Minute is an instant cut to the minute, in JSON an RFC 3339 time in UTC.
type Minute int64

// lastMinute is the last that RFC 3339 can write.
var lastMinute = Minute(time.Date(9999, 12, 31, 23, 59, 0, 0, time.UTC).Unix() / 60)

// MinuteOf cuts an instant; the zero instant stays zero. An absurd instant becomes
// the nearest one since 1970 that JSON can carry.
func MinuteOf(m rollcall.Micros) Minute {
	return min(max(Minute(int64(m)/time.Minute.Microseconds()), 0), lastMinute)
}

// Time is the start of the minute.
func (m Minute) Time() time.Time { return time.Unix(int64(m)*60, 0).UTC() }

// IsZero reports an instant that is not known.
func (m Minute) IsZero() bool { return m == 0 }

// MarshalJSON implements [json.Marshaler].
func (m Minute) MarshalJSON() ([]byte, error) {
	return m.Time().AppendFormat(make([]byte, 0, 24), `"`+time.RFC3339+`"`), nil
}

// UnmarshalJSON implements [json.Unmarshaler].
func (m *Minute) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil // as every Unmarshaler does
	}
	var t time.Time
	if err := json.Unmarshal(b, &t); err != nil {
		return err
	}
	if year := t.UTC().Year(); year < 0 || year > 9999 {
		return fmt.Errorf("subjects: minute %s is out of range in UTC", b)
	}
	*m = Minute(t.Unix() / 60)
	return nil
}

// Feed says whether what a stream tells is up to date.
type Feed string

// The feed states. While a feed is stalled every view of its shard is unknown,
// whatever was said before; once it is live again, what was said before holds,
// with the changes sent since.
const (
	FeedLive    Feed = "live"
	FeedStalled Feed = "stalled"
)

// Position is where a viewer's stream in one shard stands. A stream is numbered
// by Seq within one Generation of the shard's owner.
type Position struct {
	Shard      int    `json:"shard"`
	Generation uint64 `json:"generation"`
	// Seq is the number of the last message sent on the stream.
	Seq  uint64 `json:"seq"`
	Feed Feed   `json:"feed"`
	// Reason says why the feed is stalled.
	Reason string `json:"reason,omitempty"`
	// Targets is how many targets the viewer is subscribed to in the shard.
	Targets int `json:"targets"`
}

// ShardSnapshot is the part of an answer that concerns one shard.
type ShardSnapshot struct {
	Position
	Views []View `json:"views,omitempty"`
}

// Reply is the answer to every operation.
type Reply struct {
	Shards []ShardSnapshot `json:"shards"`
}

// Message is what a viewer receives on its stream of one shard. Every message that
// says something new has the next Seq. A client must know that
//
//   - a message with the last Seq again and without changes confirms that nothing
//     was lost; it comes a moment after the last message of a burst;
//   - a message about the feed, or of a new Generation, has the next Seq and never
//     carries changes;
//   - a message without changes at the next Seq that says of the feed what was said
//     before stands for one that was lost, or for targets that another client of the
//     same viewer has unsubscribed from: subscribe again. Your own unsubscribing is
//     told by Targets, which is lower by as many as you named;
//   - after an answer in which a target is absent, events about it with a Seq up to
//     that answer's are outdated.
type Message struct {
	Position
	Changes []View `json:"changes,omitempty"`
}

// DecodeReply reads an answer.
func DecodeReply(b []byte) (Reply, error) {
	var r Reply
	if err := decodeJSON(b, &r); err != nil {
		return Reply{}, err
	}
	return r, nil
}

// DecodeMessage reads a message of a viewer's stream.
func DecodeMessage(b []byte) (Message, error) {
	var m Message
	if err := decodeJSON(b, &m); err != nil {
		return Message{}, err
	}
	return m, nil
}

func decodeJSON(b []byte, into any) error {
	if !utf8.Valid(b) {
		return fmt.Errorf("%w: not UTF-8", ErrMalformed)
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if hasLoneSurrogate(b) {
		return fmt.Errorf("%w: half a surrogate pair", ErrMalformed)
	}
	return nil
}

// hasLoneSurrogate finds an escape in valid JSON that stands for no character.
// encoding/json reads U+FFFD in its place, which would be another id than the one
// that was sent, and the same one for all of them.
func hasLoneSurrogate(b []byte) bool {
	for {
		i := bytes.IndexByte(b, '\\')
		if i < 0 {
			return false
		}
		first, ok := escaped(b[i:])
		if !ok {
			b = b[i+2:]
			continue
		}
		b = b[i+6:]
		if !utf16.IsSurrogate(first) {
			continue
		}
		second, _ := escaped(b)
		if utf16.DecodeRune(first, second) == utf8.RuneError {
			return true
		}
		b = b[6:]
	}
}

// escaped reads the \uXXXX that b starts with.
func escaped(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	v, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	return rune(v), err == nil
}

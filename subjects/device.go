package subjects

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"github.com/rollcall-io/rollcall"
)

// DeviceOp is an operation that a device requests of a front door, over HTTP, WebSocket
// or NATS.
type DeviceOp string

// The operations. A session is one connection of one device; whatever a front door says
// about it that it does not know, the device answers with a new Open.
const (
	DeviceOpen      DeviceOp = "open"      // [DeviceOpenRequest] → [DeviceOpenAnswer]
	DeviceHeartbeat DeviceOp = "heartbeat" // [DeviceHeartbeatRequest] → [DeviceAnswer]
	DeviceState     DeviceOp = "state"     // [DeviceStateRequest] → [DeviceAnswer]
	DeviceClose     DeviceOp = "close"     // [DeviceCloseRequest] → [DeviceAnswer]
)

// DeviceOps lists every operation.
var DeviceOps = [...]DeviceOp{DeviceOpen, DeviceHeartbeat, DeviceState, DeviceClose}

// What a front door says by itself over a WebSocket, before it closes it.
const (
	DeviceSuperseded DeviceOp = "superseded" // the device is connected elsewhere
	DeviceDead       DeviceOp = "dead"       // the idle timeout has passed
)

// Reasons of a close.
const (
	DeviceGoodbye = "goodbye"
	DeviceLogout  = "logout"
)

// MaxDeviceSeq is the highest sequence number of a heartbeat.
const MaxDeviceSeq = math.MaxUint32 - 1

// DeviceCode is a stable error code of the device protocol.
type DeviceCode string

// The error codes.
const (
	DeviceUnregistered     DeviceCode = "UNREGISTERED"       // no such session, or no longer: open again, after a random pause
	DeviceUnauthenticated  DeviceCode = "UNAUTHENTICATED"    // no token, or one that is not believed
	DeviceForbidden        DeviceCode = "FORBIDDEN"          // the token, or the page, may not do this
	DeviceInvalid          DeviceCode = "INVALID"            // not JSON, a field that is missing or of the wrong kind
	DeviceTooLarge         DeviceCode = "TOO_LARGE"          // the message is longer than the limit
	DeviceRateLimited      DeviceCode = "RATE_LIMITED"       // too much of this session, user or address
	DeviceUnavailable      DeviceCode = "UNAVAILABLE"        // not now, or not here
	DeviceNotFound         DeviceCode = "NOT_FOUND"          // no such path or operation
	DeviceMethodNotAllowed DeviceCode = "METHOD_NOT_ALLOWED" // the path is called in another way
	DeviceInternal         DeviceCode = "INTERNAL"
)

// DeviceCodes lists every error code.
var DeviceCodes = [...]DeviceCode{
	DeviceUnregistered, DeviceUnauthenticated, DeviceForbidden, DeviceInvalid, DeviceTooLarge, DeviceRateLimited,
	DeviceUnavailable, DeviceNotFound, DeviceMethodNotAllowed, DeviceInternal,
}

// DeviceError is a refusal under the device protocol.
type DeviceError struct {
	Code    DeviceCode
	Message string
	// RetryAfter is how long to wait at least; zero if it is not known.
	RetryAfter time.Duration
}

func (e *DeviceError) Error() string { return string(e.Code) + ": " + e.Message }

// Is makes errors of the same code equal for errors.Is.
func (e *DeviceError) Is(target error) bool {
	t, ok := target.(*DeviceError)
	return ok && t.Code == e.Code
}

// DeviceErrorOf is an error as the protocol tells it: what is no refusal is internal.
func DeviceErrorOf(err error) *DeviceError {
	var refusal *DeviceError
	if errors.As(err, &refusal) {
		return refusal
	}
	return DeviceErrorf(DeviceInternal, "%v", err)
}

// DeviceErrorf builds a refusal.
func DeviceErrorf(code DeviceCode, format string, args ...any) *DeviceError {
	return &DeviceError{Code: code, Message: fmt.Sprintf(format, args...)}
}

type deviceError struct {
	Code         DeviceCode `json:"code"`
	Message      string     `json:"message"`
	RetryAfterMs int64      `json:"retryAfterMs,omitempty"`
}

// MarshalJSON implements [json.Marshaler].
func (e *DeviceError) MarshalJSON() ([]byte, error) {
	return json.Marshal(deviceError{e.Code, e.Message, e.RetryAfter.Milliseconds()})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (e *DeviceError) UnmarshalJSON(b []byte) error {
	var read deviceError
	if err := json.Unmarshal(b, &read); err != nil {
		return err
	}
	*e = DeviceError{read.Code, read.Message, time.Duration(read.RetryAfterMs) * time.Millisecond}
	return nil
}

// DeviceRefusal is the body of a refusal.
type DeviceRefusal struct {
	Error *DeviceError `json:"error"`
}

// DeviceClient is what a session runs on, for reports of online time.
type DeviceClient struct {
	Type    string `json:"type,omitempty"`
	Version string `json:"version,omitempty"`
	Channel string `json:"channel,omitempty"`
	Region  string `json:"region,omitempty"`
}

// DeviceOpenRequest begins a session.
type DeviceOpenRequest struct {
	Device     string `json:"device"`
	Foreground *bool  `json:"foreground"`
	Active     *bool  `json:"active"`
	Activity   string `json:"activity,omitempty"`
	// Session is the application's name of a session that goes on when the device
	// connects again.
	Session string       `json:"session,omitempty"`
	Client  DeviceClient `json:"client,omitzero"`
	// Token is for those who cannot send it in a header.
	Token string `json:"token,omitempty"`
}

// DeviceSession names the session of a request.
type DeviceSession struct {
	SessionID    string `json:"sessionId,omitempty"`
	SessionEpoch int64  `json:"sessionEpoch,omitempty"`
}

// DeviceHeartbeatRequest says that the device lives, and what is different since the
// last time.
type DeviceHeartbeatRequest struct {
	DeviceSession
	Seq        uint32  `json:"seq"` // from 1 on; what is not above the last is late
	Foreground *bool   `json:"foreground,omitempty"`
	Active     *bool   `json:"active,omitempty"`
	Activity   *string `json:"activity,omitempty"`
}

// DeviceStateRequest says what the device does now.
type DeviceStateRequest struct {
	DeviceSession
	Foreground *bool  `json:"foreground"`
	Active     *bool  `json:"active"`
	Activity   string `json:"activity,omitempty"`
}

// DeviceCloseRequest ends a session.
type DeviceCloseRequest struct {
	DeviceSession
	Reason string `json:"reason,omitempty"` // [DeviceGoodbye] if empty
	Token  string `json:"token,omitempty"`  // for those who cannot send it in a header
}

// DeviceAnswer is the answer to whatever keeps a session going, or ends it.
type DeviceAnswer struct {
	// ServerTime is the store's clock, as the front door estimates it.
	ServerTime DeviceTime `json:"serverTime"`
	// NextHeartbeatInMs is when the next heartbeat should come; absent after a close.
	NextHeartbeatInMs int64 `json:"nextHeartbeatInMs,omitempty"`
}

// DeviceOpenAnswer is the answer to an open.
type DeviceOpenAnswer struct {
	SessionID string `json:"sessionId"`
	// SessionEpoch orders the sessions of a device: the instant in µs at which this one
	// was established.
	SessionEpoch        int64 `json:"sessionEpoch"`
	HeartbeatIntervalMs int64 `json:"heartbeatIntervalMs"`
	// IdleThresholdMs without input make an active device idle.
	IdleThresholdMs int64 `json:"idleThresholdMs"`
	// IdleTimeoutMs without a heartbeat end the session.
	IdleTimeoutMs int64 `json:"idleTimeoutMs"`
	DeviceAnswer
}

// DeviceTime is an instant of store time, in JSON an RFC 3339 time in UTC with
// milliseconds.
type DeviceTime rollcall.Micros

const deviceTimeLayout = "2006-01-02T15:04:05.000Z07:00"

// MarshalJSON implements [json.Marshaler].
func (t DeviceTime) MarshalJSON() ([]byte, error) {
	return rollcall.Micros(t).Time().AppendFormat(make([]byte, 0, 32), `"`+deviceTimeLayout+`"`), nil
}

// UnmarshalJSON implements [json.Unmarshaler].
func (t *DeviceTime) UnmarshalJSON(b []byte) error {
	var read time.Time
	if err := json.Unmarshal(b, &read); err != nil {
		return err
	}
	*t = DeviceTime(rollcall.MicrosOf(read))
	return nil
}

// DecodeDevice reads the body of a request. A field that is null is refused. The error
// is a [*DeviceError] that names what is wrong.
func DecodeDevice(b []byte, into any) error {
	if err := decodeJSON(b, into); err != nil {
		return DeviceErrorf(DeviceInvalid, "%s", jsonTrouble(err))
	}
	if name := nullField(b, into); name != "" {
		return DeviceErrorf(DeviceInvalid, "%s is null", name)
	}
	return nil
}

// jsonTrouble is what is wrong, in words that do not name types of Go.
func jsonTrouble(err error) string {
	var kind *json.UnmarshalTypeError
	if !errors.As(err, &kind) {
		return err.Error()
	}
	if kind.Field == "" {
		return "the body is a " + kind.Value + ", not an object"
	}
	return fmt.Sprintf("%s is of the wrong kind, or out of range: %s", kind.Field, kind.Value)
}

// Check refuses what cannot be told of a device.
func (r DeviceOpenRequest) Check() error {
	if err := rollcall.CheckID(r.Device); err != nil {
		return DeviceErrorf(DeviceInvalid, "device: %v", err)
	}
	if r.Session != "" {
		if err := rollcall.CheckID(r.Session); err != nil {
			return DeviceErrorf(DeviceInvalid, "session: %v", err)
		}
	}
	for name, text := range map[string]string{
		"type": r.Client.Type, "version": r.Client.Version, "channel": r.Client.Channel, "region": r.Client.Region,
	} {
		if err := checkText("client."+name, text, MaxClient); err != nil {
			return err
		}
	}
	return checkState(r.Foreground, r.Active, r.Activity)
}

// Check refuses what is no heartbeat.
func (r DeviceHeartbeatRequest) Check() error {
	if r.Seq < 1 || r.Seq > MaxDeviceSeq {
		return DeviceErrorf(DeviceInvalid, "seq is missing, or not between 1 and %d", uint32(MaxDeviceSeq))
	}
	if r.Activity != nil {
		return checkText("activity", *r.Activity, MaxActivity)
	}
	return nil
}

// Check refuses what is no state.
func (r DeviceStateRequest) Check() error { return checkState(r.Foreground, r.Active, r.Activity) }

// Check refuses a reason that there is not.
func (r DeviceCloseRequest) Check() error {
	switch r.Reason {
	case "", DeviceGoodbye, DeviceLogout:
		return nil
	}
	return DeviceErrorf(DeviceInvalid, "reason is neither %q nor %q", DeviceGoodbye, DeviceLogout)
}

// Check refuses a request that does not name its session.
func (s DeviceSession) Check() error {
	switch {
	case s.SessionID == "":
		return DeviceErrorf(DeviceInvalid, "sessionId is missing")
	case s.SessionEpoch == 0:
		return DeviceErrorf(DeviceInvalid, "sessionEpoch is missing")
	}
	return nil
}

func checkState(foreground, active *bool, activity string) error {
	switch {
	case foreground == nil:
		return DeviceErrorf(DeviceInvalid, "foreground is missing")
	case active == nil:
		return DeviceErrorf(DeviceInvalid, "active is missing")
	}
	return checkText("activity", activity, MaxActivity)
}

func checkText(name, text string, limit int) error {
	switch {
	case len(text) > limit:
		return DeviceErrorf(DeviceInvalid, "%s has %d bytes, the limit is %d", name, len(text), limit)
	case !utf8.ValidString(text):
		return DeviceErrorf(DeviceInvalid, "%s is not UTF-8", name)
	}
	return nil
}

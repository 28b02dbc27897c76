package interval

import "errors"

var (
	// ErrInstant is an interval that ends before it starts, or lies outside
	// [Earliest] and [Latest].
	ErrInstant = errors.New("interval: instants out of order or out of range")

	// ErrOrder is input that had to be sorted by start and was not.
	ErrOrder = errors.New("interval: not sorted by start")

	// ErrRule is a definition that makes no sense; the wrapping says why.
	ErrRule = errors.New("interval: invalid rule")

	// ErrClosed is a beat after the close of its session. It changed nothing.
	ErrClosed = errors.New("interval: beat after close")

	// ErrSettled is a beat or close in a time whose intervals were already handed
	// out as final. It changed nothing.
	ErrSettled = errors.New("interval: time already settled")

	// ErrOverrun is a close amid beats that were already counted. The session ends at
	// the close; the last beat before it is no longer known.
	ErrOverrun = errors.New("interval: close before counted beats")

	// ErrForeground is foreground time in which the device was not connected.
	ErrForeground = errors.New("interval: foreground exceeds connected")

	// ErrActive is active time that was not in the foreground.
	ErrActive = errors.New("interval: active exceeds foreground")

	// ErrZone is a name that is no IANA time zone.
	ErrZone = errors.New("interval: unknown time zone")
)

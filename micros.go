package rollcall

import "time"

// Micros is an instant of store time in microseconds since the Unix epoch. The
// zero value means "not known".
type Micros int64

// MicrosOf converts a time.
func MicrosOf(t time.Time) Micros { return Micros(t.UnixMicro()) }

// Time converts to a UTC time.
func (m Micros) Time() time.Time { return time.UnixMicro(int64(m)).UTC() }

// Add returns m+d.
func (m Micros) Add(d time.Duration) Micros { return m + Micros(d.Microseconds()) }

// Sub returns the duration m-n.
func (m Micros) Sub(n Micros) time.Duration { return time.Duration(m-n) * time.Microsecond }

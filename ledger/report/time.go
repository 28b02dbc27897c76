package report

import "time"

// instant writes an instant to the millisecond, in UTC, with a fixed width.
func instant(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }

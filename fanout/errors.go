package fanout

import "errors"

// Errors of this package. What viewers hear is a [subjects.Error].
var (
	// ErrConfig is returned, wrapped with the reason, by New.
	ErrConfig = errors.New("fanout: configuration refused")
	// ErrRunning says that Run was called twice.
	ErrRunning = errors.New("fanout: already running")
)

package archive

import "errors"

// Errors of this package.
var (
	ErrNone    = errors.New("archive: no archive")
	ErrForeign = errors.New("archive: of another fabric")
	ErrDamaged = errors.New("archive: damaged")
	ErrBusy    = errors.New("archive: another process archives into it")
	// ErrForgotten says that somebody was forgotten while events waited to be committed:
	// they must be read again.
	ErrForgotten = errors.New("archive: a user was forgotten meanwhile")
)

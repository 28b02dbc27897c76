package archive

import "errors"

// Errors of this package.
var (
	ErrNone    = errors.New("archive: no archive")
	ErrForeign = errors.New("archive: of another fabric")
	ErrDamaged = errors.New("archive: damaged")
	ErrBusy    = errors.New("archive: another process archives into it")

	// errForgotten says that somebody was forgotten while events waited: they are read again.
	errForgotten = errors.New("archive: a user was forgotten meanwhile")
)

// Package filelock holds locks on files, between processes and within one. The lock
// counts, not that its file is there: a crash leaves nothing behind that must be
// cleaned up.
package filelock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// ErrHeld says that somebody else holds a lock.
var ErrHeld = errors.New("filelock: held by another process")

// A Lock is held until it is released or the process ends.
type Lock struct{ file *os.File }

// Release gives the lock up: closing the file ends it.
func (l *Lock) Release() error { return l.file.Close() }

// Mode is who else may hold a lock at the same time.
type Mode bool

// The modes.
const (
	Exclusive Mode = false // nobody
	Shared    Mode = true  // those who share it
)

// Try takes a lock, or fails with [ErrHeld]. The file is made if missing, and stays.
func Try(path string, mode Mode) (*Lock, error) {
	file, err := open(path, mode)
	if err != nil {
		return nil, err
	}
	if err := try(file, mode); err != nil {
		file.Close()
		return nil, fmt.Errorf("%w: %s", ErrHeld, path) // the system's reason says no more
	}
	return &Lock{file}, nil
}

// open needs no right to write if the file is there and the lock is shared.
func open(path string, mode Mode) (*os.File, error) {
	if mode == Shared {
		if file, err := os.Open(path); !errors.Is(err, fs.ErrNotExist) {
			return file, err
		}
	}
	return os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
}

// again is how long to wait before trying again: no system can wait for a lock and for
// a context at once.
const again = 20 * time.Millisecond

// Wait takes a lock as soon as it is free.
func Wait(ctx context.Context, path string, mode Mode) (*Lock, error) {
	for {
		l, err := Try(path, mode)
		if !errors.Is(err, ErrHeld) {
			return l, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(again):
		}
	}
}

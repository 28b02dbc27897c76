package natsd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rollcall-io/rollcall/internal/filelock"
)

const lockFile = "rollcall.lock"

// lockDir makes the directory and claims it for this server. Two servers on one
// directory would destroy each other's streams.
func lockDir(dir string) (*filelock.Lock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("natsd: store directory %s: %w", dir, err)
	}
	lock, err := filelock.Try(filepath.Join(dir, lockFile), filelock.Exclusive)
	if errors.Is(err, filelock.ErrHeld) {
		return nil, fmt.Errorf("%w: %s", ErrLocked, dir)
	}
	if err != nil {
		return nil, fmt.Errorf("natsd: store directory %s is not writable: %w", dir, err)
	}
	return lock, nil
}

package natsd

import (
	"fmt"
	"os"
	"path/filepath"
)

// lockFile stays in the store directory; the lock on it, not its presence, counts,
// so that a crash leaves nothing behind that must be cleaned up.
const lockFile = "rollcall.lock"

type lock struct{ file *os.File }

// lockDir makes the directory and claims it for this server. Two servers on one
// directory would destroy each other's streams.
func lockDir(dir string) (*lock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("natsd: store directory %s: %w", dir, err)
	}
	file, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("natsd: store directory %s is not writable: %w", dir, err)
	}
	if err := tryLock(file); err != nil {
		file.Close()
		return nil, fmt.Errorf("%w: %s", ErrLocked, dir) // the system's reason says no more
	}
	return &lock{file}, nil
}

// release frees the directory: closing the file ends the lock.
func (l *lock) release() error { return l.file.Close() }

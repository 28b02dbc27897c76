//go:build !windows

package natsd

import (
	"os"

	"golang.org/x/sys/unix"
)

// tryLock holds as long as the file is open. It excludes a second open of the file
// by the same process too.
func tryLock(file *os.File) error {
	return unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
}

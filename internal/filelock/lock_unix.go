//go:build !windows

package filelock

import (
	"os"

	"golang.org/x/sys/unix"
)

// try holds as long as the file is open. It excludes a second open of the file by the
// same process too.
func try(file *os.File, mode Mode) error {
	how := unix.LOCK_EX
	if mode == Shared {
		how = unix.LOCK_SH
	}
	return unix.Flock(int(file.Fd()), how|unix.LOCK_NB)
}

package natsd

import (
	"os"

	"golang.org/x/sys/windows"
)

// tryLock holds as long as the file is open.
func tryLock(file *os.File) error {
	return windows.LockFileEx(windows.Handle(file.Fd()),
		windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, new(windows.Overlapped))
}

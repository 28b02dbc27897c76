//go:build unix

package archive

import (
	"syscall"
	"time"
)

// processor is the time that this process has had, collector included, so that what
// else the machine does makes no difference.
func processor() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

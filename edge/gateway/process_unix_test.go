//go:build unix

package gateway_test

import (
	"syscall"
	"time"
)

// raiseFiles lets this process have as many files open as it needs, if it may, otherwise
// as many as it is given, and says how many that is.
func raiseFiles() (limit uint64) {
	l := syscall.Rlimit{Cur: 1 << 17, Max: 1 << 17}
	if syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l) != nil && syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) == nil {
		l.Cur = l.Max
		syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l)
	}
	return uint64(l.Cur)
}

// processorTime is what this process has used.
func processorTime() time.Duration {
	var used syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

//go:build unix

package gateway_test

import (
	"syscall"
	"time"
)

// raiseFiles lets a process have as many files open as it needs, if it may; otherwise as
// many as it has.
func raiseFiles() {
	limit := syscall.Rlimit{Cur: 1 << 17, Max: 1 << 17}
	if syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit) == nil {
		return
	}
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil {
		limit.Cur = limit.Max
		syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
	}
}

// processorTime is what this process has used.
func processorTime() time.Duration {
	var used syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

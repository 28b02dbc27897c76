//go:build !unix

package gateway_test

import "time"

func raiseFiles() uint64 { return 0 }

func processorTime() time.Duration { return 0 }
